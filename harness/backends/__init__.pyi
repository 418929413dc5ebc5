from .openai.client import (
    Client as Client,
)
from .openai.spec import (
    ServerSpec as ServerSpec,
)
from .ray.backend import (
    spread as spread,
)
from .ray.cluster import (
    Actors as Actors,
)
from .ray.cluster import (
    Cluster as Cluster,
)
from .ray.cluster import (
    Dead as Dead,
)
from .ray.cluster import (
    join as join,
)
from .ray.cluster import (
    nodes_of as nodes_of,
)
from .ray.cluster import (
    say_room as say_room,
)
