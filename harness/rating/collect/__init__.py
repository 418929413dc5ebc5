"""Collect raters' answers: check them, turn them into judgments, measure their quality."""
