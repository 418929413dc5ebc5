"""A run of a few texts on the bundled model, in this process."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

from openended.harness.core.catalogue import GROUPS
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.session import Session
from openended.harness.run.settings import Settings, build_settings
from openended.harness.storage.store import Store
from tests.helpers import write_jsonl

# Model under test, scorer and embedder are one model.
ONE_MODEL = ("model=docs-s", "scorer.path=bundled:docs-s", "embedder.path=bundled:docs-s")


@cache
def compose_choices(words: tuple[str, ...]) -> Any:
    """Compose the choices of groups; values are set in copies."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("openended.conf", version_base="1.3"):
        return compose("config", overrides=list(words))


def settings(folder: Path, *overrides: str) -> Settings:
    """Return the settings of a run over eight texts of sixteen, judged by the bundled model, its outputs under the folder."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from omegaconf import OmegaConf

    path = folder / "own.jsonl"
    if not path.exists():
        rows = [
            {"prompt": f"Return {i} and", "human": f" raise an error if the number {i} is too large." * (1 + i % 3)}
            for i in range(16)
        ]
        write_jsonl(path, rows)
    words = ["task=jsonl", "scoring=docs-m", "decoder=greedy", f"task.path={path}", "num_examples=8"]
    words += ["max_new_tokens=12", f"outputs_dir={folder / 'out'}", *overrides]
    parsed = OverridesParser.create().parse_overrides(words)
    values = [o for o in parsed if o.type == OverrideType.CHANGE and o.package is None and o.key_or_group not in GROUPS]
    choices = tuple(str(o.input_line) for o in parsed if o not in values)
    config = copy.deepcopy(compose_choices(choices))
    ConfigLoaderImpl._apply_overrides_to_config(values, config)
    node: Any = OmegaConf.to_container(config, resolve=True)
    return build_settings({**node, "experiment": "test"})


def open_session(folder: Path) -> Session:
    """Return a new session on the store of such a run."""
    return Session(Store(folder / "out" / "store"))


def make_builder(folder: Path, *, plan_only: bool = False) -> ArtifactBuilder:
    """Return a builder in a new session."""
    return ArtifactBuilder(open_session(folder), plan_only=plan_only)
