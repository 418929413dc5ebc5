"""Captions that explain how to read each figure."""

from __future__ import annotations

CAPTIONS = {
    "divergence": (
        "MAUVE's divergence curves. A curve farther to the top and right, with a larger area (the number), is "
        "nearer to the human text."
    ),
    "metrics": (
        "Every metric of every system; bars: a standard deviation over seeds, of one seed the 95 % interval over its "
        "texts. The dashed line is the human text."
    ),
    "quality_diversity": (
        "Quality against diversity. The star is the human text: nearest to it is best. A line joins one decoder "
        "at several values of its parameter; the first and the last are named."
    ),
    "frontier": (
        "Gen-PPL against the entropy of the texts, interpolated between the settings of each decoder; bands: 95 % over "
        "prompts. At equal entropy, lower is more predictable to the scorer. Below: diversity between texts."
    ),
    "precision_recall": (
        "Precision (how much of the model's text is like human text) against recall (how much of the human text "
        "the model covers). Ellipses: two standard deviations over seeds."
    ),
    "best_of_n": (
        "What the best of N settings of a decoder gives, equal N for all: chosen on one half of the seeds, scored on "
        "the other; bands: 95 % over seeds. Dotted: chosen and scored on the same seeds, which is too good."
    ),
    "similarity": (
        "How alike the texts of two systems for the same prompt are: the mean cosine of their embeddings. The diagonal "
        "is between seeds of one system."
    ),
    "zipf": "How often the most frequent token occurs, the second, and so on. Best is a curve like the human text's.",
    "sweep": (
        "Metrics against one setting, all else the same. Bands: a standard deviation over seeds; dashed: the "
        "human text."
    ),
    "huse-stability": "How HUSE changes with the number of ratings a text and of examples; bands: intervals of 90 %.",
    "huse-parts": (
        "HUSE-Q (quality: people's ratings alone) against HUSE-D (diversity: what the model's probabilities add "
        "to them). Systems on one dotted line have the same HUSE; up and to the right is better."
    ),
    "huse": (
        "Human and model texts by mean rating and log-probability. The shading shows the decision of the classifier "
        "behind HUSE."
    ),
    "metric-agreement": (
        "How alike two metrics order the systems: 1 the same order, 0 unrelated, −1 the opposite order "
        "(agreement, where one metric is better when high and the other when low)."
    ),
}
"""Prefix of a figure's name → caption; the first match is used."""


def find_caption(name: str) -> str:
    """Return the caption of a figure; empty if there is none."""
    return next((text for begin, text in CAPTIONS.items() if name == begin or name.startswith(f"{begin}-")), "")
