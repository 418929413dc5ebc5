"""Canonical form, digests and signatures: how a thing is identified."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from openended.harness.core.types import Json

# What identifies a spec beside its options; class variables of every `Spec`, so that no option has these names.
IDENTITY = ("group", "name", "version")
_AT_ONCE = 8192  # texts


def canonical(value: Any) -> Json:  # noqa: ANN401 - the one door through which specs become JSON
    """Turn a spec (or a piece of one) into plain JSON with every default written out.

    A spec becomes its group, its registered name, its version and all its options: never the place of its class, so
    that code can move and keys stay. Floats that are not finite are refused: JSON has no word for them.

    Raises:
        TypeError: If a value has no canonical form.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        facts = {name: getattr(type(value), name, None) for name in IDENTITY}
        if not all(facts.values()):
            raise TypeError(f"no canonical form for a {type(value).__name__}: a spec has {', '.join(IDENTITY)}")
        return {**facts, **{f.name: canonical(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if isinstance(value, Mapping):
        return {str(k): canonical(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"no canonical form for {value!r}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"no canonical form for a {type(value).__name__}: {value!r}")


def canonical_json(value: Any) -> str:  # noqa: ANN401
    """Canonical JSON text: sorted keys, no spaces, ASCII."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:  # noqa: ANN401
    """SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_of_columns(columns: Iterable[Iterable[str]]) -> str:
    """Return what `digest` gives for the list of these lists of texts, of which a bounded number is in memory.

    >>> digest_of_columns([["a", "b"], []]) == digest([["a", "b"], []])
    True
    """
    seen = hashlib.sha256(b"[")
    for number, column in enumerate(columns):
        seen.update(b",[" if number else b"[")
        left, first = iter(column), True
        while part := list(islice(left, _AT_ONCE)):
            seen.update(b"" if first else b",")
            seen.update(canonical_json(part)[1:-1].encode())
            first = False
        seen.update(b"]")
    seen.update(b"]")
    return seen.hexdigest()


def digest_bytes(data: bytes) -> str:
    """SHA-256 (hex) of bytes."""
    return hashlib.sha256(data).hexdigest()


def render(value: Any) -> str:  # noqa: ANN401
    """Write one option's value as it stands in a signature."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, (list, tuple)):
        return "+".join(render(v) for v in value)
    if isinstance(value, (Mapping,)) or dataclasses.is_dataclass(value):
        return digest(value)[:8]
    return str(value).replace("|", "/").replace(":", "=")


def build_signature(spec: Any, facts: Mapping[str, str]) -> str:  # noqa: ANN401
    """Build `name|v:1|field:value|…|fact:value`, mechanically from all fields.

    Args:
        spec: A metric spec (a dataclass with ClassVars `name` and `version`).
        facts: Facts of the data (`embedder`, `scorer`, `n`, `task`), in this order after the fields.
    """
    parts = [str(type(spec).name), f"v:{type(spec).version}"]
    parts += [f"{f.name}:{render(getattr(spec, f.name))}" for f in dataclasses.fields(spec)]
    parts += [f"{name}:{render(value)}" for name, value in facts.items()]
    return "|".join(parts)


def parse_signature(text: str) -> dict[str, str]:
    """Split a signature into its fields; the metric's name is under `metric`."""
    name, *rest = text.split("|")
    return {"metric": name, **dict(part.split(":", 1) for part in rest)}


def signature_difference(a: str, b: str) -> list[str]:
    """Return the fields in which two signatures differ, in the order of the first."""
    left, right = parse_signature(a), parse_signature(b)
    return [k for k in {**left, **right} if left.get(k) != right.get(k)]
