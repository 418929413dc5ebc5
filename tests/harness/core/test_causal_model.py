"""A loaded language model has everything that the Protocol promises to decoders and generation."""

from openended.harness.core.causal_model import CausalModel, ModelInfo
from openended.harness.models import LanguageModel, ModelSpec


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_the_reference_model_keeps_the_protocol() -> None:
    missing = {
        name for name in members(CausalModel) if name not in dir(LanguageModel) | LanguageModel.__annotations__.keys()
    }
    assert len(members(CausalModel)) > 10
    assert not missing


def test_a_model_spec_says_what_a_decoder_may_know() -> None:
    assert not {name for name in members(ModelInfo) if not hasattr(ModelSpec, name)}
