"""The key of a study maps items to systems. It stays with the researcher; sheets contain none of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

from openended.harness.core import DataError, open_for_replacement, read_json
from openended.harness.rating.design import CONTROL, Control, RatingTask, derive_opaque_id
from openended.harness.rating.protocol import StudyProtocol, make_protocol
from openended.harness.rating.texts import StudyTexts

KEY = "key.json"
_SCHEMA = 1
_PRIVATE = 0o600


@dataclass(frozen=True)
class StudyKey:
    """The confidential part of a study: the origin of each item."""

    study: str
    """Its id, which is on every sheet."""
    secret: bytes
    created: str
    protocol: StudyProtocol
    material: StudyTexts
    tasks: tuple[RatingTask, ...]
    sheets: Mapping[str, tuple[str, ...]]
    """Name of a sheet → ids of its items, in order."""
    controls: tuple[Control, ...] = ()
    made_of: tuple[str, ...] = ()
    """The words that named the runs."""

    @cached_property
    def by_id(self) -> Mapping[str, RatingTask]:
        """Id → item."""
        return {task.id: task for task in self.tasks}

    def nonce(self, sheet: str) -> str:
        """Return the nonce that seals the answers of a sheet."""
        return derive_opaque_id(self.secret, "seal", sheet)

    def show_item(self, task: RatingTask) -> tuple[str, tuple[str, ...]]:
        """Return the prompt and the texts of an item, as raters see them, stripped of surrounding blanks."""
        if task.is_control:
            control = self.control(task)
            return control.prompt.strip(), tuple(text.strip() for text in control.texts)
        texts = self.material.texts[task.example]
        return self.material.prompts[task.example].strip(), tuple(texts[player].strip() for player in task.sides)

    def control(self, task: RatingTask) -> Control:
        """Return the control of a control item."""
        return self.controls[int(task.example.removeprefix(CONTROL))]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        m = self.material
        return {
            "schema": _SCHEMA, "study": self.study, "secret": self.secret.hex(), "created": self.created,
            "protocol": self.protocol.to_json(), "made_of": list(self.made_of),
            "players": list(m.players), "prompts": dict(m.prompts), "texts": {e: dict(t) for e, t in m.texts.items()},
            "tasks": [[t.id, t.example, *t.sides] for t in self.tasks],
            "sheets": {name: list(ids) for name, ids in self.sheets.items()},
            "controls": [control.to_json() for control in self.controls],
        }  # fmt: skip

    @classmethod
    def from_json(cls, node: Mapping[str, Any], where: str) -> Self:
        """Read what `to_json` wrote."""
        if not isinstance(node, Mapping) or node.get("schema") != _SCHEMA:
            raise DataError(f"{where}: not the key of a study; `openended rate make` writes key.json")
        try:
            texts: Mapping[str, Mapping[str, str]] = node["texts"]
            return cls(
                study=node["study"], secret=bytes.fromhex(node["secret"]), created=node["created"],
                protocol=make_protocol(node["protocol"], where), made_of=tuple(node["made_of"]),
                material=StudyTexts(tuple(node["players"]), node["prompts"], texts),
                tasks=tuple(RatingTask(t[0], t[1], tuple(t[2:])) for t in node["tasks"]),
                sheets={_check_name(name): tuple(ids) for name, ids in node["sheets"].items()},
                controls=tuple(map(Control.from_json, node["controls"])),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as err:
            raise DataError(f"{where}: damaged key ({type(err).__name__}: {err})") from err


def _check_name(name: str) -> str:
    """Return the name of a sheet, which is also the name of a file and of a rater."""
    if not name.isprintable() or "/" in name:
        raise ValueError(f"sheet {name!r:.60}: expected printable characters without /")
    return name


def save_key(folder: Path, key: StudyKey) -> Path:
    """Write the key, readable only by its owner."""
    import json

    path = folder / KEY
    if path.exists():
        raise DataError(f"{folder} holds a study whose key would be lost; choose another folder with -o")
    with open_for_replacement(path) as handle:
        make_private(handle)
        json.dump(key.to_json(), handle, ensure_ascii=False, allow_nan=False)
    return path


def make_private(handle: IO[Any]) -> None:
    """Make an open file readable only by its owner, before anything is written to it."""
    os.chmod(handle.fileno() if os.chmod in os.supports_fd else handle.name, _PRIVATE)


def read_key(path: Path) -> StudyKey:
    """Read the key of a study, given its file or its folder."""
    file = path / KEY if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise DataError(f"{path}: is no study, it has no {KEY}; openended rate make writes one")
    return StudyKey.from_json(read_json(file), str(file))


def find_key(key_path: Path | None, files: Sequence[Path]) -> Path:
    """Return the named key, or the one next to the files or in a folder above them."""
    if key_path is not None:
        return key_path
    for file in files:
        for folder in (file if file.is_dir() else file.parent, *list(file.resolve().parents)[:3]):
            if (folder / KEY).is_file():
                return folder / KEY
    raise DataError("no key.json beside these files: name the folder of the study with --key STUDY")
