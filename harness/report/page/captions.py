"""Titles of the figures, and captions that say what is seen and how to read it."""

from __future__ import annotations

from typing import NamedTuple


class Caption(NamedTuple):
    """Title and caption of a kind of figure."""

    title: str
    text: str


CAPTIONS = {
    "divergence": Caption(
        "Divergence curves of MAUVE",
        "Each curve mixes model and human text in all proportions: to the right, the model writes less that people "
        "do not; to the top, it misses less of what people write. Read: a curve farther to the top and right, with a "
        "larger area (the number in the legend), is nearer to the human text. Curves that coincide differ in dash "
        "and marker. Bands: a standard deviation over seeds and clusterings.",
    ),
    "metrics": Caption(
        "Every metric",
        "One panel per metric, one row per system; bars: a standard deviation over seeds, of one seed the 95 % "
        "interval over its texts; the dashed line is the human text. Read: ↑ farther right is better, ↓ farther "
        "left, ≈ nearest to the dashed line; systems whose bars overlap may not differ.",
    ),
    "quality_diversity": Caption(
        "Quality against diversity",
        "Generation perplexity (left: fluent or repetitive; right: surprising) against the entropy of the texts "
        "(top: varied words). A line joins one decoder at several values of its parameter; the first and the last "
        "are named. Read: the star is the human text, and the system nearest to it is best.",
    ),
    "frontier": Caption(
        "Generative frontier",
        "Gen-PPL against the entropy of the texts, interpolated between the settings of each decoder; bands: 95 % "
        "over prompts. Read: at equal entropy, lower is more predictable to the scorer. Below: diversity between "
        "texts.",
    ),
    "stress": Caption(
        "What each metric sees",
        "The smallest strength of each damage to human text that each metric detects at 5 %, in percent of the words "
        "or of the texts. Read: bright cells are seen early, dark ones (no) are blind spots; – is not measured.",
    ),
    "steps": Caption(
        "Steps at equal entropy",
        "Gen-PPL at the entropy of human text, interpolated between the temperatures of each number of steps; bars "
        "and bands: 95 % over prompts. Read: lower is more predictable to the scorer; a line that no longer falls "
        "gains nothing from more steps. Systems without steps are horizontal. Where no temperature reaches the human "
        "entropy, there is no point.",
    ),
    "precision_recall": Caption(
        "Precision and recall",
        "Precision (how much of the model's text is like human text) against recall (how much of the human text the "
        "model covers). Ellipses: two standard deviations over seeds. Read: up and to the right is better; a system "
        "at the top left writes well but says little of what people say.",
    ),
    "best_of_n": Caption(
        "Best of N settings",
        "What the best of N settings of a decoder gives, with equal N for all: chosen on one half of the seeds, "
        "scored on the other; bands: 95 % over seeds. Dotted: chosen and scored on the same seeds, which is too "
        "good. Read: compare decoders at the same N; a curve that still rises has not been tuned to its end.",
    ),
    "similarity": Caption(
        "Similarity of systems",
        "The mean cosine between the embeddings of two systems' texts for the same prompt; the diagonal is between "
        "seeds of one system. Read: a pair as bright as its two diagonal cells writes the same texts up to chance.",
    ),
    "zipf": Caption(
        "Rank and frequency of tokens",
        "How often the most frequent token occurs, the second, and so on, on logarithmic axes. Read: best is a curve "
        "like the human text's; a steeper one uses few tokens too often.",
    ),
    "sweep": Caption(
        "Metrics against one setting",
        "Each metric along one setting, all else the same; bands: a standard deviation over seeds (of one seed: the "
        "95 % interval); dashed: the human text. Read: where a line meets the dashed one, the setting is most human.",
    ),
    "pr_curves": Caption(
        "Precision-recall curves",
        "What share of the model text is plausible (precision) at what share of the human text covered (recall), over "
        "the cells of MAUVE's quantization; next to it MAUVE's own curve. Read: a curve that ends early on the right "
        "misses human text, one that ends low writes implausible text.",
    ),
    "f_scores": Caption(
        "F-scores of the curves",
        "F1/8 and F8 of the precision-recall curve and of MAUVE's curve, and precision and recall by nearest "
        "neighbors. Read: only where the two lines part does a curve tell quality from diversity.",
    ),
    "huse-stability": Caption(
        "Stability of HUSE",
        "HUSE with fewer ratings a text and fewer examples; bands: intervals of 90 %. Read: where the curves are "
        "flat and the bands narrow, more ratings would change little.",
    ),
    "huse-parts": Caption(
        "The two parts of HUSE",
        "HUSE-Q (quality: people's ratings alone) against HUSE-D (diversity: what the model's probabilities add). "
        "Read: systems on one dotted line have the same HUSE; up and to the right is better.",
    ),
    "huse": Caption(
        "Human and model texts",
        "Each text by its log-probability and mean rating; the shading shows how sure the classifier behind HUSE is "
        "that a text there is the reference's (blue) or the model's (red). Read: the more the two sides mix, the "
        "higher HUSE; a horizontal border separates by quality, a diagonal one also by diversity.",
    ),
    "metric-agreement": Caption(
        "Agreement of metrics",
        "Spearman's ρ between the values of two metrics over all systems. Read: 1 is the same order, 0 unrelated, −1 "
        "the opposite order (agreement, where one metric is better when high and the other when low).",
    ),
}
"""Prefix of a figure's name → its caption; the first match is used."""


def find_caption(name: str) -> tuple[str, str]:
    """Return the title of a figure, with what distinguishes it from others of its kind, and its caption."""
    prefix = next((begin for begin in CAPTIONS if name == begin or name.startswith(f"{begin}-")), None)
    if prefix is None:
        return name.replace("_", " "), ""
    title, caption = CAPTIONS[prefix]
    rest = name.removeprefix(prefix).strip("-").replace("_", " ")
    return (f"{title}: {rest}" if rest else title), caption
