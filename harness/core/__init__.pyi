from . import errors as errors, temporary_files as temporary_files, terminal as terminal
from .arguments import CommandParser as CommandParser, positive_int as positive_int
from .catalogue import (
    GROUPS as GROUPS,
    is_shared as is_shared,
    list_bundled_choices as list_bundled_choices,
    list_choices as list_choices,
    list_options as list_options,
    read_full_yaml as read_full_yaml,
    read_node as read_node,
    read_option_yaml as read_option_yaml,
    read_plugin_yaml as read_plugin_yaml,
    resolve_metric_names as resolve_metric_names,
)
from .causal_model import CausalModel as CausalModel, ModelInfo as ModelInfo
from .errors import (
    DataError as DataError,
    ExtraNotInstalled as ExtraNotInstalled,
    HarnessError as HarnessError,
    SpecError as SpecError,
    StoreError as StoreError,
    UnavailableFileError as UnavailableFileError,
    UnavailableModelError as UnavailableModelError,
    UndefinedMetric as UndefinedMetric,
    format_last_frame as format_last_frame,
    require_package as require_package,
    shorten_error as shorten_error,
    suggest as suggest,
)
from .exit_codes import (
    BAD_INPUT as BAD_INPUT,
    FAILED as FAILED,
    INTERRUPTED as INTERRUPTED,
    OK as OK,
    Terminated as Terminated,
    format_error as format_error,
    print_error as print_error,
    print_line as print_line,
    run_command as run_command,
)
from .io import (
    MAX_JSON as MAX_JSON,
    MAX_LINE as MAX_LINE,
    check_regular_file as check_regular_file,
    describe_read_errors as describe_read_errors,
    digest_file as digest_file,
    open_bytes as open_bytes,
    open_for_replacement as open_for_replacement,
    open_text as open_text,
    parse_json as parse_json,
    read_csv as read_csv,
    read_json as read_json,
    read_jsonl as read_jsonl,
    sync_folder as sync_folder,
    to_json as to_json,
    write_json as write_json,
    write_text as write_text,
)
from .metric_spec import (
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
from .permutation import permutation_p_value as permutation_p_value, relabel_rows as relabel_rows
from .progress import Advance as Advance, format_duration as format_duration, show_progress as show_progress
from .registry import (
    build as build,
    construct as construct,
    decoder as decoder,
    defaults as defaults,
    find_broken_plugin as find_broken_plugin,
    load_members as load_members,
    load_plugins as load_plugins,
    metric as metric,
    model as model,
    task as task,
)
from .resampling import (
    COUNT as COUNT,
    LEVEL as LEVEL,
    MOST as MOST,
    SHARE as SHARE,
    WILSON as WILSON,
    Interval as Interval,
    Plan as Plan,
    Replicates as Replicates,
    combine_replicates as combine_replicates,
    estimate_interval as estimate_interval,
)
from .rng import derive_seed as derive_seed, make_random_stream as make_random_stream, row_uniforms as row_uniforms
from .runtime import DeviceMap as DeviceMap, Runtime as Runtime
from .signature import (
    IDENTITY as IDENTITY,
    OUT_OF_DOMAIN as OUT_OF_DOMAIN,
    build_signature as build_signature,
    canonicalize as canonicalize,
    compare_signatures as compare_signatures,
    describe_out_of_domain as describe_out_of_domain,
    digest as digest,
    digest_bytes as digest_bytes,
    digest_columns as digest_columns,
    parse_signature as parse_signature,
    render_option as render_option,
)
from .spec import (
    REQUIRED as REQUIRED,
    Spec as Spec,
    check_options as check_options,
    coerce as coerce,
    option as option,
    ranged as ranged,
    read_options as read_options,
)
from .task_spec import Task as Task, Tokenizer as Tokenizer
from .terminal import escape_log_records as escape_log_records
from .text import (
    REDACTED as REDACTED,
    escape_controls as escape_controls,
    escape_controls_in_line as escape_controls_in_line,
    escape_csv_cell as escape_csv_cell,
    escape_mathtext as escape_mathtext,
    make_shareable as make_shareable,
    redact_keys as redact_keys,
    unescape_mathtext as unescape_mathtext,
)
from .types import (
    F64 as F64,
    HUMAN as HUMAN,
    I64 as I64,
    Example as Example,
    Floats as Floats,
    Generation as Generation,
    Json as Json,
    MetricResult as MetricResult,
    NextToken as NextToken,
    Ragged as Ragged,
    SourceFile as SourceFile,
    Status as Status,
    Stop as Stop,
)
