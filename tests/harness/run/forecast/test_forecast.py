"""Plans added up: what jobs share counts once."""

from __future__ import annotations

from dataclasses import replace

from openended.harness.models.spec import ModelSpec
from openended.harness.run.artifacts import PlannedArtifact, UnavailableInput, Workload
from openended.harness.run.forecast import Rates, forecast_plans
from openended.harness.run.pipeline import Outcome, plan
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.harness.run.small import settings

MODEL = ModelSpec(path="bundled:docs-m")
HUMAN = Workload(role="human", num_texts=10, num_tokens=50, model=MODEL)
UNDER_TEST = replace(HUMAN, role="model")
PLAN = (
    PlannedArtifact("examples", "docs", "hit", "e", Workload(role="human")),
    PlannedArtifact("generate", "docs-s nucleus", "waits", None, UNDER_TEST),
    PlannedArtifact("score", "human continuation", "waits", None, HUMAN),
    PlannedArtifact("embed", "human prompt_and_continuation", "waits", None, HUMAN),
    PlannedArtifact("score", "model continuation", "waits", None, UNDER_TEST),
    PlannedArtifact("measure", "mauve model", "waits", None, Workload(role="model", metric="mauve")),
)


def outcome(folder, *missing, lines=PLAN):
    return Outcome(folder, 0, lines, missing)


def made(folder, **change):
    return resolve_run(
        replace(
            settings(folder, "metric=[gen_ppl,mauve]", "decoder=nucleus"), num_examples=10, max_new_tokens=5, **change
        )
    )


def test_two_seeds_share_the_human_side_and_not_the_texts(tmp_path):
    missing = outcome(tmp_path, UnavailableInput("a file is missing"))
    total = forecast_plans([(made(tmp_path, seed=seed), missing) for seed in (0, 1)])
    assert (total.jobs, total.num_cached, total.texts, total.tokens) == (2, 1, 20, 100)
    assert (total.read("score"), total.read("embed")) == (30, 10)
    assert list(total.missing) == ["a file is missing"]
    assert total.measures["mauve"] == 2
    assert total.disk == 100 * 16 + 150 * 8 + 10 * 4096


def test_estimates_read_fields_and_no_words(tmp_path):
    before = forecast_plans([(made(tmp_path), outcome(tmp_path))])
    renamed = tuple(replace(line, what=f"more human model {number}") for number, line in enumerate(PLAN))
    after = forecast_plans([(made(tmp_path), outcome(tmp_path, lines=renamed))])
    assert (after.generate, after.reads, after.measures) == (before.generate, before.reads, before.measures)


def test_models_and_files_are_listed_once_and_other_reasons_apart(tmp_path):
    run = made(tmp_path)
    reasons = (
        UnavailableInput("model x is not here", is_model=True),
        UnavailableInput("a message about a file in the local cache", url="https://elsewhere"),
    )
    assert list(forecast_plans([(run, outcome(tmp_path, *reasons))]).missing) == [reasons[1].reason]


def test_spare_human_texts_are_read_beside_the_human_side(tmp_path):
    spare = PlannedArtifact("score", "more human continuation", "waits", None, replace(HUMAN, role="more human"))
    total = forecast_plans([(made(tmp_path), outcome(tmp_path, lines=(*PLAN, spare)))])
    assert total.read("score") == 30


def test_what_passes_over_the_human_side_for_a_decoder_is_the_model_under_test(tmp_path):
    chosen = settings(tmp_path, "metric=[gen_ppl]", "decoder=adversarial", "model=docs-s")
    total = forecast_plans([(resolve_run(chosen), plan(chosen, Session(Store(tmp_path / "store"))))])
    scored = {spec.path for stage, _, spec in total.reads if stage == "score"}
    assert scored == {"bundled:docs-s", "bundled:docs-m"}


def test_one_pass_scores_and_embeds_and_no_rate_is_no_time(tmp_path):
    total = forecast_plans([(made(tmp_path), outcome(tmp_path))])
    assert total.time(Rates()) == (None, "unknown")
