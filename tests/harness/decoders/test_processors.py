"""Logits processors of `generate` and of vLLM against Q, for every truncation rule."""

import pytest

from openended.harness.backends.vllm.rows import BatchRows
from openended.harness.core import DataError, SpecError
from openended.harness.decoders import apply_penalties, compute_dense_q, parse_q_decoder
from openended.harness.models import ModelSpec, load_model
from openended.processors import make_processor
from tests.helpers import check_error
from tests.lazy import torch

RULES = (
    "ancestral", "top_k,k=5", "nucleus,p=0.8", "min_p", "epsilon,eps=0.01", "eta,eps=0.02", "top_n_sigma", "top_h",
    "p_less", "min_k", "xtc", "typical,mass=0.8", "mirostat", "mirostat,algorithm=threshold", "entmax",
)  # fmt: skip
"""Each function of `truncation_rules`."""
MORE = ("min_p,temperature=1.5,temperature_order=after", "nucleus,p=0.9,repetition_penalty=1.3", "dry,allowed_length=1")
BATCH, STEPS = 8, 8


def read_states(decoder, logits, ids, prompt):
    """Yield the decoder's state before each step, from its definition: from raw logits and the tokens."""
    state = torch.tensor([decoder.first_state()], dtype=torch.float64).repeat(len(ids), 1)
    for step, scores in enumerate(logits):
        yield state if decoder.first_state() else None
        history = ids[:, : prompt + step]
        p = apply_penalties(decoder, scores, history).div(decoder.temperature).double().softmax(-1)
        surprise = -p.gather(1, ids[:, prompt + step, None]).log().squeeze(1)
        following = decoder.next_state(state, surprise)
        state = state if following is None else following


@pytest.fixture(scope="module")
def lm():
    return load_model(ModelSpec(path="bundled:docs-s"))


@pytest.mark.parametrize("words", [*RULES, *MORE])
def test_generate_draws_from_q(lm, words):
    decoder = parse_q_decoder(words)
    torch.manual_seed(0)
    prompts = torch.randint(1, 4096, (BATCH, 5))
    options = {name: getattr(decoder, name) for name in (part.partition("=")[0] for part in words.split(",")[1:])}
    out = lm.model.generate(
        prompts, do_sample=True, top_k=0, max_new_tokens=STEPS, pad_token_id=0, output_logits=True,
        output_scores=True, return_dict_in_generate=True, logits_processor=[make_processor(decoder.name, **options)],
        attention_mask=torch.ones_like(prompts),
    )  # fmt: skip
    rows, writer = BatchRows("cpu"), [[] for _ in range(BATCH)]
    for row in range(BATCH):
        rows.rows[row] = rows.begin(words, writer[row], prompts[row].tolist())
    rows.rows[2], rows.rows[7] = rows.rows[7], rows.rows[2]
    moved = [*range(BATCH)]
    moved[2], moved[7] = 7, 2
    states = read_states(decoder, out.logits, out.sequences, 5)
    for step, state in enumerate(states):
        logits = out.logits[step].clone()
        q = compute_dense_q(decoder, apply_penalties(decoder, logits, out.sequences[:, : 5 + step]), state)
        ours = rows.choose_tokens(logits[moved].clone())[moved]
        for scores in (out.scores[step], ours):
            assert torch.equal(scores > float("-inf"), q > 0)
            assert torch.allclose(scores.double().softmax(-1), q, atol=1e-6)
        for row in range(BATCH):
            writer[row].append(int(out.sequences[row, 5 + step]))


def test_padding_is_no_history(lm):
    decoder = parse_q_decoder("nucleus,p=0.9,repetition_penalty=1.5")
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(0)) * 3
    ids = torch.tensor([[7, 7, 7, 3, 4], [7, 1, 2, 3, 4]])
    log_q = make_processor("nucleus", p=0.9, repetition_penalty=1.5, pad_id=7)(ids, logits)
    for row, start in ((0, 3), (1, 1)):
        q = compute_dense_q(decoder, apply_penalties(decoder, logits[row : row + 1], ids[row : row + 1, start:]))
        assert torch.allclose(log_q[row].double().exp(), q[0], atol=1e-6)


def test_wrong_requests_are_refused():
    check_error(SpecError, "decoder beam: it does not draw each token from a Q", make_processor, "beam")
    check_error(SpecError, "decoder nucleus", parse_q_decoder, "nucleus,q=1")
    rows = BatchRows("cpu")
    rows.rows[0] = rows.begin("nucleus,repetition_penalty=1.2", [-1], [1, 2])
    check_error(DataError, "--no-async-scheduling", rows.choose_tokens, torch.zeros(1, 8))
