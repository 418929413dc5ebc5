from __future__ import annotations

import numpy as np
import pytest

from openended.harness.core.errors import SpecError
from openended.harness.imported.damage import (
    Damage,
    HumanTexts,
    damage_texts,
    digest_source,
    is_built_in_system,
    list_damages,
    parse_damage,
)

TOPICS = [
    ["sea", "ship", "sail"], ["stock", "bank", "loan"], ["goal", "match", "team"], ["cell", "gene", "virus"],
    ["star", "moon", "orbit"], ["oven", "flour", "bread"],
]  # fmt: skip


def make_texts(n=60):
    rng = np.random.default_rng(0)
    texts = [
        " The "
        + " ".join(f"{rng.choice(TOPICS[i % 6])} is near the {rng.choice(TOPICS[i % 6])}." for _ in range(5))
        + f" {i}"
        for i in range(n)
    ]
    return HumanTexts([f"t/{i:06d}" for i in range(n)], [f"Prompt {i}" for i in range(n)], texts)


HUMAN = make_texts()


def damage(kind, percent=50, human=HUMAN, seed=0):
    return damage_texts(Damage(kind, percent), human, seed)


@pytest.mark.parametrize("kind", list_damages())
def test_every_damage_is_deterministic_and_keeps_the_number_of_texts(kind):
    texts = damage(kind)
    assert texts == damage(kind)
    assert len(texts) == len(HUMAN.texts)
    assert texts != HUMAN.texts


def test_shares_of_texts():
    for kind in ("duplicates", "other_text", "naive_unigram", "naive_periodic", "naive_shuffled"):
        changed = sum(a != b for a, b in zip(damage(kind, 30), HUMAN.texts, strict=True))
        assert changed == 18, kind  # 30 % of 60
    assert len(set(damage("duplicates", 100))) == 1
    assert len(set(damage("duplicates", 50))) == 30
    assert damage("none", 0) == HUMAN.texts


def test_a_dropped_topic_is_gone_and_an_invented_one_is_new():
    def count_topics(texts):
        return [sum(any(word in text for word in words) for text in texts) for words in TOPICS]

    assert count_topics(HUMAN.texts) == [10] * 6
    assert 0 in count_topics(damage("dropped_topic", 100))
    invented = damage("invented_topic", 100)
    changed = [(a, b) for a, b in zip(HUMAN.texts, invented, strict=True) if a != b]
    assert 3 <= len(changed) < 60
    assert all(len(a.split()) == len(b.split()) for a, b in changed)


def test_parse():
    assert parse_damage("damage:truncation:25") == Damage("truncation", 25)
    assert parse_damage("damage:none") == Damage("none", 0)
    assert parse_damage("samples.json") is None
    assert is_built_in_system("naive:shuffled")
    assert is_built_in_system("damage:negation:5")
    assert not is_built_in_system("samples.json")
    assert digest_source(Damage("truncation", 5)) is None
    assert digest_source(Damage("other_text", 5))
    with pytest.raises(SpecError, match="no damage 'truncated'; did you mean 'truncation'"):
        parse_damage("damage:truncated:5")
    for wrong in ("damage:truncation", "damage:truncation:0", "damage:truncation:200", "damage:truncation:0.5"):
        with pytest.raises(SpecError, match="in percent, 1 to 100"):
            parse_damage(wrong)
    with pytest.raises(SpecError, match="no strength"):
        parse_damage("damage:none:5")


def test_prompts_are_needed_to_copy_them():
    with pytest.raises(SpecError, match="no prompts"):
        damage("copied_prompt", human=HumanTexts(["a"], [""], ["text"]))
