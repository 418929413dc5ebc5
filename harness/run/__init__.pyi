from .compat import read_preset as read_preset
from .forecast import Forecast as Forecast, Rates as Rates, forecast_plans as forecast_plans, read_rates as read_rates
from .identity import derive_system_name as derive_system_name
from .pipeline import (
    Outcome as Outcome,
    RunTexts as RunTexts,
    plan as plan,
    prepare as prepare,
    run as run,
    run_judgments as run_judgments,
    select_metrics_for_file as select_metrics_for_file,
)
from .resolve import ResolvedRun as ResolvedRun, resolve_run as resolve_run
from .session import Session as Session
from .settings import Settings as Settings, build_settings as build_settings
