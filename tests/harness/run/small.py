"""A run of a few texts on the bundled model, in this process."""

from __future__ import annotations

from pathlib import Path

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.run.settings import Settings, build_settings
from tests.helpers import write_jsonl

# Model under test, scorer and embedder are one model.
ONE_MODEL = ("model=docs-s", "scorer.path=bundled:docs-s", "embedder.path=bundled:docs-s")


def settings(folder: Path, *overrides: str) -> Settings:
    """Return the settings of a run over eight texts of sixteen, judged by the bundled model, its outputs under the folder."""
    rows = [
        {"prompt": f"Return {i} and", "human": f" raise an error if the number {i} is too large." * (1 + i % 3)}
        for i in range(16)
    ]
    path = folder / "own.jsonl"
    write_jsonl(path, rows)
    words = [
        "task=jsonl",
        "scoring=docs-m",
        f"task.path={path}",
        "num_examples=8",
        "max_new_tokens=12",
        "decoder=greedy",
    ]
    with initialize_config_module("openended.conf", version_base="1.3"):
        cfg = compose("config", overrides=[*words, f"outputs_dir={folder / 'out'}", *overrides])
    node = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(node, dict)
    return build_settings({**{str(k): v for k, v in node.items()}, "experiment": "test"})
