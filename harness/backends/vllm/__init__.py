"""Backend for vLLM in this process: its scheduling and kernels, with the decoders and random streams of the harness."""
