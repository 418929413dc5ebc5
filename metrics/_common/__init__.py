"""What all metrics use: checked options and results that can be read like a mapping."""
