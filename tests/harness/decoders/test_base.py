"""Decoder specs: every option has a YAML, every value out of range is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from openended.harness.core.catalogue import read_full_yaml
from openended.harness.core.errors import SpecError
from openended.harness.core.registry import build, load_members
from openended.harness.core.signature import IDENTITY, canonicalize
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


REFUSED = [
    ("nucleus", {"p": 0.0}), ("nucleus", {"p": 1.1}), ("top_k", {"k": 0}), ("temperature", {"temperature": 0.0}),
    ("nucleus", {"temperature": -1.0}), ("nucleus", {"repetition_penalty": 0.0}), ("greedy", {"no_repeat_ngram_size": -1}),
    ("typical", {"mass": 0.0}), ("epsilon", {"eps": 1.0}), ("eta", {"eps": 0.0}), ("min_p", {"p": 1.5}), ("top_h", {"h": 0.0}),
    ("top_h", {"candidates": 1}), ("top_n_sigma", {"n": 0.0}), ("mirostat", {"tau": 0.0}), ("mirostat", {"learning_rate": 0.0}),
    ("mirostat", {"candidates": 1}), ("mirostat", {"temperature_order": "after"}), ("entmax", {"alpha": 1.0}),
    ("entmax", {"temperature_order": "after"}), ("beam", {"num_beams": 1}), ("beam", {"temperature": 0.7}),
    ("beam", {"repetition_penalty": -1.0}), ("beam", {"no_repeat_ngram_size": -1}), ("beam", {"length_penalty": float("inf")}),
    ("beam", {"early_stopping": "soon"}), ("beam_sample", {"top_p": 0.0}), ("beam_sample", {"temperature": 0.0}),
    ("beam_sample", {"top_k": -1}), ("contrastive_search", {"k": 0}), ("contrastive_search", {"alpha": 2.0}),
    ("contrastive_decoding", {"alpha": 0.0}), ("contrastive_decoding", {"amateur": {"pth": "x"}}),
    ("contrastive_decoding", {"amateur_temperature": 0.0}), ("adversarial", {"random_share": 1.0}),
    ("adversarial", {"human_ppl": 0.5}), ("greedy", {"temperature": 0.7}), ("min_k", {"tau": -1.0}), ("xtc", {"threshold": 0.6}), ("xtc", {"probability": 1.1}),
    ("dry", {"multiplier": -0.1}), ("dry", {"base": 0.9}), ("dry", {"allowed_length": 0}), ("dry", {"window": -1}), ("dry", {"breakers": [-1]}),
    ("dry", {"p": 0.0}), *(("temperature", {"temperature": t}) for t in (1e-7, 1.1e6, 1e10, float("inf"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), REFUSED, ids=str)
def test_refused_decoders(name, options):
    cls = load_members("decoder")[name]
    node = {"_target_": f"{cls.__module__}.{cls.__qualname__}", **options}
    with pytest.raises(SpecError, match=next(iter(options))) as caught:
        build("decoder", node)
    assert "\n" not in str(caught.value)


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
