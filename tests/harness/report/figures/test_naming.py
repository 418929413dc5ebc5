"""Names of figures' files: what they show, and what tells them apart."""

from __future__ import annotations

from matplotlib.figure import Figure

from openended.harness.report.figures.naming import name_figures


def test_one_figure_is_called_what_it_shows():
    figure = Figure()
    assert name_figures("zipf", {("docs", "k=3"): figure, ("webtext", "k=3"): None}) == {"zipf": figure}
    assert name_figures("zipf", {("docs", ""): None}) == {}


def test_figures_are_told_apart_by_what_differs_and_by_nothing_else():
    figures = {("docs", "k=3"): Figure(), ("docs", "k=4"): Figure()}
    made = name_figures("zipf", figures)
    assert list(made) == ["zipf-k=3", "zipf-k=4"]
    assert list(made.values()) == list(figures.values())


def test_two_figures_never_share_a_file():
    """The slugs of both tasks are alike."""
    assert list(name_figures("zipf", {("a b",): Figure(), ("a/b",): Figure()})) == ["zipf-a_b", "zipf-a_b-2"]


def test_a_system_is_named_even_if_it_is_alone():
    assert list(name_figures("curve", {("docs", "nucleus"): Figure()}, always=True)) == ["curve-nucleus"]
