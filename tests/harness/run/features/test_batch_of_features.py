"""How many rows a pass takes is no matter of numbers: on a CPU, features are the same bytes at every batch size."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.models.spec import list_bundled_models
from openended.harness.run.pipeline import run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.harness.run.small import settings

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")


def features(folder: Path, rows: int) -> dict[str, bytes]:
    """Bytes of every feature of a run, by place in the store, which ends with the key."""
    words = (
        "model=docs-s",
        "scorer.path=bundled:docs-s",
        "embedder.path=bundled:docs-m",
        "seed=3",
        "runtime.device=cpu",
    )
    out = f"outputs_dir={folder / str(rows)}"
    made = settings(folder, *words, out, "metric=[frechet,gen_ppl,eps_ppl]", f"runtime.feature_batch_size={rows}")
    store = folder / str(rows) / "store"
    run(made, Session(Store(store)))
    return {str(p.relative_to(store)): p.read_bytes() for p in sorted(store.rglob("*.npy"))}


def test_features_and_keys_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    one, other = features(tmp_path, 64), features(tmp_path, 3)
    assert {name.partition("/")[0] for name in one} >= {"embed", "score", "next_token"}
    assert one == other
