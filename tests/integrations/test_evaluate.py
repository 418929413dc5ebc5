"""MAUVE inside Hugging Face Evaluate."""

import pytest

import openended as oe

evaluate = pytest.importorskip("evaluate", reason="evaluate is not installed")


def test_a_local_folder_is_a_module_that_calls_compute_mauve(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    pairs = [(word, color) for word in ("cat", "dog") for color in ("red", "blue")]
    human = [f"The {word} was {color} on day {i}." for word, color in pairs for i in range(5)]
    model, options = human[::2], {"featurize_model_name": "docs-s", "num_buckets": 3}
    metric = evaluate.load(oe.integrations.EVALUATE_MAUVE, cache_dir=str(tmp_path))
    result = metric.compute(predictions=model, references=human[:10], **options)
    expected = oe.compute_mauve(p_text=human[:10], q_text=model, **options)
    assert result["mauve"] == expected.mauve
    assert result["signature"] == expected.signature
