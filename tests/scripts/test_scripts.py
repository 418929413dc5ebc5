"""Scripts: rows and pages of benchmarks, training of the bundled models at tiny size, the law of draws in float32."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from argparse import Namespace
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from openended.harness.backends.denoiser.denoising import draw_in_float32
from openended.harness.core import load_members
from scripts import bench, messages, mutants, power, remeasure
from scripts.float32_draws import GRID, compute_entropy, compute_float32_law
from tests.helpers import ROOT
from tests.lazy import LazyModule, torch


def work(**fields):
    return bench.Benchmark(**({"name": "w", "harness": len} | fields))


def timing(seconds, result=None):
    return {"seconds": seconds, "peak": 10 << 20, "result": result or {"x": 1.0}, "versions": {}}


def test_messages_are_listed_with_examples_and_have_no_words_that_readers_stumble_over():
    texts = [text for _, _, text in messages.list_messages()]
    assert len(texts) > 2000
    stumbles = re.compile(
        r"beside|say little|resolve less|there (twice|again)|(one|texts?|line|rows?) an? (text|side|line)\b"
    )
    assert not [text for text in texts if stumbles.search(text)]
    assert messages.find_example("names {len(folders)} runs, and texts are printed of one: name that run")


def test_numbers_of_the_pages_are_chosen_by_a_seed_and_compared_by_their_digits():
    tables = remeasure.load_tables()
    assert len(tables) > 7
    claims, again, other = (remeasure.choose_claims(tables, seed, 20) for seed in (0, 0, 1))
    assert claims == again != other
    assert len({table.command for table, _ in claims}) > 5
    assert remeasure.is_close("0.103", "0.104", 0.0)
    assert not remeasure.is_close("0.103", "0.106", 0.0)
    assert remeasure.is_close("5.48e-02", "0.0549", 0.0)
    assert remeasure.is_close("1,024", "1,100", 0.1)


def test_mutants_are_drawn_by_a_seed_and_change_one_expression():
    drawn, again, other = (mutants.draw_mutants(["metrics/_mauve", "metrics/_ngrams"], seed, 30) for seed in (0, 0, 1))
    changed = [mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8")) for mutant in drawn]
    assert changed == [mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8")) for mutant in again]
    assert len(set(changed)) == 30
    assert drawn != other
    for mutant, text in zip(drawn, changed, strict=True):
        tree = ast.parse(text)
        assert ast.unparse(tree) != ast.unparse(ast.parse((ROOT / mutant.path).read_text(encoding="utf-8")))
        assert mutants.find_tests(mutant.path)[-1].startswith("tests/metrics")


def test_a_row_says_ratio_memory_and_agreement():
    line = bench.format_row(
        work(name="sum", against="peer", target="3×", agree=bench.format_max_gap, peer=len, peer_share=0.1),
        {"harness": timing(0.5), "peer": timing(5.0, {"x": 1.25})},
    )
    assert line == "| sum | peer | 500 ms | 5,000 ms (extrapolated) | 10.0× | 3× | 10 MiB / 10 MiB | ≤ 2e-01 |"


def test_medians_of_the_repeats_over_the_share_of_the_work(monkeypatch):
    times = iter([3.0, 2.0, 1.0, 6.0, 2.0, 4.0])
    monkeypatch.setattr(bench, "launch", lambda *_: {"seconds": next(times), "peak": 0, "result": 1, "versions": {}})
    sides = bench.measure("text", work(peer=len, peer_share=0.5), 3)
    assert (sides["harness"]["seconds"], sides["peer"]["seconds"]) == (2.0, 8.0)


def test_a_side_that_fails_is_not_run_again(monkeypatch):
    sides = []
    monkeypatch.setattr(bench, "launch", lambda area, work, side: sides.append(side) or {"skipped": "killed"})
    assert bench.measure("text", work(peer=len), 3) == {side: {"skipped": "killed"} for side in ("harness", "peer")}
    assert sides == ["harness", "peer"]


def test_the_page_keeps_other_areas_and_works_not_run_now(tmp_path):
    page = tmp_path / "docs" / "benchmarks.md"
    one, two = work(name="one"), work(name="two")
    bench.write_section(page, "text", [one, two], {"one": "| one | old |", "two": "| two | old |"}, {"numpy": "2.0"})
    bench.write_section(page, "people", [one], {"one": "| one | other |"}, {})
    bench.write_section(page, "text", [one, two], {"two": "| two | new |"}, {"numpy": "2.1"})
    text = page.read_text(encoding="utf-8")
    assert text.count("| two |") == 1
    assert "| two | new |" in text
    assert "| one | old |" in text
    assert "| one | other |" in text
    assert text.index("## text") < text.index("## people")
    assert str(ROOT) not in text


def test_every_area_lists_works_with_names_of_their_own():
    for area in bench.AREAS:
        names = [listed.name for listed in bench.load_area(area)]
        assert len(set(names)) == len(names), area
        assert names or area == "engines"  # its rows need vLLM
        assert all("|" not in name for name in names)


def test_a_measured_decision_takes_looks_until_it_is_decided():
    rng = np.random.default_rng(0)
    human, first = rng.normal(size=(2, 120, 4))
    pool = power.Pool(human, [first], rng.normal(2.0, size=(120, 4)))
    plans = [
        power.DecisionPlan((power.PlannedComparison("a", "b", "kid"),), looks) for looks in ((20, 40, 60), (55, 60))
    ]
    estimate = partial(power.estimate_in_space, metric=load_members("metric")["kid"](), key="kid")
    first, second = power.follow_looks(estimate, pool, plans, False, rng)
    assert first == (True, pytest.approx(2 / 3, abs=0.34))
    assert second == (True, pytest.approx(55 / 60))
    assert power.parse_looks("4", 400) == (100, 200, 300, 400) == power.parse_looks("100,200,300,400", 8)


def test_differences_of_a_mean_and_of_a_ratio_come_from_numbers_of_each_text():
    rng = np.random.default_rng(0)
    texts = np.stack([rng.integers(20, 60, (2, 400)), rng.normal(3, 0.3, (2, 400)), rng.normal(4, 1, (2, 400))], axis=2)
    sides = [power.make_side(name, rows, np.arange(400)) for name, rows in zip("ab", texts, strict=True)]
    difference, error, freedom = power.estimate_of_texts(sides[0], sides, "entropy")
    assert (difference, freedom) == (pytest.approx(np.mean(texts[0, :, 2] - texts[1, :, 2])), 399)
    assert error == pytest.approx(np.std(texts[0, :, 2] - texts[1, :, 2], ddof=1) / 20)
    difference, error, freedom = power.estimate_of_texts(sides[0], sides, "gen_ppl")
    logs = [np.average(side[:, 1], weights=side[:, 0]) for side in texts]
    assert difference == pytest.approx(np.exp(logs[0]) - np.exp(logs[1]))
    residuals = [
        np.exp(m) * side[:, 0] * (side[:, 1] - m) / side[:, 0].mean() for m, side in zip(logs, texts, strict=True)
    ]
    assert error == pytest.approx(np.std(residuals[0] - residuals[1]) / 20, rel=0.2)  # the delta method
    assert 100 < freedom < 199


@pytest.mark.long
def test_everything_for_a_gpu_runs_on_the_simulated_device(tmp_path):
    page = tmp_path / "gpu.md"
    subprocess.run(["bash", "scripts/gpu.sh", "--simulate", str(page)], cwd=ROOT, check=True)
    text = page.read_text()
    assert text.count("waits per step, on sim:0") == 4
    assert text.count("dependent on the batch, on sim:0") == 3
    assert "mauve, 500 + 500" in text
    assert "skipped" not in text.split("## two_sample")[0]  # mauve-text may be missing


# Objective, batches and initial weights of the bundled models, at tiny size

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


# The law of a draw in float32 against the draws themselves, for each value that a rare token's noise can take


@pytest.mark.parametrize("q", [2e-8, 6e-8, 3e-7])
def test_a_rare_token_wins_as_often_as_the_law_says(q):
    """The token's noise is k * 2^-24 with probability 2^-24; another token, or the mask, has all other probability."""
    draws, wins = 40_000, 0.0
    rest = torch.from_numpy(np.random.default_rng(0).random((draws, 1), dtype=np.float32))
    probs = torch.tensor([[q, 1 - q]], dtype=torch.float64).expand(draws, 2)
    for k in range(1, int(30 * q / GRID) + 30):
        rare = torch.full((draws, 1), 1 - k * GRID, dtype=torch.float32)
        wins += GRID * float((draw_in_float32(probs, torch.cat([rare, rest], dim=1)) == 0).float().mean())
    assert wins == pytest.approx(GRID / np.expm1(GRID / q), rel=0.05)


def test_more_steps_lose_more_entropy():
    zipf = (1 / np.arange(1, 4097))[None, :]
    zipf /= zipf.sum()
    lost = [
        float((compute_entropy(zipf) - compute_entropy(compute_float32_law(zipf, np.array([1 / steps]))))[0])
        for steps in (1, 64, 1024, 4096)
    ]
    assert lost[0] == pytest.approx(0, abs=1e-3)
    assert lost == sorted(lost)
    assert lost[-1] > 0.2
