"""Backend for servers with an OpenAI-compatible completions API."""
