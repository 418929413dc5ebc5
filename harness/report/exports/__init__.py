"""Results in the formats of other tools: Every Eval Ever, the Hub, Croissant, Parquet and CSV."""
