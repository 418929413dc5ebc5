"""The commands of docs/exchange.md inside lm-evaluation-harness and Inspect, as they are printed, in new environments.

They install packages from an index: OPENENDED_INSTALL=1 bash scripts/test.sh tests/docs/test_frameworks.py -m long
"""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.docs.commands import read_blocks
from tests.harness.app.test_api import HUMAN
from tests.helpers import ROOT, cases, write_jsonl

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("OPENENDED_INSTALL" not in os.environ, reason="OPENENDED_INSTALL=1 makes new environments"),
]


@cases(
    "title, results, named",
    ("Inside lm-evaluation-harness", "out/*/samples_*.jsonl", "samples.jsonl"),
    ("Inside Inspect", "logs/*.eval", "logs/continuations.eval"),
)
def test_the_commands_of_the_page_run_in_a_new_environment(tmp_path, title, results, named):
    reader, environment = tmp_path / "reader", tmp_path / "environment"
    subprocess.run(["git", "checkout-index", "--all", f"--prefix={reader}/"], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    (torch,) = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path / "torch.txt").write_text(torch)  # frameworks ask for other versions of the rest
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables |= {"PATH": f"{environment}/bin:{os.environ['PATH']}", "PIP_CONSTRAINT": str(tmp_path / "torch.txt")}
    blocks = read_blocks(ROOT / "docs/exchange.md", title)
    for task in (body for kind, body in blocks if kind == "python"):
        (reader / "task.py").write_text(task.replace('embedder="gpt2-large"', 'scoring="docs-m", max_new_tokens=128'))
        write_jsonl(reader / "human.jsonl", ({"input": text[:40], "target": text[40:]} for text in HUMAN))
    commands = [body for kind, body in blocks if kind == "bash"]
    output = ""
    for command in commands:
        if named in command:
            next(reader.glob(results)).rename(reader / named)
        installed = command.replace("'openended[", "'.[")
        done = subprocess.run(
            ["bash", "-ec", installed], cwd=reader, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        output += done.stdout
    (record,) = reader.glob("outputs/runs/score-*/*/record.json")
    outside = json.loads(record.read_text())
    rows = outside["results"]
    (mauve,) = (row["values"]["mauve"] for row in rows if (row["metric"], row["system"]) == ("mauve", "model"))
    inside = re.search(r"\bmauve\b\D*([\d.]+)", output)
    assert inside is not None, output
    assert float(inside[1]) == pytest.approx(mauve, abs=0.001), output
    assert len(commands) == 3, "install, evaluate, score"
