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
    Cluster as Cluster,
    Dead as Dead,
    join as join,
    nodes_of as nodes_of,
    say_room as say_room,
)
