"""Scripts: every benchmark and study at tiny size, rows and pages of benchmarks, training of the bundled models."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from itertools import combinations

import numpy as np
import pytest

from scripts import bench, pages
from scripts.studies import power, study
from tests.helpers import ROOT, cases, openended
from tests.lazy import LazyModule, torch


def work(**fields):
    return bench.Benchmark(**({"name": "w", "harness": len} | fields))


def timing(seconds, result=None):
    return {"seconds": seconds, "peak": 10 << 20, "result": result or {"x": 1.0}, "versions": {}}


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


def test_works_are_chosen_by_what_the_list_prints(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench.py", "--list", "--only", "decoding: beam"])
    assert bench.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("decoding: beam num_beams=4, ")
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only", "beamsearch"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "--only beamsearch: no area or work has this in its name; --list prints them" in capsys.readouterr().err


def test_differences_of_a_mean_and_of_a_ratio_come_from_numbers_of_each_text():
    rng = np.random.default_rng(0)
    texts = np.stack([rng.integers(20, 60, (2, 400)), rng.normal(3, 0.3, (2, 400)), rng.normal(4, 1, (2, 400))], axis=2)
    sides = [power.make_side(name, rows, np.arange(400)) for name, rows in zip("ab", texts, strict=True)]
    difference, error, dof = power.estimate_of_texts(sides[0], sides, "entropy")
    assert (difference, dof) == (pytest.approx(np.mean(texts[0, :, 2] - texts[1, :, 2])), 399)
    assert error == pytest.approx(np.std(texts[0, :, 2] - texts[1, :, 2], ddof=1) / 20)
    difference, error, dof = power.estimate_of_texts(sides[0], sides, "gen_ppl")
    logs = [np.average(side[:, 1], weights=side[:, 0]) for side in texts]
    assert difference == pytest.approx(np.exp(logs[0]) - np.exp(logs[1]))
    pairs = zip(logs, texts, strict=True)
    residuals = [np.exp(m) * side[:, 0] * (side[:, 1] - m) / side[:, 0].mean() for m, side in pairs]
    assert error == pytest.approx(np.std(residuals[0] - residuals[1]) / 20, rel=0.2)  # the delta method
    assert 100 < dof < 199


@pytest.mark.long
def test_everything_for_a_gpu_runs_on_the_simulated_device(tmp_path):
    page = tmp_path / "gpu.md"
    subprocess.run(["bash", "scripts/gpu.sh", "--simulate", str(page)], cwd=ROOT, check=True)
    text = page.read_text()
    assert text.count("waits per step, on sim:0") == 4
    assert text.count("dependent on the batch, on sim:0") == 3
    assert "mauve, 60 + 60" in text
    assert "skipped" not in text.split("## two_sample")[0]  # mauve-text may be missing


@cases(
    "area",
    *(
        pytest.param(area, marks=pytest.mark.slow if area == "loading" else pytest.mark.long)
        for area in bench.AREAS
        if area not in ("accelerator", "precision", "engines")
    ),
)
def test_every_benchmark_of_the_harness_runs_at_tiny_sizes(area):
    command = [sys.executable, "scripts/bench.py", "--simulate", "--only", area, "--repeats", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Studies: every row is computed at a tiny size

TINY = {
    "audit_faults": "--texts 4 --audits 1 --only =1.1 Gumbel channel half constant new twice",
    "audit_honest": "--texts 4 --audits 1 --only ancestral min_p",
    "audit_half": "--texts 4 --audits 1 --only bfloat16,",
    "coverage": "--worlds 3 --n 40 --only zipf kid",
    "huse": "--worlds 3",
    "equal_systems": "--worlds 2 --only flips Kendall headline finding",
    "equal_systems --drop 3": "--worlds 2 --only good",
    "features": "--n 40 --dimension 4 --only frechet",
    "joint": "--n 8 --human 16 --worlds 3 --equal 3 --mix 0.5 --only kid frechet",
    "looks": "--n 12 --looks 2 6,12 --worlds 2 --equal 2 --only kid gen_ppl entropy",
    "resolution": "--worlds 1 --only sides",
}
LONG = {"audit_half", "joint", "looks", "resolution"}
SLOW = {"audit_faults", "audit_honest"}


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    words = "-m decoder=nucleus,greedy num_examples=24 max_new_tokens=6 metric=[kid,gen_ppl,entropy]"
    openended(*words.split(), cwd=folder, code=0)
    return folder / "outputs/runs"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.long if n in LONG else pytest.mark.slow if n in SLOW else []) for n in TINY],
)
def test_every_study_runs_at_a_tiny_size(name, request, capsys, tmp_path):
    words = [*name.split(), *TINY[name].split()]
    if name in ("joint", "looks"):
        words += ["--runs", str(request.getfixturevalue("two_runs"))]
    assert study.main(words) == 0
    rows = capsys.readouterr().out.splitlines()
    declared = study.load_study(words[0])
    page = (ROOT / declared.page).read_text(encoding="utf-8")
    heading = declared.heading
    if isinstance(heading, str) and f"<!-- {heading} -->" in page:
        width = len(pages.split_row(pages.read_table(page, heading)[2]))
        assert {len(pages.split_row(row)) for row in rows} == {width}
    assert rows


def test_a_study_writes_its_rows_and_checks_them(tmp_path, capsys, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- measured -->\n| systems | HUSE |\n| --- | --- |\n| equal | old |\n<!-- /measured -->\nb\n")
    words = ["huse", "--worlds", "2", "--only", "equal", "far apart"]
    assert study.main([*words, "--write", str(page)]) == 0
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line.split(" | ")[0] for line in lines[4:6]] == ["| equal", "| far apart"]
    assert {*lines[4:6]} <= {*capsys.readouterr().out.splitlines()}
    assert (lines[0], lines[-1], len(lines)) == ("a", "b", 8)
    assert study.main([*words, "--check"]) == 1
    assert "not on docs/metrics/huse.md" in capsys.readouterr().out
    monkeypatch.setitem(study.load_study("huse").__dict__, "page", str(page))
    assert study.main([*words, "--check"]) == 0


# Objective, batches and initial weights of the bundled models, at tiny size

causal, masked, data, train = (LazyModule(f"scripts.docs_lm.{name}") for name in ("causal", "masked", "data", "train"))
transformers = LazyModule("transformers")

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


def test_a_model_is_trained_calibrated_and_exported(tokenizer, tmp_path):
    texts = ["Return the mean of an array along an axis.", "Open a file and return the number of its bytes."] * 40
    sequences = {split: data.encode(tokenizer, texts) for split in ("train", "valid")}
    options = Namespace(
        model="tiny", assets=tmp_path, tokens=12_000, batch_tokens=512, lr=0.01, warmup=2, decay=0.5, weight_decay=0.05,
        dropout=0.0, bfloat16=False, eval_tokens=4000, patience=2, calibrate=True, seed=0,
    )  # fmt: skip
    count = {"passages": 1, "words": 2}
    facts = {"fingerprint": "f", "versions": {"numpy": "2"}, "train": count, "valid": count, "test": count}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(data.SIZES, "tiny", data.Size(32, 2, 4, 0, 0, 0.0, "test"))
        training = train.Training(options, causal, tokenizer, sequences, facts)
        fresh = causal.build_model(options, tokenizer)
        before, best = training.evaluate(fresh)[0], training.train(fresh)
        assert best.ppl < before / 10
        assert training.calibrate(fresh) in train.CALIBRATION_GRID
        training.export(fresh, best)
    tiny = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "tiny")
    assert tiny.num_parameters() == sum(p.numel() for p in fresh.parameters())
    assert "--model tiny --tokens 12000" in (tmp_path / "tiny/README.md").read_text(encoding="utf-8")


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
