"""llama.cpp's own server on the GGUF file of a pretrained model, through `model=openai`."""

import subprocess
import sys

import pytest

from tests.helpers import ROOT, openended, read_records
from tests.real_servers.servers import find_free_port, run_server

XLLAMACPP = "xllamacpp==2026.10.11549"


@pytest.fixture(scope="module")
def server(real_models):
    """Port of a server on smollm2.gguf."""
    python = real_models / "llama/bin/python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    install = [str(python), "-m", "pip", "install", "-q", XLLAMACPP]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        pytest.skip("no xllamacpp in the registry")
    port = find_free_port()
    script = ROOT / "tests/real_servers/llama_server.py"
    with run_server([str(python), str(script), str(real_models / "smollm2.gguf"), str(port)], port, {}):
        yield port


def test_llama_cpp_writes_texts_that_are_scored_and_audited(real_models, server, tmp_path):
    words = [
        "model=openai", f"model.base_url=http://127.0.0.1:{server}", "model.dialect=llama_cpp", "model.path=smollm2",
        f"model.tokenizer={real_models}/smollm2", "model.logprobs=40", "model.concurrency=4", "task=jsonl",
        f"task.path={real_models}/texts/sotu.jsonl", "task.prompt_length=35", "num_examples=12", "max_new_tokens=16",
        "metric=[gen_ppl,distinct_n]", f"scorer.path={real_models}/smollm2", "embedder=none", "decoder=top_k",
        "decoder.k=20", "name=served",
    ]  # fmt: skip
    done = openended(*words, cwd=tmp_path, code=0)
    assert "probe" in done.stderr, "the server is asked about its Q, and the user is told"
    (record,) = read_records(tmp_path / "outputs/runs")
    assert all(row["status"] == "ok" for row in record["results"])
    audited = openended("audit", "served", "--reference", str(real_models / "smollm2"), cwd=tmp_path, verbose=False)
    assert "192 tokens" in audited.stdout, audited.stderr
    assert "4-bit weights, blocks of 32" in audited.stdout
