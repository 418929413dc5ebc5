"""One run, stage by stage: examples, generate, featurize, measure, record."""
