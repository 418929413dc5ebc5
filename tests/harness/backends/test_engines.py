"""Engines: one small interface, and every engine does what its spec says."""

import pytest

from openended.harness.backends.denoiser.backend import DenoiserBackend, DenoiserSpec
from openended.harness.backends.openai.backend import ServerBackend, ServerSpec
from openended.harness.backends.ray.backend import RayBackend
from openended.harness.backends.transformers import TransformersBackend
from openended.harness.backends.vllm.backend import VllmBackend, VllmSpec
from openended.harness.models import Backend, BackendSpec, ModelSpec

METHODS = {
    "generate": "generate", "score": "forward", "rank": "forward", "embed": "forward", "q_statistics": "q_statistics",
    "q_entropy": "q_statistics", "gradients": "sketch_gradients",
}  # fmt: skip
ENGINES: list[tuple[type[BackendSpec], type[Backend]]] = [
    (ModelSpec, TransformersBackend), (ModelSpec, RayBackend), (VllmSpec, VllmBackend), (ServerSpec, ServerBackend),
    (DenoiserSpec, DenoiserBackend),
]  # fmt: skip


def test_a_backend_has_at_most_ten_members():
    members = {name for name in vars(Backend) | Backend.__annotations__ if not name.startswith("_")}
    assert len(members) == 10


@pytest.mark.parametrize(("spec", "engine"), ENGINES)
def test_a_backend_has_the_methods_of_its_abilities(spec, engine):
    for name in {*METHODS.values()}:
        needed = any(METHODS[ability] == name for ability in spec.abilities)
        assert (getattr(engine, name) is not getattr(Backend, name)) == needed
