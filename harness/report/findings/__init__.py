"""Check claims of papers against the runs."""
