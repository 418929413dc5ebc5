"""The subcommands of `openended rate`."""
