"""FACE: similarity of the spectra of surprisal, from token losses alone.

    spectrum of a text = |FFT(its token NLLs)| at the frequencies 0 to 1/2 per token, interpolated to 1,000 of them
    SO = sum_f min(h(f), m(f)) / sum_f max(h(f), m(f)),  h and m: mean spectra of human and of model texts

`so` (spectral overlap) and the correlations `pearson` and `spearman` are at most 1, higher is better; `emd` (earth
mover's distance of the spectra as distributions over frequencies, in cycles per token), `kl` (human from model) and
`js` (nats) are 0 for equal spectra, lower is better. Texts with fewer than two scored tokens are left out.

Source: Yang et al. 2023, "FACE: evaluating natural language generation with Fourier analysis of cross-entropy".
"""

import numpy as np
from numpy.typing import NDArray

from openended.harness import core
from openended.harness.core import F64, I64, Features, MetricResult, Need, UndefinedMetric, Weights, weigh
from openended.metrics.correlation import correlate_rows
from openended.metrics.families import ComparisonMetric, Losses, Mask, Values, sort_order

FREQUENCIES = 1000  # Yang et al. 2023
_TINY = 1e-300

SideSpectra = tuple[F64, I64]  # the spectra of the texts that have one, sorted by example id, and their rows
Prepared = tuple[SideSpectra, SideSpectra]


def face(*, human_nll: Losses, model_nll: Losses, standardize: bool = False) -> Values:
    """Compare the mean spectra of token losses (Yang et al. 2023).

    Args:
        human_nll: -log p of each scored token, nats, one row per human text; rows of fewer than two are left out.
        model_nll: The same of model texts.
        standardize: Whether each text is shifted and scaled to mean 0 and standard deviation 1 first.

    Returns:
        `so` in [0, 1], `pearson` and `spearman` in [-1, 1], NaN for a constant spectrum; `emd` in [0, 0.5] cycles per
        token; `kl` from 0 up and `js` in [0, log 2], nats.

    Raises:
        UndefinedMetric: If no text of a side has two tokens.
        ValueError: If a loss is not finite.
    """
    sides = [_compute_spectra(rows, standardize=standardize)[0] for rows in (human_nll, model_nll)]
    return _compare(*(_average_spectra(spectra) for spectra in sides))


def _compute_spectra(rows: Losses, *, standardize: bool) -> tuple[F64, Mask]:
    """Return the spectra of the texts with two tokens or more, shape (texts, frequencies), and which they are."""
    grid = np.linspace(0.0, 0.5, FREQUENCIES)
    spectra, is_included = [], np.zeros(len(rows), dtype=np.bool_)
    for number, row in enumerate(rows):
        losses = np.asarray(row, dtype=np.float64)
        if not np.isfinite(losses).all():
            raise ValueError(f"expected finite losses, text {number} has NaN or infinity")
        if len(losses) < 2:
            continue
        if standardize:
            scale = losses.std()
            losses = (losses - losses.mean()) / (scale if scale > 0 else 1.0)
        is_included[number] = True
        spectra.append(np.interp(grid, np.fft.rfftfreq(len(losses)), np.abs(np.fft.rfft(losses))))
    return np.array(spectra).reshape(-1, FREQUENCIES), is_included


def _average_spectra(spectra: F64) -> F64:
    if not len(spectra):
        raise UndefinedMetric("a side has no text with two scored tokens")
    mean: F64 = spectra.mean(axis=0)
    return mean


def _compare(human: F64, model: F64) -> Values:
    largest = float(np.maximum(human, model).sum())
    totals = float(human.sum()), float(model.sum())
    even = np.full(FREQUENCIES, 1 / FREQUENCIES)
    p, q = (s / total if total > 0 else even for s, total in zip((human, model), totals, strict=True))
    middle = (p + q) / 2
    return Values(
        so=float(np.minimum(human, model).sum()) / largest if largest > 0 else 1.0,
        pearson=_correlate(human, model),
        spearman=float(correlate_rows(human[None], model[None])[0]),
        emd=float(np.abs(np.cumsum(p) - np.cumsum(q)).sum()) * 0.5 / (FREQUENCIES - 1),
        kl=_compute_divergence(p, q),
        js=(_compute_divergence(p, middle) + _compute_divergence(q, middle)) / 2,
    )


def _compute_divergence(p: F64, q: F64) -> float:
    """Return the KL divergence of p from q in nats, where q is not 0 or taken as the least positive number."""
    return max(float(np.sum(p * (np.log(np.maximum(p, _TINY)) - np.log(np.maximum(q, _TINY))))), 0.0)


def _correlate(a: F64, b: F64) -> float:
    """Return Pearson's correlation; NaN if a side is constant."""
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


@core.metric
class Face(ComparisonMetric):
    """Spectra of token losses compared: whether surprise rises and falls along the texts as along human ones."""

    name = "face"
    family = "scored"
    direction = "higher"
    bounds = (0.0, 1.0)
    resampling = "near_halves"
    ranges = {"pearson": (-1.0, 1.0), "spearman": (-1.0, 1.0)}
    ranges |= {"emd": (0.0, 0.5), "kl": (0.0, np.inf), "js": (0.0, float(np.log(2.0)))}
    titles = {"so": "FACE-SO", "pearson": "FACE-Pearson", "spearman": "FACE-Spearman"}
    titles |= {"emd": "FACE-EMD", "kl": "FACE-KL", "js": "FACE-JS"}
    directions = {"emd": "lower", "kl": "lower", "js": "lower"}

    standardize: bool = False
    """true: each text is scaled to mean 0 and standard deviation 1 first; an option of Yang et al. 2023."""

    def needs(self) -> tuple[Need, ...]:
        return (Need("token_nll", by="scorer", options=(("bos", False),)),)

    def prepare(self, features: Features) -> Prepared:
        sides = []
        for side in (features.human, features.model):
            losses, order = side[self.needs()[0]], sort_order(side)
            spectra, is_included = _compute_spectra([losses[row] for row in order], standardize=self.standardize)
            sides.append((spectra, order[is_included]))
        return sides[0], sides[1]

    def list_rows(self, features: Features, prepared: Prepared) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        human, model = (np.asarray(side.ids, dtype=np.str_) for side in (features.human, features.model))
        return human[prepared[0][1]], model[prepared[1][1]]

    def evaluate(self, features: Features, prepared: Prepared) -> MetricResult:
        """Add the spectral overlap of each text with the mean spectrum of human texts."""
        (human, human_rows), (model, model_rows) = prepared
        spectra = _average_spectra(human), _average_spectra(model)
        skipped = len(features.human) + len(features.model) - len(human_rows) - len(model_rows)
        notes = (f"{skipped} texts with fewer than two scored tokens are left out",) if skipped else ()
        arrays = {"human_spectrum": spectra[0], "model_spectrum": spectra[1]}
        shared, both = (of(model, spectra[0]).sum(axis=1) for of in (np.minimum, np.maximum))
        rows = np.full(len(features.model), np.nan)
        rows[model_rows] = np.divide(shared, both, out=np.ones_like(both), where=both > 0)
        return self.result(features, "so", _compare(*spectra), notes=notes, arrays=arrays, per_example={"so": rows})

    def score(self, prepared: Prepared, human: Weights, model: Weights, /) -> dict[str, F64]:
        both = zip((human, model), prepared, strict=True)
        means = [weigh(w, spectra) / weigh(w, np.ones(len(spectra)))[:, None] for w, (spectra, _) in both]
        compared = [_compare(*pair) for pair in zip(*means, strict=True)]
        return {name: np.array([of[name] for of in compared]) for name in compared[0]}
