import numpy as np
import pytest

from openended.harness.core.errors import UndefinedMetric
from openended.harness.core.metric_spec import Features, Side
from openended.harness.core.types import HUMAN
from openended.metrics.system_similarity import SystemSimilarity, system_similarity
from tests.metrics.within_helpers import check_rows, sizes_of, vectors
from tests.oracles import diversity as oracle

SPEC = SystemSimilarity()


def side(name, ids, rows):
    return Side(name, tuple(ids), {SPEC.needs()[0]: rows})


def test_hand_value():
    """(1, 0) against (0.6, 0.8) and (1, 0): 0.6 and 1, mean 0.8; prompt q is not common."""
    one, two = np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[0.6, 0.8], [1.0, 0.0]])
    assert system_similarity(one, two, first_ids=["p", "q"], second_ids=["p", "p"]) == pytest.approx(0.8)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pair_after_pair(seed):
    a_ids, b_ids = sizes_of(seed), sizes_of(seed + 50)[1:]
    a, b = vectors(len(a_ids), seed), vectors(len(b_ids), seed + 1)
    by_prompt = []
    for name in sorted(set(a_ids) & set(b_ids)):
        rows = (
            [v for v, i in zip(a, a_ids, strict=True) if i == name],
            [v for v, i in zip(b, b_ids, strict=True) if i == name],
        )
        by_prompt.append(np.mean([oracle.cosine(x, y) for x in rows[0] for y in rows[1]]))
    assert system_similarity(a, b, first_ids=a_ids, second_ids=b_ids) == pytest.approx(np.mean(by_prompt))
    assert system_similarity(b, a, first_ids=b_ids, second_ids=a_ids) == pytest.approx(np.mean(by_prompt))


def test_no_common_prompt_is_no_number():
    assert np.isnan(system_similarity(vectors(2), vectors(2), first_ids=["a", "b"], second_ids=["c", "d"]))


def test_the_metric_compares_with_every_other_set_of_the_grid():
    ids = [f"p/{i}" for i in range(6) for _ in range(2)]
    sets = [vectors(12, seed) for seed in range(3)]
    others = [side("model", ids, rows) for rows in sets] + [side("model", ["z/0"], vectors(1, 9))]
    human = side(HUMAN, [f"p/{i}" for i in range(6)], vectors(6, 7))
    result = SPEC.compute(Features(human, side("model", ids, sets[1].copy()), {}, others))
    expected = [system_similarity(sets[1], rows, first_ids=ids, second_ids=ids) for rows in sets]
    assert result.arrays["own"].tolist() == [1]
    np.testing.assert_allclose(result.arrays["between"][:3], expected)
    assert np.isnan(result.arrays["between"][3])
    assert result.values["system_similarity"] == pytest.approx((expected[0] + expected[2]) / 2)
    to_human = system_similarity(sets[1], vectors(6, 7), first_ids=ids, second_ids=human.ids)
    assert result.values["human"] == pytest.approx(to_human)
    check_rows(result, "system_similarity")


def test_without_other_systems_it_is_undefined():
    one = side("model", ["a", "b"], vectors(2))
    with pytest.raises(UndefinedMetric, match="a grid"):
        SPEC.compute(Features(one, one, {}))
    with pytest.raises(UndefinedMetric, match="no other system"):
        SPEC.compute(Features(one, one, {}, (one,)))
