"""Parts of HUSE."""
