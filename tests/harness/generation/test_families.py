"""Greedy and beam search against `generate`, family by family, prompts of many lengths in one batch."""

import dataclasses

import pytest

from openended.harness.decoders.sampling import Greedy
from openended.harness.generation.beam_search import Beam
from tests.harness.generation.families import FAMILIES, family
from tests.harness.generation.test_digests import rows
from tests.harness.generation.test_generate import sorted_as, texts, theirs


@pytest.mark.slow
@pytest.mark.thin(3)
@pytest.mark.parametrize("decoder", [Greedy(), Beam(num_beams=3)], ids=lambda d: d.title)
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_generate(name, decoder):
    lm, asked = family(name), rows()
    options = (
        {} if isinstance(decoder, Greedy) else {f.name: getattr(decoder, f.name) for f in dataclasses.fields(decoder)}
    )
    got = sorted_as(asked, texts(lm, decoder, asked, 5))
    assert [g.token_ids for g in got] == theirs(lm, asked, **options)
