"""What all families share, for metrics of other packages too."""

from openended.metrics._common import Mask, ReplicatesByName, Values, check_arguments

__all__ = ["Mask", "ReplicatesByName", "Values", "check_arguments"]
