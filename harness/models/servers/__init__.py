"""Models that a server runs: what is sent in each server's words, and what must hold before it is believed."""
