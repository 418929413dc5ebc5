"""Load run records as values, one row per value, for report, rating and app.

The public names are listed in `__init__.pyi`; each is imported on first access.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
