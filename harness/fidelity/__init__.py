"""How far one model is from another on the same texts: the command `openended fidelity`."""
