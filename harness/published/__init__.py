"""Texts that others generated: their file forms, and which prompt each answers."""
