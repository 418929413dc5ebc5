"""Decoder specs: every option has a YAML, every value out of range is refused in one line."""

from pathlib import Path

import pytest
import yaml

from openended.harness.core import IDENTITY, SpecError, build, canonicalize, load_members, read_full_yaml
from openended.harness.decoders.base import Decoder
from openended.harness.decoders.sampling import MinK, Nucleus

ROOT = Path(__file__).parents[3]

OPTIONS = sorted((ROOT / "conf/decoder").glob("[!_]*.yaml"))


@pytest.mark.parametrize("path", OPTIONS, ids=lambda p: p.stem)
def test_every_decoder_option_is_written_out(path):
    node = yaml.safe_load(read_full_yaml("decoder", path.stem))
    node.pop("defaults", None)
    decoder = build("decoder", node)
    assert isinstance(decoder, Decoder)
    fields = set(canonicalize(decoder)) - set(IDENTITY)  # type: ignore[arg-type]
    assert set(node) - {"_target_"} == fields
    assert path.read_text(encoding="utf-8").startswith("# ")
    if path.stem == decoder.name:  # the YAML of the decoder's own name holds its defaults
        assert canonicalize(decoder) == canonicalize(type(decoder)())


def test_every_decoder_has_an_option_and_a_reason():
    named = {p.stem for p in OPTIONS}
    for name, cls in load_members("decoder").items():
        assert name in named
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


def test_an_order_that_makes_a_difference_stays():
    assert Nucleus(temperature=0.7, temperature_order="after").temperature_order == "after"
