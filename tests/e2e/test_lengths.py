"""A study of length: the texts are embedded once, at all the lengths that the embedder lists."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core import read_json
from openended.harness.models import LanguageModel, list_bundled_models
from openended.harness.run import Session, run
from openended.harness.storage.store import Store
from tests.helpers import run_settings, write_jsonl

pytestmark = pytest.mark.skipif("docs-m" not in list_bundled_models(), reason="the bundled model is not there")
LENGTHS = (6, 12, 24)


def settings(folder: Path, *overrides: str) -> Any:
    rows = [
        {
            "prompt": f"Return {i} and",
            "human": f" raise an error if the number {i} is too large for the array." * (1 + i % 3),
        }
        for i in range(16)
    ]
    path = folder / "own.jsonl"
    write_jsonl(path, rows)
    words = [
        "task=jsonl",
        "scoring=docs-m",
        f"task.path={path}",
        "num_examples=8",
        "max_new_tokens=20",
        "metric=[frechet]",
    ]
    return run_settings(*words, "decoder=greedy", f"outputs_dir={folder / 'out'}", *overrides)


def vectors(store: Path, record: Any, system: str) -> np.ndarray[Any, Any]:
    name = record["inputs"][f"embed:{system} prompt_and_continuation"]
    made: np.ndarray[Any, Any] = np.load(store / name / "embeddings.npy", allow_pickle=False)
    return made


@pytest.mark.slow
def test_one_pass_serves_every_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "out" / "store"
    session = Session(Store(store))
    passes = []
    whole = LanguageModel.forward
    monkeypatch.setattr(
        LanguageModel, "forward", lambda *a, **k: (passes.append(k["pool"] and k["pool"].lengths), whole(*a, **k))[1]
    )
    together, alone = {}, {}
    listed = f"embedder.lengths=[{','.join(map(str, LENGTHS))}]"
    for length in LENGTHS:
        made = settings(tmp_path, listed, f"embedder.max_length={length}")
        together[length] = read_json(run(made, session).folder / "record.json")
    # Of the model's side, the human one, and the further human texts of the ceiling; the later runs find all of them.
    assert [lengths for lengths in passes if lengths] == [LENGTHS] * 3
    for length in LENGTHS:
        made = settings(tmp_path, f"embedder.max_length={length}")
        alone[length] = read_json(run(made, session).folder / "record.json")
    for system in ("human", "model"):
        for length in LENGTHS:
            first, second = (vectors(store, runs[length], system) for runs in (together, alone))
            np.testing.assert_allclose(first, second, atol=1e-4, rtol=1e-4)
            manifests = [
                read_json(store / runs[length]["inputs"][f"embed:{system} prompt_and_continuation"] / "manifest.json")
                for runs in (together, alone)
            ]
            assert manifests[0]["meta"] == manifests[1]["meta"]  # the same texts were cut
            # Bytes may differ by float noise, hence so do keys and signatures.
            assert (
                len({runs[length]["inputs"][f"embed:{system} prompt_and_continuation"] for runs in (together, alone)})
                == 2
            )
        assert np.abs(vectors(store, together[6], system) - vectors(store, together[24], system)).max() > 0.1
    signatures = {r["signature"] for runs in (together, alone) for record in runs.values() for r in record["results"]}
    assert len(signatures) == 6  # a ceiling is of one size with its system
    assert [together[n]["axes"]["embedder.max_length"] for n in LENGTHS] == list(LENGTHS)
    assert alone[6]["axes"]["embedder.max_length"] == 6


@pytest.mark.slow
def test_the_order_of_the_sweep_changes_no_byte(tmp_path: Path) -> None:
    listed = f"embedder.lengths=[{','.join(map(str, LENGTHS))}]"
    made = []
    for name, order in (("a", LENGTHS), ("b", LENGTHS[::-1])):
        (tmp_path / name).mkdir()
        store = tmp_path / name / "store"
        session = Session(Store(store))
        runs = [run(settings(tmp_path, listed, f"embedder.max_length={n}"), session) for n in order]
        assert runs[0].num_computed > runs[1].num_computed
        made.append({str(p.relative_to(store)): p.read_bytes() for p in store.rglob("embeddings.npy")})
    assert made[0] == made[1]
