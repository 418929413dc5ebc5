"""The metrics inside the real lm-evaluation-harness: the numbers of `openended score`, to the last digit."""

import json
import math
import tomllib
from importlib import import_module

import pytest

from tests.harness.app.test_api import HUMAN, NUCLEUS
from tests.helpers import ROOT, openended, write_jsonl

pytest.importorskip("lm_eval", reason="needs the extra lm-eval: pip install 'openended[lm-eval]'")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

FUNCTION = "openended.integrations.lm_eval"
TASK = f"""\
task: mine
custom_dataset: !function {FUNCTION}.load_examples
output_type: generate_until
test_split: test
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{human}}}}"
target_delimiter: ""
generation_kwargs: {{until: []}}
metric_list:
  - metric: !function {FUNCTION}.mauve
    embedder: docs-s
    outputs_dir: OUT
  - metric: zipf
    aggregation: openended
    outputs_dir: OUT
  - metric: kid
    aggregation: openended
    outputs_dir: OUT
    embedder: no-such-model
metadata: {{version: 1, openended_task: jsonl, num_examples: 20, task_options: {{path: FILE}}}}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Evaluate a model that returns known texts."""
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class KnownTexts(LM):
        def generate_until(self, requests, disable_tqdm=False):
            return NUCLEUS[: len(requests)]

        def loglikelihood(self, requests, disable_tqdm=False):
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    folder = tmp_path_factory.mktemp("lm_eval")
    rows = ({"prompt": f"prompt {i}", "human": text} for i, text in enumerate(HUMAN))
    file = write_jsonl(folder / "human.jsonl", rows)
    (folder / "tasks").mkdir()
    text = TASK.replace("OUT", str(folder / "inside")).replace("FILE", str(file))
    (folder / "tasks/mine.yaml").write_text(text)
    manager = TaskManager(include_path=str(folder / "tasks"), include_defaults=False)
    found = simple_evaluate(model=KnownTexts(), tasks=["mine"], task_manager=manager, log_samples=True)
    tracker = EvaluationTracker(output_path=str(folder / "out"))
    tracker.general_config_tracker.model_name_sanitized = "known"
    tracker.date_id = "now"
    tracker.save_results_samples(task_name="mine", samples=found["samples"]["mine"])
    (folder / "out/known/samples_mine_now.jsonl").rename(folder / "samples_mine.jsonl")
    return found["results"]["mine"], folder


def test_mauve_is_that_of_openended_score_to_the_last_digit(results):
    numbers, folder = results
    words = ("score", "samples_mine.jsonl", "--human", "samples_mine.jsonl", "--embedder", "docs-s")
    done = openended(*words, "--metrics", "mauve,zipf", "--name", "outside", cwd=folder, code=0)
    assert "samples_mine.jsonl, lm-evaluation-harness samples, field 'human'" in done.stderr
    (record,) = (folder / "outputs/runs/outside").glob("*/record.json")
    rows = {(row["metric"], row["system"]): row for row in json.loads(record.read_text())["results"]}
    mauve, zipf = rows["mauve", "model"], rows["zipf", "model"]
    assert numbers["mauve,none"] == mauve["values"]["mauve"]
    assert numbers["mauve_low,none"] == mauve["intervals"]["mauve"]["low"]
    assert numbers["mauve_high,none"] == mauve["intervals"]["mauve"]["high"]
    assert 0 < numbers["mauve,none"] < 1
    assert numbers["zipf,none"] == zipf["values"]["zipf"]
    assert numbers["zipf_human,none"] == rows["zipf", "human"]["values"]["zipf"]


def test_a_metric_that_cannot_be_computed_costs_nothing_else(results):
    numbers, _ = results
    assert math.isnan(numbers["kid,none"])
    assert math.isnan(numbers["kid_low,none"])


def test_entry_points_name_registered_objects():
    """What the versions after 0.4.13 do with entry points: load the object, whose module registers it."""
    from lm_eval.api.registry import get_aggregation, get_metric, get_metric_aggregation

    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert len(points["lm_eval.metrics"]) == 8
    for name, place in points["lm_eval.metrics"].items():
        module, _, attribute = place.partition(":")
        assert getattr(import_module(module), attribute) is get_metric(name)
        assert get_metric_aggregation(name) is get_aggregation("openended")
    assert points["lm_eval.aggregations"] == {"openended": f"{FUNCTION}:aggregate"}


def test_the_packaged_tasks_name_functions_and_options_that_exist():
    from lm_eval.tasks import TaskManager

    from openended.harness.core import construct, load_members
    from openended.integrations.lm_eval import TASKS, load_examples
    from openended.integrations.measure_texts import check_options

    manager = TaskManager(include_path=str(TASKS), include_defaults=False)
    assert set(manager.all_tasks) == {f"openended_{name}" for name in ("docs", "jsonl", "webtext", "writing_prompts")}
    from lm_eval.tasks._yaml_loader import load_yaml

    for path in TASKS.glob("openended_*.yaml"):
        content = load_yaml(path, resolve_func=True)
        meta = content["metadata"]
        task = construct(load_members("task")[meta["openended_task"]], meta["task_options"], "task")
        assert not task.needs_tokenizer()
        for metric in content["metric_list"]:
            known = ("metric", "aggregation", "higher_is_better")
            check_options(metric["metric"].__name__, {k: v for k, v in metric.items() if k not in known})
        assert content["custom_dataset"] is load_examples
