"""What can be chosen: the options of every group in `conf/`, each with its first line of comment."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from importlib.metadata import entry_points

GROUPS = (
    "task",
    "model",
    "decoder",
    "scorer",
    "embedder",
    "judge",
    "metric",
    "report",
    "runtime",
    "experiment",
    "using",
)
LONGEST = 180  # letters of a line of meaning
_CONF = "openended.conf"
_INHERITED = re.compile(r"^defaults: \[(.*), _self_\]$", re.MULTILINE)  # the files that an option inherits from
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
    names = sorted(p.name for p in folder.iterdir() if p.name.endswith(".yaml") and not is_shared(p.name))
    return {name.removesuffix(".yaml"): meaning((folder / name).read_text(encoding="utf-8")) for name in names}


def is_shared(name: str) -> bool:
    """Say whether a YAML holds options that others inherit (`_base`) and is no choice itself."""
    return name.startswith("_")


def source(group: str, name: str) -> str:
    """Return the YAML of an option, as it is written."""
    return (resources.files(_CONF) / group / f"{name}.yaml").read_text(encoding="utf-8")


def full_source(group: str, name: str) -> str:
    """Return the YAML of an option with all that it inherits written out, comments included."""
    text = source(group, name)
    inherited = _INHERITED.search(text)
    if inherited is None:
        return text
    header = [line for line in text[: inherited.start()].splitlines() if line.startswith("#")]
    options = _blocks(text[inherited.end() :])
    for item in reversed([item.strip() for item in inherited[1].split(",")]):  # the last one wins
        parent = item.removesuffix("@_here_").removeprefix("/")
        parent_group, _, parent_name = parent.rpartition("/")
        for key, lines in _blocks(full_source(parent_group or group, parent_name)).items():
            own = options.setdefault(key, lines)
            if own is not lines and " #" not in own[0] and " #" in lines[0]:
                options[key] = [f"{own[0]} #{lines[0].partition(' #')[2]}", *own[1:]]
    return "\n".join([*header, *(line for lines in options.values() for line in lines), ""])


def _blocks(text: str) -> dict[str, list[str]]:
    """Return option → its lines, in their order."""
    blocks: dict[str, list[str]] = {}
    key = ""
    for line in text.splitlines():
        if line and line[0] not in "# ":
            key = line.partition(":")[0]
            blocks[key] = [line]
        elif key and line:
            blocks[key].append(line)
    return blocks


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


def list_options() -> list[str]:
    """Return the lines of the root configuration that are options of a run, comments included."""
    lines = (resources.files(_CONF) / "config.yaml").read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line and line[0].isalpha() and ": " in line]
    return [line for line in own if line.split(":", 1)[0] not in ("defaults", "hydra")]
