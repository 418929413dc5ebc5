"""The harness: from prompts to generations, features, metrics and reports."""

import sys

# `python -m harness` imports this package under its bare name, while `sys.argv[0]` is "-m".
if __name__ != "openended.harness" and sys.argv[:1] != ["-m"]:
    raise ImportError(f"import openended.harness, not {__name__}: under two names every module would be loaded twice")
