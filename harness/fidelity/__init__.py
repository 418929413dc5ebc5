"""How far one model is from another on the same texts.

What other packages may use is listed in `__init__.pyi`; each name is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
