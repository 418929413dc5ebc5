"""Tasks: sources of prompts and human continuations, one file per source."""

if __name__ != "openended.tasks":
    raise ImportError(f"import openended.tasks, not {__name__}: under two names every module would be loaded twice")
