"""The harness: from prompts to generations, features, metrics and reports."""
