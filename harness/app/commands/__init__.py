"""The subcommands of `openended`, one file each; `harness/core/commands.py` builds them."""
