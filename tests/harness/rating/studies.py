"""Small studies, without runs or models."""

from pathlib import Path
from typing import Any

from openended.harness.rating.design import StudyKey, StudyTexts
from openended.harness.rating.protocol import load_protocol
from openended.harness.rating.study import make_study, write_study

PLAYERS = ("human", "xq-greedy-7b", "xq-nucleus p=0.95")
HOSTILE = (
    "</script><script>window.pwned=1</script>",
    '<img src=x onerror="window.pwned=1"><!-- \' " ` ${window.pwned=1} {{7*7}}',
    "\u202eright to left\u2028\u2029line separators \u0000\u0007 \\u003c",
    "__proto__ constructor 😀 e\u0301",
)


def material(prompts: int = 12, players: tuple[str, ...] = PLAYERS) -> StudyTexts:
    """Prompts whose texts say who wrote them to nobody; some are hostile."""
    ids = [f"docs/{i:06d}" for i in range(prompts)]
    texts = {
        e: {p: f"{HOSTILE[(i + j) % 4]} text number {i * len(players) + j} goes on" for j, p in enumerate(players)}
        for i, e in enumerate(ids)
    }
    return StudyTexts(players, {e: f" Beginning {i} of a text {HOSTILE[i % 4]}" for i, e in enumerate(ids)}, texts)


def study(folder: Path, protocol: str = "mauve", prompts: int = 12, **changes: Any) -> StudyKey:
    """Write a study of a few items; returns its key."""
    controls = changes.pop("controls", ())
    sizes = {"items": 6, "raters": 1, "items_a_sheet": 6, **changes}
    made = make_study(material(prompts), load_protocol(protocol, sizes), controls=controls, seed=7)
    write_study(made, folder)
    return made.key


class Clock:
    """A clock that tests set."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def whole(pool: Any, number: int = 1) -> dict[str, int]:
    """Return one answer to every question."""
    return dict.fromkeys(pool.key.protocol.questions, number)
