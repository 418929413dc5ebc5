from .forecast import (
    Forecast as Forecast,
    Rates as Rates,
    forecast_plans as forecast_plans,
    read_rates as read_rates,
)
from .identity import (
    system_name as system_name,
)
from .pipeline import (
    Outcome as Outcome,
    RunTexts as RunTexts,
    fed_by_file as fed_by_file,
    judged_alone as judged_alone,
    plan as plan,
    prepare as prepare,
    run as run,
    run_judgments as run_judgments,
)
from .resolve import (
    resolve_run as resolve_run,
)
from .session import (
    Session as Session,
)
from .settings import (
    Settings as Settings,
    settings_from as settings_from,
)
