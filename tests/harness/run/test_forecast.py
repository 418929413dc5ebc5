"""Plans added up, where what jobs share counts once; and rates as the store's manifests tell them."""

import pytest

from openended.harness.core import DataError, UnavailableFileError, UnavailableModelError, digest, write_json
from openended.harness.models.spec import ModelSpec
from openended.harness.run import Outcome, Rates, forecast_plans, plan, read_rates
from openended.harness.run.forecast import Forecast
from openended.harness.run.steps import Step, StepState
from openended.harness.storage import Recipe
from tests.harness.run.small import open_session, settings
from tests.helpers import change_settings

SMALL, MODEL = ModelSpec(path="bundled:docs-s"), ModelSpec(path="bundled:docs-m")


def line(stage, what, role, spec=None, metric=None, state="waits", recipe=None) -> StepState:
    reads = metric is None and recipe is None
    step = Step(stage, what, role, spec or {}, {}, lambda *_: {}, model=MODEL if reads else None, metric=metric)
    return StepState(step, state, recipe, None, 10 if reads else 0, 50 if reads else 0)


LOSSES, VECTORS = {"losses": True}, {"losses": False, "vectors": "prompt_and_continuation"}
PLAN = (
    line("examples", "docs", "human", state="hit", recipe=Recipe("examples", 1, {}, {})),
    line("generate", "docs-s nucleus", "model"),
    line("read", "human losses of continuation, vectors of prompt_and_continuation", "human", {**VECTORS, **LOSSES}),
    line("read", "model losses of continuation", "model", LOSSES),
    line("measure", "mauve model", "model", metric="mauve"),
)


def outcome(folder, *missing, lines=PLAN):
    return Outcome(folder, 0, lines, missing)


def made(folder, **change):
    chosen = settings(folder, "metric=[gen_ppl,mauve]", "decoder=nucleus")
    return change_settings(chosen, num_examples=10, max_new_tokens=5, **change)


def test_two_seeds_share_the_human_side_and_not_the_texts(tmp_path):
    missing = outcome(tmp_path, DataError("a file is missing"))
    total = forecast_plans([(made(tmp_path, seed=seed), missing) for seed in (0, 1)])
    assert (total.jobs, total.num_cached, total.texts, total.tokens) == (2, 1, 20, 100)
    assert (total.read("score"), total.read("embed")) == (30, 10)
    assert list(total.missing) == ["a file is missing"]
    assert total.measures["mauve"] == 2
    assert total.disk == 100 * 16 + 150 * 8 + 10 * 4096
    assert total.time(Rates()) is None


def test_what_a_model_reads_in_place_of_the_prompts_is_one_for_all_decoders(tmp_path):
    chosen, lines = made(tmp_path), (line("chat", "list", "model", metric="none"),)
    jobs = [change_settings(chosen, seed=seed) for seed in (0, 1)]
    assert forecast_plans([(job, outcome(tmp_path, lines=lines)) for job in jobs]).waits == 1


def test_models_and_files_are_listed_once_and_other_reasons_apart(tmp_path):
    reasons = (UnavailableModelError("no model x"), UnavailableFileError("a file in the cache", "https://elsewhere"))
    assert list(forecast_plans([(made(tmp_path), outcome(tmp_path, *reasons))]).missing) == ["a file in the cache"]


def test_spare_human_texts_are_read_in_addition_to_the_human_side(tmp_path):
    spare = line("read", "more human losses of continuation", "more human", LOSSES)
    total = forecast_plans([(made(tmp_path), outcome(tmp_path, lines=(*PLAN, spare)))])
    assert total.read("score") == 30


def test_what_passes_over_the_human_side_for_a_decoder_is_the_model_under_test(tmp_path):
    chosen = settings(tmp_path, "metric=[gen_ppl]", "decoder=adversarial", "model=docs-s")
    total = forecast_plans([(chosen, plan(chosen, open_session(tmp_path)))])
    scored = {spec.path for stage, _, spec in total.reads if stage == "score"}
    assert scored == {"bundled:docs-s", "bundled:docs-m"}


def write(store, number, stage, seconds, *, inputs=None, spec=None, **meta):
    manifest = {"seconds": seconds, "meta": meta, "recipe": {"inputs": inputs or {}, "spec": spec or {}}}
    write_json(store / stage / "aa" / f"{number}" / "manifest.json", manifest)


@pytest.fixture
def store(tmp_path):
    used = {"inputs": {"model": digest(SMALL.identity())}, "spec": {"decoder": {"name": "nucleus"}}}
    write(tmp_path, 1, "generate", 10.0, tokens=100, **used)  # loading the model took most of it
    write(tmp_path, 2, "generate", 10.0, tokens=9000, reused_tokens=4000, **used)
    write(tmp_path, 3, "read", 2.0, tokens=800, inputs={"scorer": digest(MODEL.identity())})
    for number, seconds in enumerate((1.0, 3.0, 9.0), 4):
        write(tmp_path, number, "measure", seconds, metric="mauve")
    (tmp_path / "generate/aa/7").mkdir()
    (tmp_path / "generate/aa/7/manifest.json").write_text("damaged")
    return tmp_path


def test_the_largest_entry_counts_and_what_was_not_measured_is_unknown(store):
    rates = read_rates(store)
    small, model = digest(SMALL.identity()), digest(MODEL.identity())
    assert (rates.generate, rates.passes, rates.measures) == ({(small, "nucleus"): 500.0}, {model: 400.0}, {"mauve": 3})
    known = Forecast(generate={"a": (SMALL, "nucleus", 1, 1000)}, reads={("score", "a", MODEL): (1, 800)})
    known.measures["mauve"] = 2
    assert known.time(rates) == 1000 / 500 + 800 / 400 + 2 * 3
    known.measures["zipf"] = 1
    assert known.time(rates) is None, "no rate of zipf"


def test_an_empty_store_knows_nothing(tmp_path):
    assert read_rates(tmp_path) == Rates()
