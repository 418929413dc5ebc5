"""A finished table as text: terminal, Markdown, CSV, LaTeX."""
