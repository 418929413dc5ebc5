"""Human judgments: files of ratings and of comparisons, who rated, and how well raters agree (see `__init__.pyi`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
