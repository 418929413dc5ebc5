"""Plans added up: what jobs share counts once."""

from __future__ import annotations

from dataclasses import replace

from openended.harness.run.artifacts import Planned
from openended.harness.run.forecast import forecast
from openended.harness.run.pipeline import Outcome
from openended.harness.run.rates import Rates
from tests.harness.run.small import settings

PLAN = (
    Planned("examples", "docs", "hit", "e"),
    Planned("generate", "docs-s nucleus", "waits", None),
    Planned("score", "human continuation", "waits", None),
    Planned("embed", "human prompt_and_continuation", "waits", None),
    Planned("score", "model continuation", "waits", None),
    Planned("measure", "mauve model", "waits", None),
)


def outcome(folder, *missing):
    return Outcome(folder, 0, PLAN, missing)


def made(folder, **change):
    return replace(
        settings(folder, "metric=[gen_ppl,mauve]", "decoder=nucleus"), num_examples=10, max_new_tokens=5, **change
    )


def test_two_seeds_share_the_human_side_and_not_the_texts(tmp_path):
    plans = [(made(tmp_path, seed=seed), outcome(tmp_path, "a file is missing")) for seed in (0, 1)]
    total = forecast(plans)
    assert (total.jobs, total.found, total.texts, total.tokens) == (2, 1, 20, 100)
    assert (total.read("score"), total.read("embed")) == (30, 10)
    assert list(total.missing) == ["a file is missing"]
    assert total.measures["mauve"] == 2
    assert total.disk == 100 * 16 + 150 * 8 + 10 * 4096


def test_one_pass_scores_and_embeds_and_no_rate_is_no_time(tmp_path):
    total = forecast([(made(tmp_path), outcome(tmp_path))])
    assert total.time(Rates()) == (None, "unknown")
