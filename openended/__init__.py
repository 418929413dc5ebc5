"""A benchmark harness for open-ended text generation.

The four folders beside this file are links to the folders of the same name at the top of the repository: one import
name, `openended`, that wheel, editable install, checkout, type checker and IDE all follow.
"""

__version__ = "0.1.0"
