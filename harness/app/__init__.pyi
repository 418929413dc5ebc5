from .cli import (
    main as main,
)
from .hydra.launchers import (
    Joblib as Joblib,
)
from .hydra.launchers import (
    Submitit as Submitit,
)
from .hydra.plugins import (
    OtherPackages as OtherPackages,
)
from .hydra.ray_launcher import (
    Ray as Ray,
)
from .hydra.search.sweeper import (
    OptunaSweeper as OptunaSweeper,
)
from .hydra.sweeper import (
    Union as Union,
)
from .hydra.using import (
    ExperimentSections as ExperimentSections,
)
