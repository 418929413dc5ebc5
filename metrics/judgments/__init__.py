"""Human judgments: files of ratings and comparisons, their raters, and the base of metrics that read them."""
