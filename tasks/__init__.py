"""Tasks: where prompts and human continuations come from, one file a source."""
