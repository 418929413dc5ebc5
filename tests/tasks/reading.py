"""Read a task's examples and what it skipped."""

from collections import Counter


def read(task, tokenizer=None):
    """Return all examples."""
    return list(task.examples(tokenizer, Counter()))


def read_counted(task, tokenizer=None):
    """Return all examples, and reason → number of skipped records."""
    skipped = Counter()
    return list(task.examples(tokenizer, skipped)), skipped
