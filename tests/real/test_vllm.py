"""vLLM on a pretrained model gives the texts, losses and statistics of the reference backend."""

import subprocess

import pytest

from tests.helpers import ROOT

CODE = """
import sys
from tests.real_servers import engine

engine.PATH, engine.TOLERANCE = sys.argv[1], 1e-4
reference = engine.load_backend(engine.ModelSpec(path=engine.PATH))
table = engine.Table("vLLM")
engine.check_engine(table, reference, engine.make_prompts(4, reference.vocab_size), 6, 16)
table.end()
"""


def test_texts_losses_and_statistics_are_those_of_the_reference_backend(real_models):
    python = real_models / "vllm/bin/python"
    if not python.is_file():
        pytest.skip(f"no {python}; `bash scripts/real_servers.sh {real_models}` makes it")
    command = [str(python), "-c", CODE, str(real_models / "smollm2")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count("| yes |") > 20
