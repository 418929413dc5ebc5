"""N-gram counts of a corpus and statistics on them."""
