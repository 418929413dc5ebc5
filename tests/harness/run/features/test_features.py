"""Featurize takes the union of what all metrics need, and each model passes once over each source."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Need
from openended.harness.models.spec import list_bundled_models
from openended.harness.models.transformers import LanguageModel
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.pipeline import make_texts, plan, run
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.store import Store
from tests.harness.run.small import ONE_MODEL, settings

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")


def new_session(folder: Path) -> Session:
    return Session(Store(folder / "out" / "store"))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each pass of a model over a source: whether it scored, whether it embedded."""
    seen: list[tuple[bool, bool]] = []
    whole = LanguageModel.forward

    def counted(*words: Any, **options: Any) -> Any:
        seen.append((options["nll"] is not None, options["pool"] is not None))
        return whole(*words, **options)

    monkeypatch.setattr(LanguageModel, "forward", counted)
    return seen


def test_one_pass_a_source_scores_and_embeds(tmp_path: Path, passes: list[tuple[bool, bool]]) -> None:
    made = settings(tmp_path, *ONE_MODEL, "metric=[frechet,gen_ppl,kid,zipf]")
    session = new_session(tmp_path)
    run(made, session)
    # Human and model side; the further human texts of the ceiling are embedded alone.
    assert Counter(passes) == {(True, True): 2, (False, True): 1}
    assert session.loads == ["docs-s"]


def test_two_models_pass_once_each(tmp_path: Path, passes: list[tuple[bool, bool]]) -> None:
    words = ("embedder.path=bundled:docs-s", "scorer.path=bundled:docs-m")
    made = settings(tmp_path, *words, "metric=[frechet,gen_ppl,kid]")
    run(made, new_session(tmp_path))
    assert Counter(passes) == {(True, False): 2, (False, True): 3}


def test_what_is_there_is_not_made_with_the_rest(tmp_path: Path, passes: list[tuple[bool, bool]]) -> None:
    run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl]"), new_session(tmp_path))
    assert Counter(passes) == {(True, False): 2}
    passes.clear()
    run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl,frechet]"), new_session(tmp_path))
    assert Counter(passes) == {(False, True): 3}


def test_what_a_decoder_needs_of_the_human_side_is_a_need(tmp_path: Path, passes: list[tuple[bool, bool]]) -> None:
    """The perplexity that the adversarial decoder aims at comes of the pass that serves the metrics, too."""
    made = settings(tmp_path, *ONE_MODEL, "decoder=adversarial", "metric=[frechet,gen_ppl]")
    session = new_session(tmp_path)
    outcome = run(made, session)
    assert Counter(passes) == {(True, True): 2, (False, True): 1}
    stages = [step.stage for step in outcome.plan]
    assert stages.index("score") < stages.index("generate")
    passes.clear()
    assert {step.state for step in plan(made, new_session(tmp_path)).plan} == {"hit"}
    assert run(made, new_session(tmp_path)).num_computed == 0
    assert passes == []


def test_a_planned_decoder_waits_for_the_human_side(tmp_path: Path) -> None:
    made = settings(tmp_path, *ONE_MODEL, "decoder=adversarial", "metric=[gen_ppl]")
    session = new_session(tmp_path)
    states = {step.stage: step.state for step in plan(made, session).plan}
    assert (states["examples"], states["score"], states["generate"]) == ("make", "waits", "waits")
    assert session.loads == []


def test_sides_are_shared_by_contents(tmp_path: Path) -> None:
    made = settings(tmp_path, *ONE_MODEL, "metric=[frechet]")
    session = new_session(tmp_path)
    texts = make_texts(resolve_run(made), ArtifactBuilder(session, plan_only=False))
    (need,) = made.metrics[0].needs()
    texts.featurizer.make([(texts.human_rows, (need,))], texts.decoder)
    first = texts.featurizer.side(texts.human_rows, [need])
    again = make_texts(resolve_run(made), ArtifactBuilder(session, plan_only=False))
    again.featurizer.make([(again.human_rows, (need,))], again.decoder)
    assert again.featurizer.side(again.human_rows, [need]) is first
    assert not first.embeddings(need).flags.owndata  # a memory map


def test_what_a_source_cannot_have_is_a_reason(tmp_path: Path) -> None:
    made = replace(settings(tmp_path, "decoder=beam", "metric=[zipf]"), embedder=None)
    texts = make_texts(resolve_run(made), ArtifactBuilder(new_session(tmp_path), plan_only=False))
    vectors, q = Need("embeddings", by="embedder"), Need("next_token", by="decoder")
    texts.featurizer.make([(texts.human_rows, (vectors, q))], texts.decoder)
    for need, reason in ((vectors, "set embedder=gpt2-large"), (q, "beam")):
        with pytest.raises(UndefinedMetric, match=reason):
            texts.featurizer.side(texts.human_rows, [need])


def test_an_option_that_scoring_does_not_have_is_refused(tmp_path: Path) -> None:
    texts = make_texts(
        resolve_run(settings(tmp_path, "metric=[zipf]")), ArtifactBuilder(new_session(tmp_path), plan_only=False)
    )
    with pytest.raises(SpecError, match="no option beta"):
        texts.featurizer.make(
            [(texts.human_rows, (Need("token_nll", by="scorer", options=(("beta", 1),)),))], texts.decoder
        )
