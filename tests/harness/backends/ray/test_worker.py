"""What a worker answers: values with its remarks, errors of the user's as words, and no model but the one asked for."""

from __future__ import annotations

import logging

import pytest

from openended.harness.backends.ray.backend import make_model_ref
from openended.harness.backends.ray.worker import Worker
from openended.harness.core.runtime import Runtime
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.spec import ModelSpec
from tests.helpers import tiny_model


@pytest.fixture
def worker() -> Worker:
    return Worker(Runtime(device="cpu"))


def test_other_files_than_the_drivers_are_refused(worker, tmp_path):
    spec = ModelSpec(path=str(tiny_model(tmp_path)))
    other = worker.do("describe_model", (make_model_ref(spec)._replace(identity="0" * 64),))
    assert other.value is None
    assert other.error is not None
    assert other.error[0] == "DataError"
    assert "has other files than the run's own machine" in other.error[1]
    assert worker.do("describe_model", (make_model_ref(spec),)).value.context_length == 64


def test_an_embedder_of_the_same_model_is_the_same_weights(worker, tmp_path):
    path = str(tiny_model(tmp_path))
    made = [
        worker.do("describe_model", (make_model_ref(spec),)).value
        for spec in (ModelSpec(path=path), EmbedderSpec(path=path))
    ]
    assert made[0] == made[1]
    assert len(worker._models.loads) == 1


def test_what_a_worker_says_comes_back(worker, monkeypatch):
    monkeypatch.setattr(
        worker, "describe_model", lambda _: logging.getLogger("openended.x").warning("half as %s", "many")
    )
    assert worker.do("describe_model", (None,)).remarks == ("half as many",)
    assert not logging.getLogger("openended").handlers, "nobody listens any more"


def test_a_mistake_in_the_code_is_raised(worker, monkeypatch):
    with pytest.raises(TypeError):
        worker.do("describe_model", ())
    assert worker.ready() > 0
