"""Settings become parts once: whose tokens, which model, what a file replaces."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from openended.harness.core.errors import DataError
from openended.harness.models.spec import ModelSpec
from openended.harness.run.resolve import NO_TOKENIZER, ResolvedRun, digest_model, resolve_run
from tests.harness.run.small import settings


def test_a_run_has_five_parts_and_its_spec():
    assert [f.name for f in fields(ResolvedRun)] == ["data", "generation", "scoring", "metrics", "runtime", "spec"]


def test_texts_of_a_file_have_no_model_and_no_decoder(tmp_path):
    chosen = settings(tmp_path, "model=docs-s", "samples=3")
    run = resolve_run(chosen)
    assert (run.generation.model, run.generation.decoder) == (chosen.model, chosen.decoder)
    assert (run.data.num_spare, run.data.tokenizer_spec.path) == (24, "bundled:docs-s")
    imported = resolve_run(replace(chosen, generations="texts.jsonl"))
    assert (imported.generation.model, imported.generation.decoder) == (None, None)
    assert (imported.data.num_spare, imported.data.tokenizer_spec.path) == (8, "bundled:docs-m")
    everything = resolve_run(replace(chosen, num_examples="all"))
    assert (everything.data.num_planned, everything.data.num_spare) == (0, 0)


def test_tokens_are_the_scorers_else_those_of_the_model_else_words(tmp_path):
    chosen = settings(tmp_path, "model=docs-s")
    assert resolve_run(chosen).scoring.counter.path == "bundled:docs-m"
    unscored = replace(chosen, scorer=None)
    assert resolve_run(unscored).scoring.counter.path == "bundled:docs-s"
    assert not resolve_run(unscored).scoring.cut_by_words
    words = resolve_run(replace(unscored, generations="texts.jsonl"))
    assert (words.scoring.counter, words.scoring.cut_by_words) == (None, True)
    assert words.data.tokenizer_digest == NO_TOKENIZER


def test_resolving_touches_no_file_and_a_digest_says_what_is_missing(tmp_path):
    lost = ModelSpec(path=str(tmp_path / "lost"))
    run = resolve_run(replace(settings(tmp_path), model=lost))
    with pytest.raises(DataError, match="lost"):
        _ = run.data.tokenizer_digest
    with pytest.raises(DataError, match="lost"):
        digest_model(lost)


def test_null_is_no_least_length(tmp_path):
    chosen = settings(tmp_path)
    assert resolve_run(replace(chosen, min_new_tokens=None)).generation.min_new_tokens == 0
    assert resolve_run(replace(chosen, min_new_tokens=4)).generation.min_new_tokens == 4
