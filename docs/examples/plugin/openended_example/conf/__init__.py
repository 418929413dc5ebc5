"""YAMLs, in folders called as the groups."""
