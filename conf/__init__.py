"""The configuration tree: one folder a group, one YAML an option."""
