"""LLM judges: pairs are asked in both orders, and results are shown with the agreement with people."""
