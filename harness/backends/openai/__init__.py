"""A server that speaks the OpenAI completions protocol."""
