"""A model as a rater: asked in both orders, and shown only beside its agreement with people."""
