"""The claims of the three papers, and the table that says whether each holds in the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from openended.harness.report.findings import checks
from openended.harness.report.findings.checks import GEN_PPL, MAUVE, PRECISION, RECALL, Check, Verdict, join_components
from openended.harness.report.findings.uncertainty import LEVEL, check_with_uncertainty, draw_errors, is_sure
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Layout, Results, group_by_data


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding of a paper."""

    text: str
    source: str
    check: Check
    needs: str
    """Data that the check needs."""


M, PR, HUSE = "MAUVE 2021", "P&R 2024", "HUSE 2019"
THREE = ("greedy", "ancestral", "nucleus")
LENGTHS = ("max_new_tokens", "embedder.max_length")
CLAIMS = (
    Claim("MAUVE falls with length", f"{M}, Fig. 4", checks.check_trend(LENGTHS, MAUVE, -1), "three lengths"),
    Claim("MAUVE rises with model size", f"{M}, Table 4", checks.check_sizes(MAUVE),
          "two models whose names say their sizes"),
    Claim("By MAUVE greedy ≪ ancestral < nucleus", f"{M}, Table 3",
          checks.check_decoders(MAUVE, THREE, lambda g, a, n: g < checks.FAR * a and a < n), "the three decoders"),
    Claim("Adversarial fools Gen. PPL, not MAUVE", f"{M}, Table 3", checks.check_adversarial,
          "adversarial and nucleus"),
    Claim("Gen. PPL: nucleus is nearest to human, ancestral farthest", f"{M}, Table 3",
          checks.check_decoders(GEN_PPL, THREE, lambda g, a, n: n < g < a, gaps=True), "gen_ppl of the three decoders"),
    Claim("ε-perplexity ranks ancestral before nucleus before greedy", f"{M}, Table 3",
          checks.check_decoders(("eps_ppl", "eps_ppl"), THREE, lambda g, a, n: a < n < g),
          "eps_ppl of the three decoders"),
    Claim("Token JS ranks greedy before nucleus before ancestral", f"{M}, Table 3",
          checks.check_decoders(("jensen_shannon", "jensen_shannon"), THREE, lambda g, a, n: g < n < a),
          "jensen_shannon of the three"),
    Claim("Sparsemax score: greedy lowest, ancestral and nucleus similar", f"{M}, Table 3",
          checks.check_decoders(("sparsemax_score", "sparsemax_score"), THREE,
                                lambda g, a, n: g < min(a, n) and abs(a - n) < checks.CLOSE * (n - g)),
          "sparsemax_score of the three"),
    Claim("Beam search is close to greedy", f"{M}, Table 11",
          checks.check_decoders(MAUVE, ("greedy", "beam",
          "nucleus"), lambda g, b, n: abs(b - g) < checks.CLOSE * abs(n - g)),
          "greedy, beam and nucleus"),
    Claim("The best nucleus p lies inside its range", f"{M}, Fig. 8", checks.check_best_p_is_inside, "three p"),
    Claim("A larger model's best p is not smaller", f"{M}, Table 4", checks.check_best_p_rises_with_size,
          "three values of p for two sizes"),
    Claim("MAUVE agrees best with a discriminator", f"{M}, Table 10", checks.check_discriminator,
          "discriminator_accuracy of three systems"),
    Claim("Rankings survive the number of clusters", f"{M}, 4.2", checks.check_ranking("num_buckets", MAUVE),
          "several numbers of clusters"),
    Claim("Rankings survive another quantizer", f"{M}, 4.2", checks.check_ranking("quantizer", MAUVE),
          "two quantizers"),
    Claim("Rankings survive the scaling c", f"{M}, Fig. 5", checks.check_ranking("scaling_factor", MAUVE),
          "several values"),
    Claim("Rankings survive the embedder", f"{M}, Table 12", checks.check_ranking("embedder", MAUVE),
          "several embedders"),
    Claim("Rankings survive the number of texts", f"{M}, Fig. 7", checks.check_ranking("n", MAUVE, axis="num_examples"),
          "several values of num_examples"),
    Claim("Precision falls with temperature", f"{PR}, Fig. 1", checks.check_trend([checks.TEMPERATURE], PRECISION, -1),
          "three values"),
    Claim("Recall rises with temperature", f"{PR}, Fig. 1", checks.check_trend([checks.TEMPERATURE], RECALL, 1),
          "three values"),
    Claim("Precision and recall rise with model size", f"{PR}, Table 1", checks.check_sizes(PRECISION, RECALL),
          "two models whose names say their sizes"),
    Claim("Precision and recall agree across embedders", f"{PR}, Table B.1",
          checks.check_ranking("embedder", PRECISION, RECALL, least=checks.ALIKE_EMBEDDERS), "several embedders"),
    Claim("Precision and recall are steady over seeds", f"{PR}, Table B.5", checks.check_steadiness, "three seeds"),
    Claim("Rankings by precision and recall survive k", f"{PR}, Fig. 6", checks.check_ranking("k", PRECISION, RECALL),
          "several k"),
    Claim("Rankings by precision and recall survive N", f"{PR}, Fig. 6",
          checks.check_ranking("n", PRECISION, RECALL, axis="num_examples"), "several values of num_examples"),
    Claim("A lower temperature trades diversity for quality", f"{HUSE}, Table 1", checks.check_annealing,
          "three temperatures"),
    Claim("The model's probability shows what ratings hide", f"{HUSE}, Table 1", checks.check_hidden,
          "human ratings of the texts"),
)  # fmt: skip
REMARK = (
    f"≪: less than {checks.FAR:g} times; close, alike: within {checks.CLOSE:g} of the distance to nucleus "
    f"sampling; rankings survive: Spearman's ρ of at least {checks.ALIKE:g}; agree across embedders: of at least "
    f"{checks.ALIKE_EMBEDDERS:g}, the lowest in the paper's table; steady: a standard deviation of at most "
    f"{checks.STEADY:g}, the largest in the paper's table. Means over seeds; compared only where all other "
    "settings are the same. Shipped example judgments are ignored. Undecided: other texts could give the other "
    f"verdict; of two equal systems {LEVEL:.0%} get a sure verdict. The number of texts that would decide it "
    "assumes errors that shrink as 1/√n. No variation seen: the replicates of a value are all equal, so they give "
    "no verdict."
)


def build_findings_tables(results: Results, layout: Layout, name: str) -> list[Table]:
    """Build the table of claims with source, measured values and verdict; a claim is checked on every task."""
    parts = group_by_data([i for i in results.values if math.isfinite(i.mean)])
    errors = {task: draw_errors(results, part) for task, part in parts.items()}
    rows = []
    for claim in CLAIMS:
        by_task = {task: check_with_uncertainty(claim.check, part, errors[task]) for task, part in parts.items()}
        verdicts = {task: verdict for task, verdict in by_task.items() if verdict is not None}
        if not verdicts:
            measured, words = Cell(note=f"Needs {claim.needs}."), "not measured"
        else:
            (verdict,) = verdicts.values() if len(parts) == 1 else [combine_tasks(verdicts)]
            measured, words = Cell(words=verdict.measured_text), verdict.words
        rows.append(TableRow(claim.text, "claim", (Cell(words=claim.source), measured, Cell(words=words))))
    columns = tuple(Column("", title, title, "none") for title in ("source", "measured", "verdict"))
    return [Table(name, layout.title, columns, tuple(rows), (REMARK,), head="Claim", show_seeds=False)]


def combine_tasks(verdicts: dict[str, Verdict]) -> Verdict:
    """Combine the verdicts of several tasks; the claim holds if all do, and one sure failure decides it."""
    every: Sequence[Verdict] = list(verdicts.values())
    text = "; ".join(f"{task}: {verdict.measured_text}" for task, verdict in verdicts.items())
    doubts = tuple(doubt for verdict in every for doubt in verdict.doubts or [1.0] * len(verdict.outcomes))
    joint = replace(join_components(text, [holds for verdict in every for holds in verdict.outcomes]), doubts=doubts)
    if not joint.holds and is_sure(joint):
        return replace(joint, sure=True)
    sure = None if all(v.sure is None for v in every) else all(v.sure is not False for v in every) and joint.holds
    return replace(joint, sure=sure, varies=all(v.varies for v in every))
