from .axes import collect_axes as collect_axes, derive_system_name as derive_system_name
from .forecast import Forecast as Forecast, Rates as Rates, forecast_plans as forecast_plans, read_rates as read_rates
from .judgment_run import run_judgments as run_judgments
from .measure import RunTexts as RunTexts, compute_metric as compute_metric
from .pipeline import (
    make_texts as make_texts,
    plan as plan,
    run as run,
    select_metrics_for_file as select_metrics_for_file,
)
from .players import JudgmentSource as JudgmentSource, check_players as check_players, identify_texts as identify_texts
from .run_record import Outcome as Outcome
from .session import Session as Session
from .settings import (
    NO_JUDGMENTS as NO_JUDGMENTS,
    JudgmentOptions as JudgmentOptions,
    Settings as Settings,
    build_settings as build_settings,
    check_name as check_name,
    read_preset as read_preset,
)
from .steps import Executor as Executor, TextRows as TextRows
