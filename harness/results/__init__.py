"""Run records as one tidy frame, read by report, rating and app."""
