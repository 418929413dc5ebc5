"""From raters' answers to judgments and their quality."""
