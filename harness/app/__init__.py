"""The command line, the Python API, and the Hydra application."""
