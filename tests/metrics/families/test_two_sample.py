"""Metrics whose cost grows with the square of the texts' number: what they compare of more, and how they say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openended.harness.core.metric_spec import Features, Side
from openended.metrics.discriminator_accuracy import DiscriminatorAccuracy
from openended.metrics.frechet import Frechet
from openended.metrics.kid import Kid, kid
from openended.metrics.knn_precision_recall import KnnPrecisionRecall
from tests.helpers import features

METRICS = (KnnPrecisionRecall(), Kid(), DiscriminatorAccuracy())


def sides(metric, n_human=60, n_model=60) -> Features:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 4)).astype(np.float32) for n in (n_human, n_model)]
    made = features(metric, human=rows[0], model=rows[0], n_human=n_human, n_model=n_model)
    return replace(made, model=replace(made.model, data=dict.fromkeys(metric.needs(), rows[1])))


def measured(metric, whole):
    """As a run measures."""
    part, notes = metric.limit_texts(whole)
    result = metric.compute(part)
    return replace(result, notes=(*result.notes, *notes))


@pytest.fixture
def reach(monkeypatch):
    for metric in METRICS:
        monkeypatch.setattr(type(metric), "most", 24)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_what_fits_is_compared_whole(metric, reach):
    few = sides(metric, 24, 24)
    found, notes = metric.limit_texts(few)
    assert found is few
    assert not notes
    assert (measured(metric, few).n_human, measured(metric, few).n_model) == (24, 24)
    assert not any("were compared" in note for note in measured(metric, few).notes)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_of_more_a_part_is_and_a_note_and_the_signature_say_so(metric, reach):
    result = measured(metric, sides(metric))
    assert (result.n_human, result.n_model) == (24, 24)
    assert "|n:24of60/24of60|" in f"{result.signature}|"
    (note,) = [note for note in result.notes if "were compared" in note]
    assert note.startswith("24 of 60 human and 24 of 60 other texts were compared, drawn by their ids")


def test_the_value_is_that_of_the_texts_that_were_drawn(reach):
    metric = Kid()
    whole = sides(metric)
    part, _ = metric.limit_texts(whole)
    need = metric.needs()[0]
    human, model = (side.embeddings(need) for side in (part.human, part.model))
    rows = [int(name.rpartition("/")[2]) for name in part.human.ids]
    assert np.array_equal(human, whole.human.embeddings(need)[rows])
    assert measured(metric, whole).values["kid"] == kid(human=human, model=model).kid


def test_both_sides_keep_the_same_prompts_and_no_order_of_a_file_matters(reach):
    metric = KnnPrecisionRecall()
    whole = sides(metric)
    part, _ = metric.limit_texts(whole)
    assert part.human.ids == part.model.ids
    order = np.random.default_rng(1).permutation(60)
    need = metric.needs()[0]
    turned = [
        Side(s.system, [s.ids[i] for i in order], {need: s.embeddings(need)[order]}) for s in (whole.human, whole.model)
    ]
    assert measured(metric, replace(whole, human=turned[0], model=turned[1])).values == measured(metric, whole).values


def test_a_smaller_side_stays_whole(reach):
    result = measured(KnnPrecisionRecall(), sides(KnnPrecisionRecall(), 60, 10))
    assert (result.n_human, result.n_model) == (24, 10)
    assert "n:24of60/10of10" in result.signature


def test_a_metric_that_grows_with_the_number_alone_takes_all():
    assert Frechet.most is None
    assert measured(Frechet(), sides(Frechet(), 60, 60)).n_human == 60
