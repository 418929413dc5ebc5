from __future__ import annotations

import numpy as np
import pytest

from openended.harness.imported.damage import FUNCTION_WORDS, TEXT_DAMAGES, Source, split_words

TEXT = " The ship is in the harbor. It was not late, and nobody on the pier had to wait for it at all."
SOURCE = Source(" Read this prompt.", " Another text begins here and goes on.", split_words(" x y z"))


def damage(kind, strength, text=TEXT):
    words = TEXT_DAMAGES[kind](split_words(text), strength, np.random.default_rng(0), SOURCE)
    return "".join(words)


@pytest.mark.parametrize("kind", TEXT_DAMAGES)
def test_pure_and_nothing_at_strength_zero(kind):
    assert damage(kind, 0.0) == TEXT
    assert damage(kind, 0.5) == damage(kind, 0.5)
    assert damage(kind, 1.0) != TEXT
    assert damage(kind, 1.0, text=" One.") is not None
    assert damage(kind, 1.0, text="") == ""


def test_by_hand():
    assert damage("truncation", 0.75) == " The ship is in the harbor."
    assert damage("truncation", 1.0) == " The"
    assert damage("longer", 0.25) == TEXT + " Another text begins here and goes"
    assert damage("repeated_words", 1.0).startswith(" The The ship ship is is")
    assert damage("repeated_sentence", 1.0).startswith(" The ship is in the harbor. The ship is in the harbor. The")
    assert damage("copied_prompt", 0.2).startswith(" Read this prompt. Read the harbor. It")
    assert damage("negation", 1.0).startswith(
        " The ship is not in the harbor. It was late, and nobody on the pier had not"
    )
    assert damage("no_function_words", 1.0) == " ship harbor. late, nobody pier wait all."


@pytest.mark.parametrize("part", ["begin", "middle", "end"])
@pytest.mark.parametrize("kind", ["swaps", "random"])
def test_only_one_third_changes(kind, part):
    words = split_words(TEXT)
    changed = split_words(damage(f"{kind}_{part}", 1.0))
    assert len(changed) == len(words)
    bounds = [len(words) * i // 3 for i in range(4)]
    at = ["begin", "middle", "end"].index(part)
    inside = slice(bounds[at], bounds[at + 1])
    assert changed[inside] != words[inside]
    assert changed[: inside.start] + changed[inside.stop :] == words[: inside.start] + words[inside.stop :]
    if kind == "swaps":
        assert sorted(w.strip() for w in changed) == sorted(w.strip() for w in words)
    else:
        assert {w.strip() for w in changed[inside]} <= {"x", "y", "z"}


def test_a_stronger_damage_includes_a_weaker_one():
    weak, strong = (damage("no_function_words", s).split() for s in (0.3, 0.8))
    assert len(strong) < len(weak)
    weak, strong = (split_words(damage("random_middle", s)) for s in (0.3, 0.8))
    words = split_words(TEXT)
    changed = [{i for i, w in enumerate(x) if w != words[i]} for x in (weak, strong)]
    assert changed[0] < changed[1]
    assert "the" in FUNCTION_WORDS
