"""Models stay loaded until others need their room."""

from __future__ import annotations

from openended.harness.core.runtime import Runtime
from openended.harness.models.model_cache import ModelCache, pick_device
from openended.harness.models.spec import ModelSpec
from tests.helpers import tiny_model


def test_the_least_recently_used_goes(tmp_path):
    first, second = (ModelSpec(path=str(tiny_model(tmp_path / name))) for name in ("a", "b"))
    (tmp_path / "b" / "generation_config.json").write_text("{}")
    models, runtime = ModelCache(), Runtime(device="cpu", keep_models=1)
    made = models.model(first, runtime)
    assert models.model(first, runtime) is made
    models.model(second, runtime)
    assert models.model(first, runtime) is not made
    assert models.loads == ["a", "b", "a"]


def test_a_device_by_name_is_taken_as_it_is():
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") in ("cpu", "cuda", "mps")
