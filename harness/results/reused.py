"""Remarks about artefacts that a run found, where something else than the run made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openended.harness.storage import STAGES, RunRecord

_HARDWARE = ("accelerator", "processor", "machine", "system")


def reused_remarks(record: RunRecord) -> tuple[str, ...]:
    """Say which stages' artefacts were made by other versions, code or hardware than the run's, and by which.

    The artefacts are the same stage version, options and inputs: a difference can move last digits, or tell why two
    machines disagree.
    """
    groups: dict[str, list[str]] = {}
    for name, other in record.provenance.items():
        told = _told(other if isinstance(other, Mapping) else {}, record)
        if told:
            groups.setdefault(told, []).append(name.partition(":")[0])
    return tuple(
        f"found, not made by this run: {', '.join(s for s in STAGES if s in stages)}; made with {told}"
        for told, stages in sorted(groups.items())
    )


def _told(other: Mapping[str, Any], record: RunRecord) -> str:
    """Say what another maker was where it differs from the run; nothing where it does not."""
    if "maker" in other:
        return "versions that were not noted"
    packages = _part(other, "packages")
    parts = [f"{name} {was or 'absent'} (now {record.packages.get(name, 'absent')})" for name, was in packages.items()]
    commit = _part(other, "git").get("commit")
    if commit:
        parts.append(f"code {str(commit)[:7]} (now {str(record.git.get('commit'))[:7]})")
    hardware = _part(other, "hardware")
    parts += [f"{k} {hardware[k]} (now {record.hardware.get(k)})" for k in _HARDWARE if k in hardware]
    return ", ".join(parts)


def _part(other: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = other.get(name)
    return part if isinstance(part, Mapping) else {}
