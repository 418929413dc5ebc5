"""Make a study from the texts of finished runs and write one HTML file per rater."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from openended.harness.core import SpecError
from openended.harness.rating.design import Control, design_study
from openended.harness.rating.forecast import StudyForecast, forecast_study
from openended.harness.rating.key import KEY, StudyKey, save_key
from openended.harness.rating.protocol import StudyProtocol
from openended.harness.rating.sheet import write_sheets
from openended.harness.rating.texts import StudyTexts

SHEETS = "sheets"


@dataclass(frozen=True, slots=True)
class Study:
    """A study and the forecast of its cost."""

    key: StudyKey
    forecast: StudyForecast

    def lines(self) -> Iterator[str]:
        """Return the lines that the command prints: texts, controls, forecast."""
        m, p = self.key.material, self.key.protocol
        yield f"{p.label}: {len(m.players)} players ({', '.join(m.players)}), {len(m.texts):,} prompts to draw from"
        yield from m.remarks
        if not self.key.controls:
            yield "no control items: --controls FILE adds some with known answers"
        if not p.examples:
            yield "no worked examples on the guidelines page: examples in a YAML of your own (--protocol MY.yaml)"
        yield from self.forecast.lines()


def make_study(
    material: StudyTexts,
    protocol: StudyProtocol,
    *,
    controls: Sequence[Control] = (),
    made_of: Sequence[str] = (),
    seed: int | None = None,
) -> Study:
    """Design a study; writes nothing."""
    secret = secrets.token_bytes(32)
    design_seed = secrets.randbits(48) if seed is None else seed
    design = design_study(material, protocol, controls=controls, secret=secret, seed=design_seed)
    wide = len(str(len(design.sheets)))
    key = StudyKey(
        study=secrets.token_hex(6), secret=secret, created=datetime.now(UTC).isoformat(timespec="seconds"),
        protocol=protocol, material=material, tasks=design.tasks, controls=tuple(controls), made_of=tuple(made_of),
        sheets={f"rater-{i:0{wide}d}": tuple(t.id for t in s) for i, s in enumerate(design.sheets, 1)},
    )  # fmt: skip
    return Study(key, forecast_study(protocol, design))


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write the key and one sheet per rater."""
    if (folder / SHEETS).exists() and not (folder / KEY).exists() and any((folder / SHEETS).iterdir()):
        raise SpecError(f"{folder / SHEETS} holds other files; choose another folder with -o")
    save_key(folder, study.key)
    return write_sheets(study.key, folder / SHEETS)
