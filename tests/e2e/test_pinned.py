"""Texts and values stay what they were: a small quick start whose digests and numbers are kept in a file.

The file is made by `python -m tests.e2e.test_pinned`, at a commit whose numbers are believed. A change that is meant to
move a number makes it again in the same commit, with a line under *Numbers changed* in the changelog.
"""

import hashlib
import importlib.metadata
import json
import math
import platform
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, openended

FOLDER = ROOT / "tests/fixtures/pinned"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "scikit-learn", "faiss-cpu")
DECODERS = ("greedy", "ancestral", "nucleus", "beam", "contrastive_search", "adversarial")
METRICS = ("mauve", "gen_ppl", "distinct_n", "repetition", "self_bleu", "zipf", "sparsemax_score", "frechet")
WORDS = [
    *"task=jsonl scoring=docs-m task.id_field=null num_examples=24 max_new_tokens=16 runtime.device=cpu".split(),
    f"task.path={FOLDER / 'texts.jsonl'}",
    f"metric=[{','.join(METRICS)}]",
    "intervals=0",
    "runtime.threads=1",  # the order of sums follows the threads
]


def processor() -> dict[str, str]:
    """What the last bits of a float32 sum depend on."""
    import torch

    facts = dict.fromkeys(("vendor_id", "cpu family"), "unknown")
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in facts:
                facts[name.strip()] = value.strip()
    return {"machine": platform.machine(), **facts, "torch": torch.backends.cpu.get_cpu_capability()}


def measured(cwd: Path) -> dict[str, Any]:
    """Digest of the texts, and every value of both sides, by decoder."""
    from openended.harness.storage.rows import RowFile

    openended("-m", f"decoder={','.join(DECODERS)}", *WORDS, cwd=cwd, code=0)
    made = {}
    for path in cwd.glob("outputs/runs/*/*/record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        (entry,) = (each["artifact"] for each in record["inputs"] if each["artifact"].startswith("generate/"))
        texts = "\0".join(RowFile(cwd / "outputs/store" / entry / "data.arrow").texts)
        made[record["spec"]["decoder"]["name"]] = {
            "texts": hashlib.sha256(texts.encode()).hexdigest(),
            "values": {
                f"{r['system']} {r['metric']} {k}": v for r in record["results"] for k, v in r["values"].items()
            },
        }
    return {decoder: made[decoder] for decoder in DECODERS}


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    numbers = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
    if numbers["processor"] != (here := processor()):
        pytest.skip(f"float noise may flip a text here: the numbers come from {numbers['processor']}, this is {here}")
    moved = {n: (v, w) for n, v in numbers["versions"].items() if (w := importlib.metadata.version(n)) != v}
    if moved:
        pytest.skip(f"the numbers come from other versions: {moved}")
    return numbers["decoders"]


@pytest.fixture(scope="module")
def found(kept, tmp_path_factory) -> dict[str, Any]:
    return measured(tmp_path_factory.mktemp("pinned"))


@pytest.mark.parametrize("decoder", DECODERS)
def test_texts_and_values_are_what_they_were(decoder, kept, found):
    assert found[decoder]["texts"] == kept[decoder]["texts"], "the generated texts moved"
    values, expected = found[decoder]["values"], kept[decoder]["values"]
    assert values.keys() == expected.keys()
    moved = {n: (v, values[n]) for n, v in expected.items() if not same(values[n], v)}
    assert not moved, "numbers moved: raise the version of the metric or of the stage, and tell it in the changelog"


def same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-7)  # float32 sums in another order differ by 1e-7


def main() -> None:
    """Write the file anew."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=240
    )
    with tempfile.TemporaryDirectory() as folder:
        made = measured(Path(folder))
    numbers = {
        "origin": f"python -m tests.e2e.test_pinned at commit {commit.stdout.strip()}",
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "processor": processor(),
        "decoders": made,
    }
    (FOLDER / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
