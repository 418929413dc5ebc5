"""The metrics inside the real Inspect, on a model that returns known texts."""

import math

import pytest

from tests.harness.app.test_api import HUMAN, NUCLEUS
from tests.helpers import check_error, openended, write_jsonl

pytest.importorskip("inspect_ai", reason="needs the extra inspect: pip install 'openended[inspect]'")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    from openended.integrations.inspect import kid, mauve, texts, zipf

    folder = tmp_path_factory.mktemp("inspect")
    outputs = [ModelOutput.from_content("mockllm/model", text) for text in NUCLEUS]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    inside = {"outputs_dir": str(folder / "inside")}
    task = inspect_ai.Task(
        dataset=[Sample(input=f"prompt {i}", target=text) for i, text in enumerate(HUMAN)],
        solver=generate(),
        scorer=texts(),
        metrics=[mauve(embedder="docs-s", **inside), zipf(**inside), kid(embedder="no-such-model", **inside)],
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    options = {
        "log_dir": str(folder),
        "display": "none",
        "max_connections": 1,
        "max_samples": 1,
        "score_display": False,
    }
    (done,) = inspect_ai.eval(task, model=model, **options)
    assert done.status == "success", done.error
    return {metric.name: metric.value for metric in done.results.scores[0].metrics.values()}, folder


def test_mauve_is_that_of_openended_score_to_the_last_digit(log):
    from openended.harness.storage import read_record

    numbers, folder = log
    (path,) = folder.glob("*.eval")
    path.rename(folder / "log.eval")
    words = ("score", "model=log.eval", "--human", "log.eval", "--embedder", "docs-s", "--metrics", "mauve,zipf")
    done = openended(*words, "--name", "outside", cwd=folder, code=0)
    assert "log.eval, Inspect log, field 'human'" in done.stderr
    (run,) = (folder / "outputs/runs/outside").iterdir()
    rows = {(row.metric, row.system): row for row in read_record(run).results}
    mauve = rows["mauve", "model"]
    assert numbers["mauve"] == mauve.values["mauve"]
    assert (numbers["mauve_low"], numbers["mauve_high"]) == (
        mauve.intervals["mauve"]["low"], mauve.intervals["mauve"]["high"],
    )  # fmt: skip
    assert numbers["zipf_human"] == rows["zipf", "human"].values["zipf"]


def test_a_metric_that_cannot_be_computed_costs_nothing_else(log):
    assert math.isnan(log[0]["kid"])


def test_other_scorers_need_human_texts(tmp_path, caplog):
    from inspect_ai.scorer import SampleScore, Score

    from openended.harness.core.errors import SpecError
    from openended.integrations.inspect import distinct_n

    scores = [SampleScore(score=Score(value=1, answer=text), sample_id=i) for i, text in enumerate(NUCLEUS)]
    assert math.isnan(distinct_n(outputs_dir=str(tmp_path))(scores)["distinct_2"])
    assert "sample 0 has no text or no human text; use scorer=texts()" in caplog.messages[-1]
    human = write_jsonl(tmp_path / "human.jsonl", ({"text": text} for text in HUMAN))
    assert 0 < distinct_n(human=str(human), outputs_dir=str(tmp_path))(scores)["distinct_2"] < 1
    errors = len(caplog.messages)
    assert math.isnan(distinct_n()([])["distinct_2"])
    assert len(caplog.messages) == errors
    assert math.isnan(distinct_n(human="nothing.jsonl", outputs_dir=str(tmp_path))(scores)["distinct_2"])
    check_error(SpecError, "no option 'order'; did you mean 'orders'", distinct_n, order=2)


def test_the_names_are_found_through_the_entry_point():
    """`inspect score --scorer openended/texts` resolves these names in an installed package."""
    from inspect_ai._util.registry import registry_info

    from openended.integrations.inspect import mauve, texts

    assert registry_info(mauve()).name in ("mauve", "openended/mauve")
    assert registry_info(texts()).name in ("texts", "openended/texts")
