"""Base classes of the metric families: text, two-sample, teacher-forced and within-prompt metrics."""
