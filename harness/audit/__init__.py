"""Whether an engine drew every token from the decoder's Q that it was asked for.

What other packages may use is listed in `__init__.pyi`; each name is imported on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
