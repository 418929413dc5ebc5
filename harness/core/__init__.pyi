from . import (
    errors as errors,
)
from . import (
    temporary_files as temporary_files,
)
from . import (
    terminal as terminal,
)
from .arguments import (
    CommandParser as CommandParser,
)
from .arguments import (
    positive_int as positive_int,
)
from .catalogue import (
    GROUPS as GROUPS,
)
from .catalogue import (
    choices as choices,
)
from .catalogue import (
    full_source as full_source,
)
from .catalogue import (
    is_shared as is_shared,
)
from .catalogue import (
    list_options as list_options,
)
from .catalogue import (
    own_choices as own_choices,
)
from .catalogue import (
    source as source,
)
from .causal_model import (
    CausalModel as CausalModel,
)
from .causal_model import (
    ModelInfo as ModelInfo,
)
from .errors import (
    DataError as DataError,
)
from .errors import (
    HarnessError as HarnessError,
)
from .errors import (
    MissingExtra as MissingExtra,
)
from .errors import (
    MissingFileError as MissingFileError,
)
from .errors import (
    MissingModelError as MissingModelError,
)
from .errors import (
    SpecError as SpecError,
)
from .errors import (
    StoreError as StoreError,
)
from .errors import (
    UndefinedMetric as UndefinedMetric,
)
from .errors import (
    first_line as first_line,
)
from .errors import (
    suggest as suggest,
)
from .exit_codes import (
    BAD_INPUT as BAD_INPUT,
)
from .exit_codes import (
    FAILED as FAILED,
)
from .exit_codes import (
    OK as OK,
)
from .exit_codes import (
    Terminated as Terminated,
)
from .exit_codes import (
    code_of as code_of,
)
from .exit_codes import (
    complain as complain,
)
from .exit_codes import (
    one_line as one_line,
)
from .io import (
    MAX_LINE as MAX_LINE,
)
from .io import (
    file_digest as file_digest,
)
from .io import (
    open_text as open_text,
)
from .io import (
    read_csv as read_csv,
)
from .io import (
    read_json as read_json,
)
from .io import (
    read_jsonl as read_jsonl,
)
from .io import (
    reading as reading,
)
from .io import (
    replacing as replacing,
)
from .io import (
    sync_folder as sync_folder,
)
from .io import (
    to_json as to_json,
)
from .io import (
    write_json as write_json,
)
from .io import (
    write_text as write_text,
)
from .metric import (
    Direction as Direction,
)
from .metric import (
    Family as Family,
)
from .metric import (
    Features as Features,
)
from .metric import (
    Metric as Metric,
)
from .metric import (
    Need as Need,
)
from .metric import (
    Resampling as Resampling,
)
from .metric import (
    Scope as Scope,
)
from .metric import (
    Side as Side,
)
from .metric import (
    Unit as Unit,
)
from .names import (
    metric_names as metric_names,
)
from .names import (
    names_of as names_of,
)
from .names import (
    node_of as node_of,
)
from .options import (
    check_options as check_options,
)
from .options import (
    fitted as fitted,
)
from .options import (
    read_options as read_options,
)
from .progress import (
    Advance as Advance,
)
from .progress import (
    duration as duration,
)
from .progress import (
    show_progress as show_progress,
)
from .registry import (
    build as build,
)
from .registry import (
    construct as construct,
)
from .registry import (
    defaults as defaults,
)
from .registry import (
    members as members,
)
from .registry import (
    plugins as plugins,
)
from .registry import (
    register as register,
)
from .resampling import (
    COUNT as COUNT,
)
from .resampling import (
    LEVEL as LEVEL,
)
from .resampling import (
    MOST as MOST,
)
from .resampling import (
    SHARE as SHARE,
)
from .resampling import (
    Interval as Interval,
)
from .resampling import (
    Plan as Plan,
)
from .resampling import (
    Replicates as Replicates,
)
from .resampling import (
    combined as combined,
)
from .rng import (
    derive_seed as derive_seed,
)
from .rng import (
    row_uniforms as row_uniforms,
)
from .rng import (
    stream as stream,
)
from .runtime import (
    DeviceMap as DeviceMap,
)
from .runtime import (
    Runtime as Runtime,
)
from .signature import (
    IDENTITY as IDENTITY,
)
from .signature import (
    build_signature as build_signature,
)
from .signature import (
    canonical as canonical,
)
from .signature import (
    digest as digest,
)
from .signature import (
    digest_bytes as digest_bytes,
)
from .signature import (
    digest_of_columns as digest_of_columns,
)
from .signature import (
    parse_signature as parse_signature,
)
from .signature import (
    render as render,
)
from .signature import (
    signature_difference as signature_difference,
)
from .spec import (
    Spec as Spec,
)
from .task import (
    Task as Task,
)
from .task import (
    Tokenizer as Tokenizer,
)
from .terminal import (
    clean_logs as clean_logs,
)
from .text import (
    STRUCK as STRUCK,
)
from .text import (
    csv_cell as csv_cell,
)
from .text import (
    escape_mathtext as escape_mathtext,
)
from .text import (
    plain as plain,
)
from .text import (
    plain_line as plain_line,
)
from .text import (
    redacted as redacted,
)
from .text import (
    shareable as shareable,
)
from .text import (
    unescape_mathtext as unescape_mathtext,
)
from .types import (
    F64 as F64,
)
from .types import (
    HUMAN as HUMAN,
)
from .types import (
    I64 as I64,
)
from .types import (
    Example as Example,
)
from .types import (
    Floats as Floats,
)
from .types import (
    Generation as Generation,
)
from .types import (
    Json as Json,
)
from .types import (
    MetricResult as MetricResult,
)
from .types import (
    NextToken as NextToken,
)
from .types import (
    Ragged as Ragged,
)
from .types import (
    SourceFile as SourceFile,
)
from .types import (
    Status as Status,
)
from .types import (
    Stop as Stop,
)
