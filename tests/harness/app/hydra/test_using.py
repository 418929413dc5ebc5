"""`using=docs`: the section of an experiment's YAML, its old name, and experiments without one."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.app.hydra.using import apply_using, join_name, sections, split_name
from openended.harness.core.errors import SpecError


@pytest.mark.parametrize(
    ("typed", "composed"),
    [
        (["experiment=zipf"], ["experiment=zipf"]),
        (["experiment=zipf", "using=paper"], ["experiment=zipf", "using=paper"]),
        (["using=docs", "experiment=zipf", "seed=1"], ["experiment=zipf_docs", "seed=1"]),
        (["experiment=zipf,mauve_fig2", "using=docs"], ["experiment=zipf_docs,mauve_fig2_docs"]),
        (["experiment=zipf", "using=paper,docs"], ["experiment=zipf,zipf_docs"]),
        (["experiment=zipf_docs", "using=docs"], ["experiment=zipf_docs"]),
        (["experiment=quickstart", "using=docs"], ["experiment=quickstart", "using=docs"]),  # the group alone
        (["using=docs"], ["using=docs"]),
    ],
)
def test_words_become_the_experiment_that_hydra_composes(typed, composed):
    assert apply_using(typed) == composed


def test_an_old_name_works_and_says_what_to_type(capsys):
    assert apply_using(["experiment=mauve_table3_docs,quickstart"]) == ["experiment=mauve_table3_docs,quickstart"]
    said = capsys.readouterr().err
    assert said == "openended: experiment=mauve_table3_docs is now experiment=mauve_table3 using=docs\n"
    apply_using(["experiment=human_study_docs"])  # an experiment of this name, not a section
    assert not capsys.readouterr().err


def test_a_list_must_have_sections_throughout():
    with pytest.raises(SpecError, match="using=docs: quickstart has no such section: run it by itself"):
        apply_using(["experiment=zipf,quickstart", "using=docs"])


def test_names_of_sections():
    assert sections("zipf") == ("docs",)
    assert sections("quickstart") == sections("nothing") == ()
    assert split_name("zipf_docs") == ("zipf", "docs")
    assert split_name("human_study_docs") == ("human_study_docs", "")
    assert join_name("zipf_docs", "paper") == join_name("zipf", None) == "zipf"


def test_a_section_is_composed_after_its_experiment_and_is_no_option_of_it():
    with initialize_config_module("openended.conf", version_base="1.3"):
        paper = compose("config", overrides=["experiment=mauve_table3"], return_hydra_config=True)
        docs = compose("config", overrides=["experiment=mauve_table3_docs"], return_hydra_config=True)
    assert not [key for key in (*paper, *docs) if "=" in str(key)]
    assert (paper.num_examples, docs.num_examples) == (5000, 400)
    assert OmegaConf.to_container(docs.hydra.sweeper.params) == {
        "decoder": "adversarial,greedy,ancestral,nucleus",
        "model": "docs-m",
        "seed": "0,1",
    }
    assert docs.metric == paper.metric
