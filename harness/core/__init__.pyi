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
    RenamedOption as RenamedOption,
)
from .arguments import (
    positive_int as positive_int,
)
from .catalogue import (
    GROUPS as GROUPS,
)
from .catalogue import (
    is_shared as is_shared,
)
from .catalogue import (
    list_bundled_choices as list_bundled_choices,
)
from .catalogue import (
    list_choices as list_choices,
)
from .catalogue import (
    list_options as list_options,
)
from .catalogue import (
    read_full_yaml as read_full_yaml,
)
from .catalogue import (
    read_option_yaml as read_option_yaml,
)
from .catalogue import (
    read_plugin_yaml as read_plugin_yaml,
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
    ExtraNotInstalled as ExtraNotInstalled,
)
from .errors import (
    HarnessError as HarnessError,
)
from .errors import (
    SpecError as SpecError,
)
from .errors import (
    StoreError as StoreError,
)
from .errors import (
    UnavailableFileError as UnavailableFileError,
)
from .errors import (
    UnavailableModelError as UnavailableModelError,
)
from .errors import (
    UndefinedMetric as UndefinedMetric,
)
from .errors import (
    format_last_frame as format_last_frame,
)
from .errors import (
    require_package as require_package,
)
from .errors import (
    shorten_error as shorten_error,
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
    format_error as format_error,
)
from .exit_codes import (
    print_error as print_error,
)
from .exit_codes import (
    print_line as print_line,
)
from .exit_codes import (
    run_command as run_command,
)
from .input_files import (
    MAX_JSON as MAX_JSON,
)
from .input_files import (
    MAX_LINE as MAX_LINE,
)
from .input_files import (
    check_regular_file as check_regular_file,
)
from .input_files import (
    describe_read_errors as describe_read_errors,
)
from .input_files import (
    open_text as open_text,
)
from .intervals import (
    WILSON as WILSON,
)
from .intervals import (
    estimate_interval as estimate_interval,
)
from .io import (
    digest_file as digest_file,
)
from .io import (
    open_for_replacement as open_for_replacement,
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
    list_names as list_names,
)
from .names import (
    read_node as read_node,
)
from .names import (
    resolve_metric_names as resolve_metric_names,
)
from .options import (
    check_options as check_options,
)
from .options import (
    coerce as coerce,
)
from .options import (
    read_options as read_options,
)
from .permutation import (
    permutation_p_value as permutation_p_value,
)
from .permutation import (
    relabel_rows as relabel_rows,
)
from .progress import (
    Advance as Advance,
)
from .progress import (
    format_duration as format_duration,
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
    find_broken_plugin as find_broken_plugin,
)
from .registry import (
    load_members as load_members,
)
from .registry import (
    load_plugins as load_plugins,
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
    combine_replicates as combine_replicates,
)
from .rng import (
    derive_seed as derive_seed,
)
from .rng import (
    make_random_stream as make_random_stream,
)
from .rng import (
    row_uniforms as row_uniforms,
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
    OUT_OF_DOMAIN as OUT_OF_DOMAIN,
)
from .signature import (
    build_signature as build_signature,
)
from .signature import (
    canonicalize as canonicalize,
)
from .signature import (
    compare_signatures as compare_signatures,
)
from .signature import (
    describe_out_of_domain as describe_out_of_domain,
)
from .signature import (
    digest as digest,
)
from .signature import (
    digest_bytes as digest_bytes,
)
from .signature import (
    digest_columns as digest_columns,
)
from .signature import (
    parse_signature as parse_signature,
)
from .signature import (
    render_option as render_option,
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
    escape_log_records as escape_log_records,
)
from .text import (
    REDACTED as REDACTED,
)
from .text import (
    escape_controls as escape_controls,
)
from .text import (
    escape_controls_in_line as escape_controls_in_line,
)
from .text import (
    escape_csv_cell as escape_csv_cell,
)
from .text import (
    escape_mathtext as escape_mathtext,
)
from .text import (
    make_shareable as make_shareable,
)
from .text import (
    redact_keys as redact_keys,
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
