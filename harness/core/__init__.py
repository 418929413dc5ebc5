"""Types, specs, registry and small tools that every other package uses; imports nothing else of the harness."""
