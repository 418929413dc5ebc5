"""What all families share, for metrics of other packages too."""

from openended.metrics._common import Losses, Mask, ReplicatesByName, Values, check_arguments, pack_losses

__all__ = ["Losses", "Mask", "ReplicatesByName", "Values", "check_arguments", "pack_losses"]
