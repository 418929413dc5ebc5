"""Objective, batches and initial weights of the bundled models, at tiny size."""

from __future__ import annotations

import sys
from argparse import Namespace
from itertools import combinations

import numpy as np
import pytest

from tests.helpers import ROOT
from tests.lazy import LazyModule, torch

sys.path.insert(0, str(ROOT / "scripts"))

causal, masked, data, transformers = map(
    LazyModule, ("docs_lm.causal", "docs_lm.masked", "docs_lm.data", "transformers")
)

OPTIONS = Namespace(model="tiny", dropout=0.0)


@pytest.fixture(scope="module")
def tokenizer():
    return data.add_mask_token(transformers.AutoTokenizer.from_pretrained(ROOT / "harness/assets/docs-m"))


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    data.SIZES["tiny"] = data.Size(32, 2, 4, 0, 0, 0.0, "", "masked")
    try:
        return masked.build_model(OPTIONS, tokenizer).eval()
    finally:
        del data.SIZES["tiny"]


def test_the_mask_token_is_the_only_addition(tokenizer):
    shared = transformers.AutoTokenizer.from_pretrained(ROOT / "harness/assets/docs-m")
    assert tokenizer.get_vocab() == shared.get_vocab() | {"[MASK]": 4096}
    text = "Return the mean of an array [MASK] along an axis."
    assert tokenizer.encode(text.replace("[MASK] ", "")) == shared.encode(text.replace("[MASK] ", ""))
    assert tokenizer.encode(text).count(tokenizer.mask_token_id) == 1


def test_loss_is_the_bound_averaged_over_all_masks(model, tokenizer):
    """-log p(x) <= sum over k of the mean over subsets of size k of (1/k) sum of -log p(masked token | the others)."""
    ids, mask = torch.tensor([5, 900, 17, 2033]), tokenizer.mask_token_id
    total, batches = 0.0, []
    for k in range(1, 5):
        subsets = list(combinations(range(4), k))
        losses = []
        for subset in subsets:
            where = torch.tensor([i in subset for i in range(4)])
            with torch.inference_mode():
                logits = model(input_ids=torch.where(where, mask, ids)[None]).logits[0, :, :mask]
            losses.append(-torch.log_softmax(logits, -1)[list(subset), ids[list(subset)]].sum().item())
            batches.append(data.Batch(torch.where(where, mask, ids)[None], torch.where(where, ids, data.IGNORED)[None]))
        total += np.mean(losses) / k
    # compute_losses weights each token by L / k; a subset of size k is drawn with probability 1 / (4 * C(4, k)).
    with torch.inference_mode():
        drawn = [masked.compute_losses(model, batch) for batch in batches]
    sizes = [len(losses.nll) for losses in drawn]
    shares = [1 / (4 * sizes.count(size)) for size in sizes]
    bound = sum(p * float((loss.nll * loss.weights).sum()) for p, loss in zip(shares, drawn, strict=True))
    assert bound == pytest.approx(total, rel=1e-5)
    assert all(float(losses.weights.sum()) == pytest.approx(4) for losses in drawn)


def test_masked_batches_cover_all_ratios_and_keep_the_text(tokenizer):
    sequences = data.encode(tokenizer, ["Return the mean of an array along an axis."] * 400)
    stream = set(np.concatenate(sequences).tolist())
    shares, widths = [], set()
    for batch in masked.make_batches(sequences, 1024, np.random.default_rng(1), tokenizer):
        hidden = batch.targets != data.IGNORED
        assert (batch.inputs[hidden] == tokenizer.mask_token_id).all()
        assert (batch.inputs[~hidden] != tokenizer.mask_token_id).all()
        assert set(torch.where(hidden, batch.targets, batch.inputs).unique().tolist()) <= stream
        assert hidden.any(1).all()
        shares += hidden.float().mean(1).tolist()
        widths.add(batch.inputs.shape[1])
    assert np.mean(shares) == pytest.approx(0.5, abs=0.1)
    assert min(shares) < 0.1
    assert max(shares) > 0.9
    assert widths <= {64, 128, 256, 512}
    twice = [list(masked.make_batches(sequences, 1024, None, tokenizer)) for _ in range(2)]
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(*twice, strict=True))


def test_heads_start_with_attention_to_their_neighbors(model):
    model.set_attn_implementation("eager")
    ids = torch.arange(100, 140)[None]
    with torch.inference_mode():
        attentions = model(input_ids=ids, output_attentions=True).attentions
    for layer in attentions:
        for head, offset in enumerate((-1, 1, -2, 2)):
            assert int(layer[0, head, 20].argmax()) == 20 + offset


def test_causal_batches_hold_every_token_once(tokenizer):
    sequences = data.encode(tokenizer, ["Open a file.", "Return the mean.", "Close it and return the number of bytes."])
    batches = list(causal.make_batches(sequences, 64, np.random.default_rng(0), tokenizer))
    targets = sorted(int(t) for batch in batches for t in batch.targets[batch.targets != data.IGNORED])
    assert targets == sorted(int(t) for sequence in sequences for t in sequence[1:])
    for batch in batches:
        real = batch.targets[:, :-1] != data.IGNORED
        assert torch.equal(batch.inputs[:, 1:][real & (batch.targets[:, 1:] != data.IGNORED)],
                           batch.targets[:, :-1][real & (batch.targets[:, 1:] != data.IGNORED)])  # fmt: skip
