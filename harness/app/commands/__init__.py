"""Commands beside runs: `openended NAME …`, a module each, with a `main(words)` that returns an exit code."""
