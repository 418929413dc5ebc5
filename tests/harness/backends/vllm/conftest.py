"""The reference backend, and the stand-in for vLLM with the same model."""

import pytest

from openended.harness.backends.transformers import load_backend
from openended.harness.models.spec import ModelSpec
from tests.harness.backends.vllm.fake import fake_vllm


@pytest.fixture(scope="package")
def reference():
    return load_backend(ModelSpec(path="bundled:docs-s"))


@pytest.fixture
def engine(reference):
    with fake_vllm(reference) as fake:
        yield fake
