import pytest

from openended.harness.core.errors import SpecError
from openended.harness.core.metric_spec import Need
from openended.harness.run.features.scoring_options import ScoringOptions


def test_defaults_are_in_no_key_and_others_are():
    plain = ScoringOptions.from_need(Need("token_nll", by="scorer", options=(("bos", False),)))
    assert plain.is_plain
    assert plain.facts() == {"scope": "continuation", "bos": False}  # as stores have had it
    assert plain.title == "continuation"
    other = ScoringOptions.from_need(
        Need("token_nll", options=(("bos", True), ("retokenize", True), ("stride", 2), ("window", 4)))
    )
    assert other.facts() == {"scope": "continuation", "bos": True, "retokenize": True, "window": 4, "stride": 2}
    assert other.token_facts() == {"scope": "continuation", "retokenize": True}
    assert other.title == "continuation bos retokenize window=4 stride=2"
    assert not other.is_plain
    assert other.tokenizes_again


def test_an_unknown_option_is_named():
    with pytest.raises(SpecError, match="token_nll: no option heat"):
        ScoringOptions.from_need(Need("token_nll", options=(("heat", 1),)))
