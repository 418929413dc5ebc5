"""The harness: from prompts to generations, features, metrics and reports."""

__version__ = "0.1.0"
