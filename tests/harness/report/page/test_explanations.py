"""The first sentence of "Why", and the names of the cells."""

from collections import Counter

from openended.harness.report.page.explanations import (
    count_words,
    find_typical_words,
    find_worst_cell,
    quote_beginning,
    summarize_cells,
    summarize_missed,
)

CELLS = [{"human": 0.30, "model": 0.05, "cell": 1}, {"human": 0.02, "model": 0.11, "cell": 2}]


def test_the_cell_that_explains_the_loss_is_overfilled_or_missed():
    assert find_worst_cell(CELLS) is CELLS[1]
    assert summarize_cells("greedy", 0.89, 0.95, CELLS, "“The method is…”") == (
        "greedy has MAUVE 0.89, 0.06 below the human ceiling of 0.95: 11 % of its texts fall into a cell with 2 % of the "
        "human text, for example “The method is…”."
    )
    assert summarize_cells("greedy", 0.96, 0.95, CELLS, "").startswith(
        "greedy has MAUVE 0.96, at the human ceiling of 0.95:"
    )
    assert summarize_cells("greedy", 0.89, None, CELLS, "").startswith("greedy has MAUVE 0.89: 11 %")

    assert summarize_cells("greedy", None, None, CELLS[:1], "") == (
        "greedy: only 5 % of its texts fall into a cell with 30 % of the human text."
    )


def test_missed_texts_typical_words_and_quotes():
    missed = {"human": {"count": 12}, "model": {"count": 3}}
    assert summarize_missed("greedy", missed, {"model": "“a b”"}) == (
        "greedy: 3 of its texts have no human text nearby (precision), such as “a b”; 12 human texts have no text of "
        "it nearby (recall)."
    )

    texts = ["the tensor shape", "the Tensor input", "the tensor input 12", "the cat"]
    counts = Counter(count_words(texts)) + Counter({"the": 96, "input": 10, "shape": 50})
    # Of 100 texts 100 have "the": too many. "tensor": 3 log(100 / 3) = 10.5; "input": 2 log(100 / 12) = 4.2.
    assert find_typical_words(texts, counts, 100) == ["tensor", "input"]
    assert find_typical_words([], counts, 100) == []
    assert find_typical_words(["which cat", "which cat"], counts, 100) == ["cat"]  # function words say nothing

    assert quote_beginning(" one two ") == "“one two”"
    assert quote_beginning("a b c d e f g h i") == "“a b c d e f g h…”"
