"""A backend that spreads the rows of one run over Ray workers."""
