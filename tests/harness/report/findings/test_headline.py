"""The sentence at the top of a report names the best system and says how sure that is."""

import pytest

from openended.harness.report.findings import claims
from openended.harness.report.findings.claims import write_headline
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


def write_scores(folder, **values):
    """Write runs with these MAUVE values: system → one value per seed."""
    for decoder, scores in values.items():
        for seed, score in enumerate(scores):
            line = result("model", "mauve", {"mauve": score}, family="two_sample", direction="higher")
            write_run(folder, decoder, seed, results=[line], title=decoder)
    return read_results([folder])


def test_a_clear_lead_and_a_tie_are_told_apart(tmp_path):
    results = write_scores(
        tmp_path, greedy=[0.20, 0.21, 0.19, 0.2], nucleus=[0.90, 0.92, 0.91, 0.91], ancestral=[0.93, 0.88, 0.90, 0.91]
    )
    sentence = write_headline(results)
    assert sentence.startswith("nucleus has the highest MAUVE, 0.910: ahead of greedy by 0.710 ± 0.0")
    assert "not told apart from ancestral (difference 0.005 ± 0." in sentence
    assert sentence.endswith(" would tell nucleus from every other system.")


def test_systems_without_known_error_are_not_called_worse(tmp_path):
    sentence = write_headline(write_scores(tmp_path, greedy=[0.2], nucleus=[0.9]))
    assert sentence == (
        "nucleus has the highest MAUVE, 0.900: not tested against greedy (intervals=200 would test it)."
    )


def test_one_system_has_no_finding(tmp_path):
    assert write_headline(write_scores(tmp_path, greedy=[0.2, 0.3])) == ""


def test_of_many_systems_the_nearest_are_named(tmp_path):
    scores = {name: [0.1 + at / 10, 0.101 + at / 10, 0.1 + at / 10] for at, name in enumerate("abcdef")}
    sentence = write_headline(write_scores(tmp_path, **scores))
    assert sentence.startswith("f has the highest MAUVE, 0.600: ahead of e by 0.100 ± 0.00")
    assert sentence.endswith("and 2 more.")


def test_people_decide_before_mauve():
    assert claims.HEADLINES.index("huse") < claims.HEADLINES.index("mauve")


@pytest.mark.parametrize(("names", "text"), [("a", "a"), ("ab", "a and b"), ("abcd", "a, b, c and 1 more")])
def test_names_are_joined(names, text):
    assert claims._join_names([(at, name) for at, name in enumerate(names)]) == text
