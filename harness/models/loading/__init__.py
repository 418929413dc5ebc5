"""Find, check and load the files of a model."""
