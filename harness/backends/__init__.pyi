from .openai.client import Client as Client
from .openai.spec import ServerSpec as ServerSpec
from .ray.backend import load_ray_backend as load_ray_backend
from .ray.cluster import (
    ActorPool as ActorPool,
    Cluster as Cluster,
    WorkerDeath as WorkerDeath,
    connect_to_ray as connect_to_ray,
    list_nodes as list_nodes,
    warn_if_full as warn_if_full,
)
from .transformers import make_backend as make_backend
