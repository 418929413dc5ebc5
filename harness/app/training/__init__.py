"""Evaluate a model while it trains; each callback needs its framework."""
