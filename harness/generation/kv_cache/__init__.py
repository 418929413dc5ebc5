"""Key/value caches for batches of rows."""
