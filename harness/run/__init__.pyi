from .compat import (
    read_preset as read_preset,
)
from .forecast import (
    Forecast as Forecast,
)
from .forecast import (
    Rates as Rates,
)
from .forecast import (
    forecast_plans as forecast_plans,
)
from .forecast import (
    read_rates as read_rates,
)
from .identity import (
    derive_system_name as derive_system_name,
)
from .pipeline import (
    Outcome as Outcome,
)
from .pipeline import (
    RunTexts as RunTexts,
)
from .pipeline import (
    plan as plan,
)
from .pipeline import (
    prepare as prepare,
)
from .pipeline import (
    run as run,
)
from .pipeline import (
    run_judgments as run_judgments,
)
from .pipeline import (
    select_metrics_for_file as select_metrics_for_file,
)
from .resolve import (
    ResolvedRun as ResolvedRun,
)
from .resolve import (
    resolve_run as resolve_run,
)
from .session import (
    Session as Session,
)
from .settings import (
    Settings as Settings,
)
from .settings import (
    build_settings as build_settings,
)
