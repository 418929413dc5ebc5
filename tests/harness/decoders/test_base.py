"""Decoder specs: each has an option and a reason; an order that makes no difference is no other system."""

import pytest

from openended.harness.core import SpecError, canonicalize, list_bundled_choices, load_members
from openended.harness.decoders.sampling import MinK, Nucleus


def test_every_decoder_has_an_option_and_a_reason():
    for name, cls in load_members("decoder").items():
        assert name in list_bundled_choices("decoder")
        assert cls.has_q or cls.no_q_reason
        assert isinstance(cls().title, str)


def test_adversarial_takes_the_human_perplexity():
    decoder = load_members("decoder")["adversarial"]()
    assert decoder.needs_human_ppl
    resolved = decoder.resolve(42.0)
    assert not resolved.needs_human_ppl
    assert resolved.human_ppl == 42.0
    with pytest.raises(SpecError, match="takes nothing"):
        load_members("decoder")["greedy"]().resolve(42.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Nucleus(temperature_order="after"), Nucleus()),
        (Nucleus(p=1.0, temperature=0.7, temperature_order="after"), Nucleus(p=1.0, temperature=0.7)),
        (MinK(temperature_order="before"), MinK()),
    ],
)
def test_an_order_that_makes_no_difference_is_no_other_system(one, other):
    assert (one, one.title) == (other, other.title)
    assert canonicalize(one) == canonicalize(other)
    assert Nucleus(temperature=0.7, temperature_order="after").temperature_order == "after"
