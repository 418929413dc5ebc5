"""The kinds of check that claims are made of, and which values they read."""

import numpy as np
import pytest

from openended.harness.report.findings.checks import MAUVE, check_decoders, compare, iterate_by_decoder, parse_size
from openended.harness.report.findings.claims import load_claims
from openended.harness.report.findings.uncertainty import Errors, Sample
from openended.harness.results.frame import read_results
from tests.harness.report.synthetic import result, write_run


def items(folder, decoders, **more):
    for decoder, mauve, ppl in decoders:
        lines = [result("model", "mauve", {"mauve": mauve}, direction="higher")]
        lines += [result("model", "gen_ppl", {"gen_ppl": ppl}), result("human", "gen_ppl", {"gen_ppl": 30.0})]
        write_run(folder, decoder, 0, results=lines, **more)
    return Sample(read_results([folder]).values, Errors(None))


def test_gaps_are_distances_to_the_human_value(tmp_path):
    found = items(tmp_path, [("greedy", 0.1, 8.0), ("nucleus", 0.9, 31.0)])
    text, holds = check_decoders(found, [("gen_ppl", "gen_ppl")], ("nucleus", "greedy"), "nucleus < greedy", gaps=True)
    assert text == "|gap| nucleus p=0.95 1.000, greedy 22.0"
    assert holds.all()


@pytest.mark.parametrize(
    ("relation", "holds"),
    [("greedy << ancestral < nucleus", True), ("greedy > ancestral", False), ("greedy << greedy", False),
     ("ancestral ~ nucleus > greedy", True), ("greedy ~ ancestral", False)],
)  # fmt: skip
def test_relations_compare_neighbors(relation, holds):
    numbers = {"greedy": np.array([0.1]), "ancestral": np.array([0.8]), "nucleus": np.array([0.9])}
    assert compare(numbers, relation).tolist() == [holds]


def test_claims_are_told_apart_and_say_what_they_need():
    claims = load_claims()
    assert len({claim.claim for claim in claims}) == len(claims)
    assert all(claim.source and claim.needs for claim in claims)
    assert all(claim.check(Sample([], Errors(None))) is None for claim in claims), "no runs, no verdict"


def mauve(value, **more):
    return [result("model", "mauve", {"mauve": value}, direction="higher", **more)]


def test_a_decoder_stands_with_its_best_parameters(tmp_path):
    write_run(tmp_path, "greedy", 0, results=mauve(0.1))
    for p, value in ((0.5, 0.3), (0.9, 0.8)):
        write_run(tmp_path, "nucleus", 0, results=mauve(value), axes={"decoder.p": p})
    sample = Sample(read_results([tmp_path]).values, Errors(None))
    (found,) = iterate_by_decoder(sample, MAUVE, ("greedy", "nucleus"))
    assert [items[at[0]].mean for items, at in found] == [0.1, 0.8]


@pytest.mark.parametrize(("model", "place"), [("docs-s", 1), ("gpt2_large", 7), ("gpt2", None)])
def test_size_is_the_last_word_of_a_models_name(model, place):
    assert parse_size(model) == place
