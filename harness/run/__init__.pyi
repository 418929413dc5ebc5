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
    system_name as system_name,
)
from .pipeline import (
    Outcome as Outcome,
)
from .pipeline import (
    RunTexts as RunTexts,
)
from .pipeline import (
    fed_by_file as fed_by_file,
)
from .pipeline import (
    judged_alone as judged_alone,
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
    settings_from as settings_from,
)
