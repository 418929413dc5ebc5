"""Language models that are fine-tuned to tell model texts from human ones."""

import shutil

import numpy as np
import pytest

from openended.harness.core import DataError
from openended.harness.models import ModelSpec, finetune_classifier
from tests.helpers import openended
from tests.lazy import torch

HUMAN = [f"Return the number {i} of the list as an integer." for i in range(20)]
MODEL = [f"the the the {i} the the the" for i in range(20)]
OPTIONS = {"learning_rate": 1e-3, "epochs": 4, "max_length": 16, "batch_size": 16, "seed": 1}


@pytest.mark.slow
def test_different_texts_are_told_apart_and_training_repeats():
    spec, is_model = ModelSpec(path="bundled:docs-s"), np.repeat([False, True], 16)
    texts, tests = [*HUMAN[:16], *MODEL[:16]], [*HUMAN[16:], *MODEL[16:]]
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    first, second = (finetune_classifier(spec, "cpu", texts, is_model, tests, **OPTIONS) for _ in range(2))
    assert first.tolist() == [False] * 4 + [True] * 4
    assert (first == second).all()
    assert torch.rand(1) == expected  # the random state is what it was


def test_a_model_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match=f"classifier {tmp_path} cannot be read"):
        finetune_classifier(ModelSpec(path=str(tmp_path)), "cpu", HUMAN, np.zeros(20, bool), HUMAN, **OPTIONS)


def test_weights_that_are_missing_are_refused_but_those_of_the_output_layer(tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = shutil.copytree("harness/assets/docs-s", tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if ".h.1." in name)
    save_file({key: value for key, value in weights.items() if key != name}, folder / "model.safetensors")
    with pytest.raises(DataError, match=f"cannot be read: .*1 missing: {name}"):
        finetune_classifier(ModelSpec(path=str(folder)), "cpu", HUMAN, np.zeros(20, bool), HUMAN, **OPTIONS)


@pytest.mark.slow
def test_a_run_trains_it_and_its_signature_names_the_weights(tmp_path):
    words = ["model=docs-s", "decoder=greedy", "num_examples=12", "max_new_tokens=8", "metric=finetuned_discriminator"]
    done = openended(*words, "metric.finetuned_discriminator.epochs=1", cwd=tmp_path, code=0)
    assert "Disc. acc. docs-s" in done.stdout
    assert "|weights:docs-s@" in done.stdout
