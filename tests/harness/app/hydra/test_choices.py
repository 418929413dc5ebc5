"""A list where a group takes one choice, and options typed without their group."""

from __future__ import annotations

import pytest

from openended.harness.app.hydra.choices import refuse_lists
from openended.harness.core.errors import SpecError
from tests.helpers import openended


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("decoder=[greedy,nucleus]", "type decoder=greedy, or for a grid -m decoder=greedy,nucleus"),
        ("decoder=[greedy]", "decoder=[greedy]: a run has one decoder, not a list; type decoder=greedy"),
        ("model=[docs-s, docs-m]", "-m model=docs-s,docs-m"),
        ("scoring=[gpt2,gpt2-large]", "-m scoring=gpt2,gpt2-large"),
        ("task=[docs,webtext]", "-m task=docs,webtext"),
        ("experiment=['zipf','decoders']", "-m experiment=zipf,decoders"),
        ("embedder=[]", "type embedder=NAME"),
        ("hydra/launcher=[basic,joblib]", "a run has one hydra/launcher"),
    ],
)
def test_a_list_of_choices_is_refused(word, message):
    with pytest.raises(SpecError) as caught:
        refuse_lists(["seed=0", word])
    assert message in str(caught.value)


def test_metrics_are_a_list():
    refuse_lists(["metric=[mauve,zipf]", "metric.mauve.lambdas=[0.1,0.5]", "decoder=greedy,nucleus"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decoder=[greedy,nucleus]"], "a run has one decoder, not a list"),
        (["-m", "decoder=[greedy,nucleus]"], "a run has one decoder, not a list"),
        (["metric=mauve,zipf"], "metric=mauve,zipf: the metrics of a run are a list; type metric=[mauve,zipf]"),
        (["decoder=nucleus", "p=0.9"], "no option 'p'; did you mean decoder.p=0.9?"),
        (["mauve.num_buckets=50"], "did you mean metric.mauve.num_buckets=50?"),
        (["dtype=float16"], "did you mean model.dtype=float16 or scorer.dtype=float16"),
        (["-m", "decoder=nucleus", "p=0.8,0.9"], "did you mean decoder.p="),
        (["scorer.dtpye=float16"], "no option 'scorer.dtpye'; did you mean 'dtype'?"),
    ],
)
def test_the_command_answers_with_what_to_type(words, message, tmp_path):
    done = openended(*words, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "outputs" / "runs").exists()


def test_a_list_in_a_configuration_file_is_refused(tmp_path):
    folder = tmp_path / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("# @package _global_\ndefaults:\n  - override /decoder: [greedy, nucleus]\n")
    done = openended("--config-dir", "conf", "experiment=mine", "plan_only=true", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "decoder: a run has one decoder, not a list" in done.stderr
