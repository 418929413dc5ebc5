"""Backend that fills masked positions with a denoiser, such as a masked language model."""
