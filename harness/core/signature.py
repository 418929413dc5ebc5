"""Canonical JSON, digests and signatures of specs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from openended.harness.core.types import Json

# Class variables of every `Spec` that identify it together with its options; no option has these names.
IDENTITY = ("group", "name", "version")
_AT_ONCE = 8192  # texts
OUT_OF_DOMAIN = "toy judge, out of its domain"  # in the signature of a value whose scorer or embedder is bundled


def canonicalize(value: Any) -> Json:  # noqa: ANN401
    """Convert a spec (or part of one) to plain JSON with all defaults included.

    A spec becomes its group, its registered name, its version and all its options: not the path of its class, so
    that keys stay when code moves. NaN and infinity are refused, because JSON cannot hold them.

    Raises:
        TypeError: If a value has no canonical form.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        facts = {name: getattr(type(value), name, None) for name in IDENTITY}
        if not all(facts.values()):
            raise TypeError(f"no canonical form for a {type(value).__name__}: a spec has {', '.join(IDENTITY)}")
        return {**facts, **{name: canonicalize(getattr(value, name)) for name in list_identifying_options(value)}}
    if isinstance(value, Mapping):
        return {str(k): canonicalize(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonicalize(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"no canonical form for {value!r}")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"no canonical form for a {type(value).__name__}: {value!r}")


def list_identifying_options(spec: Any) -> list[str]:  # noqa: ANN401
    """Return the options that identify a spec: all but its `later_options` that have their default.

    Options that were added later would otherwise change the keys and signatures of everything that was stored before.
    """
    later = getattr(type(spec), "later_options", ())
    return [f.name for f in dataclasses.fields(spec) if f.name not in later or getattr(spec, f.name) != f.default]


def to_canonical_json(value: Any) -> str:  # noqa: ANN401
    """Return canonical JSON text: sorted keys, no spaces, ASCII."""
    return json.dumps(canonicalize(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:  # noqa: ANN401
    """Return the SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(to_canonical_json(value).encode()).hexdigest()


def digest_columns(columns: Iterable[Iterable[str]]) -> str:
    """Return the `digest` of a list of lists of texts, with bounded memory.

    >>> digest_columns([["a", "b"], []]) == digest([["a", "b"], []])
    True
    """
    seen = hashlib.sha256(b"[")
    for number, column in enumerate(columns):
        seen.update(b",[" if number else b"[")
        left, first = iter(column), True
        while part := list(islice(left, _AT_ONCE)):
            seen.update(b"" if first else b",")
            seen.update(to_canonical_json(part)[1:-1].encode())
            first = False
        seen.update(b"]")
    seen.update(b"]")
    return seen.hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 (hex) of bytes."""
    return hashlib.sha256(data).hexdigest()


def render_option(value: Any) -> str:  # noqa: ANN401
    """Format an option's value for a signature."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, (list, tuple)):
        return "+".join(render_option(v) for v in value)
    if isinstance(value, (Mapping,)) or dataclasses.is_dataclass(value):
        return digest(value)[:8]
    return str(value).replace("|", "/").replace(":", "=")


def build_signature(spec: Any, facts: Mapping[str, str]) -> str:  # noqa: ANN401
    """Build the signature `name|v:1|field:value|…|fact:value` from all fields of a spec.

    Args:
        spec: A metric spec (a dataclass with ClassVars `name` and `version`).
        facts: Facts of the data (`embedder`, `scorer`, `n`, `task`), in this order after the fields. A fact that has
            the name of an option replaces it: the digest of a file's texts stands for its path.
    """
    fields = {name: getattr(spec, name) for name in list_identifying_options(spec)} | dict(facts)
    parts = [str(type(spec).name), f"v:{type(spec).version}"]
    return "|".join([*parts, *(f"{name}:{render_option(value)}" for name, value in fields.items())])


def parse_signature(text: str) -> dict[str, str]:
    """Split a signature into its fields; the metric's name is under `metric`."""
    name, *rest = text.split("|")
    return {"metric": name, **dict(part.split(":", 1) for part in rest)}


def compare_signatures(a: str, b: str) -> list[str]:
    """Return the fields in which two signatures differ, in the order of the first."""
    left, right = parse_signature(a), parse_signature(b)
    return [k for k in {**left, **right} if left.get(k) != right.get(k)]


def describe_out_of_domain(role: str, title: str) -> str:
    """Return the warning about a bundled scorer or embedder on another task than the one that it was trained for."""
    return f"{role} {title} was trained on docstrings only: do not trust its scores here"
