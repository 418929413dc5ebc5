"""From records to values: one tidy frame, folded over seeds."""
