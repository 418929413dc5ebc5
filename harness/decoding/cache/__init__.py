"""Running a model step by step on rows of any lengths, each row's result its own."""
