"""What a search found, as tables and figures."""

import pytest

from openended.harness.core.errors import DataError
from openended.harness.report import build_search_tables, search_figures
from openended.harness.results import SearchObjective, SearchResult, SearchTrial, read_search, save_search

ONE = SearchResult(
    "s-12",
    "tpe",
    (SearchObjective("mauve", "maximize"),),
    (
        SearchTrial(0, "complete", {"decoder": "nucleus", "decoder.p": "0.9"}, (0.8,), {"0": (0.7,), "1": (0.9,)}),
        SearchTrial(1, "complete", {"decoder": "top_k", "decoder.k": "40"}, (0.9,), {"0": (0.9,), "1": (0.9,)}, {"5": (0.7,), "6": (0.8,)}),
        SearchTrial(2, "pruned", {"decoder": "top_k", "decoder.k": "2"}, (0.1,), size=50),
        SearchTrial(3, "failed", {"decoder": "top_k", "decoder.k": "0"}, (), error="k: expected 1 or more"),
        SearchTrial(4, "complete", {"decoder": "top_k", "decoder.k": "80"}, (0.85,), {"0": (0.8,), "1": (0.9,)}),
    ),
    ({"decoder": 0.25, "top_k.k": 0.75},),
    (50,),
)  # fmt: skip
NEARBY = (("0.7008", 0.8), ("0.7019", 0.9), ("0.75", 0.85))
TWO = SearchResult(
    "s-34",
    "nsgaii",
    (SearchObjective("mauve", "maximize"), SearchObjective("|Δ gen_ppl|", "minimize")),
    tuple(
        SearchTrial(i, "complete", {"decoder.p": str(i / 10)}, v)
        for i, v in enumerate([(0.9, 5.0), (0.8, 1.0), (0.8, 5.0)])
    ),
)


def cells(table, label):
    row = next(row for row in table.rows if row.label == label)
    return {column.title: cell for column, cell in zip(table.columns, row.cells, strict=True)}


def test_the_best_comes_first_with_its_interval_and_its_fresh_value():
    best, importance, trials = build_search_tables(ONE)
    assert [row.label for row in best.rows] == ["top_k k=40", "top_k k=80", "nucleus p=0.9"]
    found = cells(best, "top_k k=40")
    assert found["mauve"].value == 0.9
    assert found["mauve, fresh seeds"].value == pytest.approx(0.75)
    ends = [float(word) for word in cells(best, "nucleus p=0.9")["95 % over seeds"].words.split(" to ")]
    assert ends == pytest.approx([0.8 - 1.2706, 0.8 + 1.2706], abs=0.06)  # 12.706 · 0.1414 / √2
    assert [row.label for row in importance.rows] == ["top_k.k", "decoder"]
    assert [row.cells[1].words for row in trials.rows] == ["complete", "complete", "pruned at 50", "failed", "complete"]
    told = " ".join(best.remarks)
    assert "3 complete, 1 pruned, 1 failed" in told
    assert "top_k k=0: k: expected 1 or more" in told
    assert "no selection bias" in told


def test_settings_that_agree_to_two_digits_are_one():
    trials = [SearchTrial(i, "complete", {"decoder.p": p}, (v,)) for i, (p, v) in enumerate(NEARBY)]
    best = build_search_tables(SearchResult("s-56", "tpe", ONE.objectives, tuple(trials)))[0]
    assert [row.label for row in best.rows] == ["p=0.7019", "p=0.75"]
    assert any("agree to two digits" in remark for remark in best.remarks)


def test_the_front_holds_what_no_other_beats():
    assert [t.number for t in TWO.front()] == [0, 1]
    assert [t.number for t in ONE.front()] == [1]
    best, trials = build_search_tables(TWO)
    assert [row.label for row in best.rows] == ["p=0.0", "p=0.1"]
    assert len(trials.rows) == 3
    assert any("biased upward" in line for line in best.remarks)


def test_figures_are_drawn_of_what_there_is():
    assert set(search_figures(ONE)) == {"search-history", "search-importance", "search-parameters"}
    assert set(search_figures(TWO)) == {"search-history", "search-parameters-1", "search-parameters-2", "search-front"}
    assert search_figures(SearchResult("s", "tpe", ONE.objectives, ())) == {}


def test_the_file_holds_all_of_it(tmp_path):
    save_search(tmp_path, ONE)
    assert read_search(tmp_path) == ONE
    assert read_search(tmp_path / "none") is None
    (tmp_path / "search.json").write_text('{"name": "s"}')
    with pytest.raises(DataError, match="not a valid search file"):
        read_search(tmp_path)
