"""The page of a report: one HTML file with tables, figures and texts."""
