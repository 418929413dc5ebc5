"""From a model and a decoder to texts: batches, key/value cache, search and teacher forcing; names: `__init__.pyi`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
