"""Features of a text that need no model: lengths, words, cohesion, discourse markers, punctuation."""
