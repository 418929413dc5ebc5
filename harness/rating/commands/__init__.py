"""The commands of `openended-rate`: each module has `parser`, `work`, and `KEPT`, what an interrupted one leaves."""
