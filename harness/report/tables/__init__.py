"""Tables of values, and their renderers."""
