"""The metrics inside other evaluation frameworks; each module needs its framework (extras `lm-eval`, `inspect`)."""
