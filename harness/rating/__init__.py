"""Forms for people, a server for a local network, a judge; and what they filled in, checked."""
