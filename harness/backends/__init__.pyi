from .openai.client import Client as Client
from .openai.spec import ServerSpec as ServerSpec
from .transformers import make_backend as make_backend
