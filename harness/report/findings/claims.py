"""The claims of the three papers, with their sources and checks."""

from __future__ import annotations

from dataclasses import dataclass

from openended.harness.report.findings.checks import (
    ALIKE_EMBEDDERS,
    CLOSE,
    FAR,
    KNN,
    TEMPERATURE,
    check_adversarial,
    check_annealing,
    check_best_p_is_inside,
    check_best_p_rises_with_size,
    check_discriminator,
    check_gaps,
    check_hidden,
    check_order,
    check_ranking,
    check_sizes,
    check_steadiness,
    check_trend,
)
from openended.harness.report.findings.claim_values import Check


@dataclass(frozen=True, slots=True)
class Claim:
    """One finding of a paper."""

    text: str
    source: str
    check: Check
    needs: str
    """Data that the check needs."""


M, PR, HUSE = "MAUVE 2021", "P&R 2024", "HUSE 2019"
SCORE = ("mauve", "mauve")
THREE = ("greedy", "ancestral", "nucleus")
LENGTHS = ("max_new_tokens", "embedder.max_length")
CLAIMS = (
    Claim("MAUVE falls with length", f"{M}, Fig. 4", check_trend(LENGTHS, *SCORE, -1), "three lengths"),
    Claim("MAUVE rises with model size", f"{M}, Table 4", check_sizes(*SCORE),
          "two models whose names say their sizes"),
    Claim("By MAUVE greedy ≪ ancestral < nucleus", f"{M}, Table 3",
          check_order(*SCORE, THREE, lambda g, a, n: g < FAR * a and a < n), "the three decoders"),
    Claim("Adversarial fools Gen. PPL, not MAUVE", f"{M}, Table 3",
          check_adversarial, "adversarial and nucleus"),
    Claim("Gen. PPL: nucleus is nearest to human, ancestral farthest", f"{M}, Table 3",
          check_gaps(THREE, lambda g, a, n: n < g < a), "gen_ppl of the three decoders"),
    Claim("ε-perplexity ranks ancestral before nucleus before greedy", f"{M}, Table 3",
          check_order("eps_ppl", "eps_ppl", THREE, lambda g, a, n: a < n < g), "eps_ppl of the three decoders"),
    Claim("Token JS ranks greedy before nucleus before ancestral", f"{M}, Table 3",
          check_order("jensen_shannon", "jensen_shannon", THREE, lambda g, a, n: g < n < a),
          "jensen_shannon of the three"),
    Claim("Sparsemax score: greedy lowest, ancestral and nucleus similar", f"{M}, Table 3",
          check_order("sparsemax_score", "sparsemax_score", THREE,
                lambda g, a, n: g < min(a, n) and abs(a - n) < CLOSE * (n - g)), "sparsemax_score of the three"),
    Claim("Beam search is close to greedy", f"{M}, Table 11",
          check_order(*SCORE, ("greedy", "beam", "nucleus"), lambda g, b, n: abs(b - g) < CLOSE * abs(n - g)),
          "greedy, beam and nucleus"),
    Claim("The best nucleus p lies inside its range", f"{M}, Fig. 8", check_best_p_is_inside, "three p"),
    Claim("A larger model's best p is not smaller", f"{M}, Table 4",
          check_best_p_rises_with_size, "three values of p for two sizes"),
    Claim("MAUVE agrees best with a discriminator", f"{M}, Table 10", check_discriminator,
          "discriminator_accuracy of three systems"),
    Claim("Rankings survive the number of clusters", f"{M}, 4.2", check_ranking("num_buckets", *SCORE),
          "several numbers of clusters"),
    Claim("Rankings survive another quantizer", f"{M}, 4.2", check_ranking("quantizer", *SCORE), "two quantizers"),
    Claim("Rankings survive the scaling c", f"{M}, Fig. 5", check_ranking("scaling_factor", *SCORE), "several values"),
    Claim("Rankings survive the embedder", f"{M}, Table 12", check_ranking("embedder", *SCORE), "several embedders"),
    Claim("Rankings survive the number of texts", f"{M}, Fig. 7",
          check_ranking("n", *SCORE, axis="num_examples"), "several values of num_examples"),
    Claim("Precision falls with temperature", f"{PR}, Fig. 1",
          check_trend([TEMPERATURE], KNN, "precision", -1), "three values"),
    Claim("Recall rises with temperature", f"{PR}, Fig. 1", check_trend([TEMPERATURE], KNN, "recall", 1),
          "three values"),
    Claim("Precision and recall rise with model size", f"{PR}, Table 1",
          check_sizes(KNN, "precision", "recall"), "two models whose names say their sizes"),
    Claim("Precision and recall agree across embedders", f"{PR}, Table B.1",
          check_ranking("embedder", KNN, "precision", "recall", least=ALIKE_EMBEDDERS), "several embedders"),
    Claim("Precision and recall are steady over seeds", f"{PR}, Table B.5", check_steadiness, "three seeds"),
    Claim("Rankings by precision and recall survive k", f"{PR}, Fig. 6",
          check_ranking("k", KNN, "precision", "recall"), "several k"),
    Claim("Rankings by precision and recall survive N", f"{PR}, Fig. 6",
          check_ranking("n", KNN, "precision", "recall", axis="num_examples"), "several values of num_examples"),
    Claim("A lower temperature trades diversity for quality", f"{HUSE}, Table 1", check_annealing,
          "three temperatures"),
    Claim("The model's probability shows what ratings hide", f"{HUSE}, Table 1", check_hidden,
          "human ratings of the texts"),
)  # fmt: skip
