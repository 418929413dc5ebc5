"""What can be chosen: the options of every group in `conf/`, each with its first line of comment."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from importlib.metadata import entry_points

GROUPS = ("task", "model", "decoder", "scorer", "embedder", "judge", "metric", "report", "runtime", "experiment")
LONGEST = 180  # letters of a line of meaning
_CONF = "openended.conf"
_END = re.compile(r"(?<!al)(?<!Fig)\.(?= |$)")  # of a sentence, not of `et al.`


def choices(group: str) -> dict[str, str]:
    """Return option → what it is, in one line; sorted by name. What other packages bring is told, not imported."""
    others = {point.name: point for point in entry_points(group=f"openended.{group}s")}
    told = {name: f"of the package {p.dist.name if p.dist else p.value}" for name, p in others.items()}
    return dict(sorted({**told, **own_choices(group)}.items()))


@lru_cache
def own_choices(group: str) -> dict[str, str]:
    """Return the options of a group that have a YAML here, each with its line of meaning."""
    folder = resources.files(_CONF) / group
    if not folder.is_dir():
        return {}
    names = sorted(p.name for p in folder.iterdir() if p.name.endswith(".yaml"))
    return {name.removesuffix(".yaml"): meaning((folder / name).read_text(encoding="utf-8")) for name in names}


def source(group: str, name: str) -> str:
    """Return the YAML of an option, as it is written."""
    return (resources.files(_CONF) / group / f"{name}.yaml").read_text(encoding="utf-8")


def meaning(text: str) -> str:
    """Return the first sentence of a YAML's comment, which may run over its first lines; empty where there is none."""
    said = " ".join(_comment(text))
    end = _END.search(said)
    return textwrap.shorten(said[: end.start()] if end else said, LONGEST, placeholder=" …")


def _comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        if not line.startswith("# @package"):
            yield line.removeprefix("#").strip()


def options() -> list[str]:
    """Return the lines of the root configuration that are options of a run, comments included."""
    lines = (resources.files(_CONF) / "config.yaml").read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line and line[0].isalpha() and ": " in line]
    return [line for line in own if line.split(":", 1)[0] not in ("defaults", "hydra")]
