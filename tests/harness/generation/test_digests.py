"""The texts of every decoder on many families, as they were when batches held prompts of one length only.

Tokens and stops, not log-probabilities, whose last digits differ between processors. `python -m
tests.harness.generation.test_digests` writes the file anew.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from openended.harness.core.types import Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Ancestral, Greedy, Nucleus, Typical
from openended.harness.generation.adversarial import Adversarial
from openended.harness.generation.beam_search import Beam, BeamSample
from openended.harness.generation.contrastive import ContrastiveSearch
from tests.harness.generation.models import FAMILIES, family, prompt_rows
from tests.harness.generation.test_generate import plain, sorted_as, texts, theirs
from tests.lazy import torch

FILE = Path(__file__).with_name("digests.json")
DECODERS = [
    Greedy(), Ancestral(), Typical(mass=0.9), Nucleus(repetition_penalty=1.3, no_repeat_ngram_size=2), Beam(num_beams=3),
    BeamSample(num_beams=3, top_k=20), ContrastiveSearch(k=3), Adversarial(human_ppl=30.0),
]  # fmt: skip


def rows() -> list[Prompt]:
    """Many lengths, an empty prompt, several samples."""
    lengths = (6, 6, 9, 1, 13, 25, 6, 40, 3)
    made = [Prompt(f"t/{i}", 0, prompt_rows(1, n, 300, seed=i)[0]) for i, n in enumerate(lengths)]
    return [*made, Prompt("t/none", 0, ()), *(dataclasses.replace(made[5], sample=s) for s in (1, 2))]


def digest(made: list[Generation]) -> str:
    return hashlib.sha256(
        json.dumps([(g.example_id, g.sample, g.token_ids, g.stop) for g in made]).encode()
    ).hexdigest()[:16]


@pytest.mark.thin(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_texts_are_those_of_before(name):
    known = json.loads(FILE.read_text(encoding="utf-8"))[name]
    made = {d.title: texts(family(name), d, rows(), 5) for d in DECODERS}
    assert {title: digest(one) for title, one in made.items()} == known


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_bytes_are_the_same_at_every_size_and_order(name):
    """Every family with a decoder that shows the last digit of a logit; every decoder with one family."""
    for decoder in DECODERS[:4] if name == "gpt2" else [Ancestral()]:
        whole = plain(texts(family(name), decoder, rows(), 64))
        for size in (1, 7):
            assert plain(texts(family(name), decoder, rows()[::-1], size)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "opt", "gemma3", "mixtral"])
def test_bytes_are_the_same_at_every_number_of_threads(name):
    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            made.append(plain(texts(family(name), Nucleus(), rows(), 3)))
    finally:
        torch.set_num_threads(before)
    assert made[0] == made[1] == made[2]


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize("decoder", [Greedy(), Beam(num_beams=3)], ids=lambda d: d.title)
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_generate(name, decoder):
    lm, asked = family(name), rows()
    options = vars(decoder) if isinstance(decoder, Beam) else {}
    got = sorted_as(asked, texts(lm, decoder, asked, 5))
    assert [g.token_ids for g in got] == theirs(lm, asked, **options)


if __name__ == "__main__":
    made = {n: {d.title: digest(texts(family(n), d, rows(), 5)) for d in DECODERS} for n in FAMILIES}
    FILE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
