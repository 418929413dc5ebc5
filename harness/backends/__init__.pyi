from .transformers import make_backend as make_backend
