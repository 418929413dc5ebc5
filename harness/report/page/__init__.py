"""One HTML file with everything."""
