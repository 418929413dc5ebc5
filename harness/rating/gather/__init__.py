"""What raters sent back: checked against the key, written as judgments, and how good they are."""
