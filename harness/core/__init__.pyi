from . import (
    errors as errors,
    temporary_files as temporary_files,
    terminal as terminal,
)
from .arguments import (
    CommandParser as CommandParser,
    positive_int as positive_int,
)
from .catalogue import (
    GROUPS as GROUPS,
    choices as choices,
    full_source as full_source,
    is_shared as is_shared,
    list_options as list_options,
    own_choices as own_choices,
    source as source,
)
from .causal_model import (
    CausalModel as CausalModel,
    ModelInfo as ModelInfo,
)
from .errors import (
    DataError as DataError,
    HarnessError as HarnessError,
    MissingExtra as MissingExtra,
    MissingFileError as MissingFileError,
    MissingModelError as MissingModelError,
    SpecError as SpecError,
    StoreError as StoreError,
    UndefinedMetric as UndefinedMetric,
    first_line as first_line,
    suggest as suggest,
)
from .exit_codes import (
    BAD_INPUT as BAD_INPUT,
    FAILED as FAILED,
    OK as OK,
    Terminated as Terminated,
    code_of as code_of,
    complain as complain,
    one_line as one_line,
)
from .io import (
    MAX_LINE as MAX_LINE,
    file_digest as file_digest,
    open_text as open_text,
    read_csv as read_csv,
    read_json as read_json,
    read_jsonl as read_jsonl,
    reading as reading,
    replacing as replacing,
    sync_folder as sync_folder,
    to_json as to_json,
    write_json as write_json,
    write_text as write_text,
)
from .metric import (
    Direction as Direction,
    Family as Family,
    Features as Features,
    Metric as Metric,
    Need as Need,
    Resampling as Resampling,
    Scope as Scope,
    Side as Side,
    Unit as Unit,
)
from .names import (
    metric_names as metric_names,
    names_of as names_of,
    node_of as node_of,
)
from .options import (
    check_options as check_options,
    fitted as fitted,
    read_options as read_options,
)
from .progress import (
    Advance as Advance,
    duration as duration,
    show_progress as show_progress,
)
from .registry import (
    build as build,
    construct as construct,
    defaults as defaults,
    members as members,
    plugins as plugins,
    register as register,
)
from .resampling import (
    COUNT as COUNT,
    Interval as Interval,
    LEVEL as LEVEL,
    MOST as MOST,
    Plan as Plan,
    Replicates as Replicates,
    SHARE as SHARE,
    combined as combined,
)
from .rng import (
    derive_seed as derive_seed,
    row_uniforms as row_uniforms,
    stream as stream,
)
from .runtime import (
    DeviceMap as DeviceMap,
    Runtime as Runtime,
)
from .signature import (
    IDENTITY as IDENTITY,
    build_signature as build_signature,
    canonical as canonical,
    digest as digest,
    digest_bytes as digest_bytes,
    digest_of_columns as digest_of_columns,
    parse_signature as parse_signature,
    render as render,
    signature_difference as signature_difference,
)
from .spec import (
    Spec as Spec,
)
from .task import (
    Task as Task,
    Tokenizer as Tokenizer,
)
from .terminal import (
    clean_logs as clean_logs,
)
from .text import (
    STRUCK as STRUCK,
    csv_cell as csv_cell,
    escape_mathtext as escape_mathtext,
    plain as plain,
    plain_line as plain_line,
    redacted as redacted,
    shareable as shareable,
    unescape_mathtext as unescape_mathtext,
)
from .types import (
    Example as Example,
    F64 as F64,
    Floats as Floats,
    Generation as Generation,
    HUMAN as HUMAN,
    I64 as I64,
    Json as Json,
    MetricResult as MetricResult,
    NextToken as NextToken,
    Ragged as Ragged,
    SourceFile as SourceFile,
    Status as Status,
    Stop as Stop,
)
