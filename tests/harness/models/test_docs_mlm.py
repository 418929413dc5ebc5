"""The bundled masked model: its files, its predictions, its embeddings, and one draw from it."""

import math
import re

import numpy as np
import pytest

from openended.harness.backends.denoiser.backend import DenoiserSpec, load_denoiser
from openended.harness.core import DataError
from openended.harness.models import ModelSpec, list_bundled_models, load_tokenizer
from openended.harness.models.transformers import load_model

pytestmark = pytest.mark.skipif("docs-mlm" not in list_bundled_models(), reason="the bundled model is not there")
SPEC = DenoiserSpec(path="bundled:docs-mlm")
TEXTS = (
    "Return the mean of the array elements along the given axis. The mean is computed over the flattened array by default.",
    "Return the standard deviation of the array elements along the given axis. By default it is computed over all elements.",
    "Open a connection to the server and send the request. If the connection is closed, an exception is raised.",
    "Close the connection to the server. An exception is raised if the request was not sent before.",
)


@pytest.fixture(scope="module")
def lm():
    return load_denoiser(SPEC)


def test_files_are_small_and_share_the_vocabulary():
    folder = SPEC.folder
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8_000_000
    own, shared = (load_tokenizer(ModelSpec(path=f"bundled:{name}")) for name in ("docs-mlm", "docs-m"))
    assert own.vocabulary() == shared.vocabulary() | {"[MASK]": 4096}
    assert [own.encode(text) for text in TEXTS] == [shared.encode(text) for text in TEXTS]


def test_masked_tokens_are_predicted_better_than_by_frequency(lm):
    """A model that knows only frequencies has about 6.8 nats a token."""
    torch = pytest.importorskip("torch")
    losses = []
    for text in TEXTS[::2]:
        ids = torch.tensor(lm.tokenizer.encode(text)).expand(4, -1)
        masked = (torch.arange(ids.shape[1]) + torch.arange(4)[:, None]) % 4 == 0
        with torch.inference_mode():
            logits = lm.denoise(torch.where(masked, lm.mask_id, ids), 0.0)[masked][:, : lm.mask_id]
        losses += torch.nn.functional.cross_entropy(logits, ids[masked], reduction="none").tolist()
    assert np.mean(losses) < 4.5


def test_it_is_bidirectional_and_its_card_states_the_bound():
    with pytest.raises(DataError, match="docs-mlm"):
        load_model(ModelSpec(path="bundled:docs-mlm"))

    card = (SPEC.folder / "README.md").read_text(encoding="utf-8")
    nats, perplexity = re.search(r"at most ([\d.]+) nats per token \(perplexity at most ([\d.]+)\)", card).groups()
    assert float(perplexity) == pytest.approx(math.exp(float(nats)), rel=1e-3)
