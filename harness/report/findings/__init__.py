"""What the papers claim, and what these runs say of it."""
