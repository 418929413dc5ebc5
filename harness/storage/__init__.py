"""The content-addressed store, run records, and the Arrow and array files in them."""
