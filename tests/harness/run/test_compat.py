from __future__ import annotations

import copy

import pytest

from openended.harness.app.commands.score import convert_preset
from openended.harness.core.catalogue import list_bundled_choices
from openended.harness.core.errors import SpecError
from openended.harness.core.names import read_node
from openended.harness.core.registry import load_members
from openended.harness.run.compat import apply_preset, read_preset


def test_a_preset_sets_options_of_the_metrics_there_are_and_keeps_what_the_user_set():
    config = {
        "metric": copy.deepcopy({**read_node("metric", "gen_ppl"), **read_node("metric", "zipf")}),
        "embedder": None,
        "compat": dict(read_node("compat", "mdlm")),
    }
    config["metric"]["gen_ppl"]["average"] = "macro"
    applied = apply_preset(config)
    assert set(applied) == {"metric", "embedder"}
    assert applied["metric"]["gen_ppl"]["end_tokens"] == "first"
    assert applied["metric"]["gen_ppl"]["average"] == "macro"
    assert applied["metric"]["zipf"] == config["metric"]["zipf"]
    assert applied["embedder"] is None
    assert apply_preset({**config, "embedder": {"path": "x", "max_length": None}})["embedder"]["max_length"] == 1024
    assert apply_preset({**config, "embedder": {"path": "x", "max_length": 64}})["embedder"]["max_length"] == 64
    assert apply_preset({"metric": config["metric"], "compat": {}})["metric"] is config["metric"]


@pytest.mark.parametrize("name", list_bundled_choices("compat"))
def test_the_options_of_every_preset_are_accepted(name):
    for metric, options in read_preset(name).get("metric", {}).items():
        load_members("metric")[metric](**options)


def test_an_unknown_preset_is_refused():
    assert read_preset(None) == {}
    with pytest.raises(SpecError, match="no compat 'mdlmm'"):
        read_preset("mdlmm")


def test_a_word_of_the_score_command_is_a_preset_unless_it_is_a_file(tmp_path):
    assert convert_preset(["a.jsonl", "compat=mdlm"]) == ["a.jsonl", "--compat=mdlm"]
    assert convert_preset(["a.jsonl", "--compat", "sedd"]) == ["a.jsonl", "--compat", "sedd"]
    file = tmp_path / "texts.jsonl"
    file.write_text("{}")
    assert convert_preset([f"compat={file}"]) == [f"compat={file}"]
