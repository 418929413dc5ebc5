"""Base classes of the metric families and what their members share, for metrics here and in other packages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
