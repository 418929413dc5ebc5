"""Serve a GGUF file with llama.cpp's own server; run by an environment with xllamacpp.

python llama_server.py MODEL PORT
"""

import signal
import sys
from pathlib import Path

AT_ONCE = 4


def serve(model: Path, port: int) -> None:
    """Serve until the process is ended; llama.cpp's defaults are left as they are."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {model.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = AT_ONCE
    params.n_ctx = AT_ONCE * 512
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
