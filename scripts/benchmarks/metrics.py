"""Time metrics against public implementations, and the replicates of intervals against the value."""

import contextlib
import io
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import Plan, Ragged, load_members
from openended.metrics.distinct_n import distinct_n
from openended.metrics.entropy import ngram_entropy
from openended.metrics.families import index_of
from openended.metrics.frechet import frechet_distance
from openended.metrics.knn_precision_recall import knn_precision_recall
from openended.metrics.mauve import mauve
from openended.metrics.repetition import diversity, loop_rate, self_repetition, seq_rep_n
from openended.metrics.self_bleu import bleu_by_text, self_bleu
from openended.metrics.zipf import zipf_coefficient
from scripts.bench import Benchmark, choose_size, format_max_gap, format_relative_gap
from scripts.studies.worlds import MODEL, draw

Values = dict[str, float]
Texts = list[list[int]]
Pair = tuple[NDArray[Any], NDArray[Any]]


# text

VOCABULARY = 50_257
TEXTS, TOKENS = choose_size(5_000, 60), choose_size(500, 40)
NLTK_HYPOTHESES = 20
ORDERS = (1, 2, 3, 4)


def _draw_texts(n: int, length: int) -> NDArray[np.int32]:
    rng = np.random.default_rng(0)
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(share / share.sum())
    out = np.empty((n, length), dtype=np.int32)
    for low in range(0, n, 10_000):
        part = out[low : low + 10_000]
        part[:] = np.searchsorted(bounds, rng.random(part.shape)).clip(max=VOCABULARY - 1)
    phrases = rng.integers(0, VOCABULARY, (200, 6))
    for row in range(0, n, 3):  # a phrase shared with other texts
        at = int(rng.integers(0, length - 6))
        out[row, at : at + 6] = phrases[rng.integers(0, len(phrases))]
    for row in range(0, n, 5):  # a loop at the end
        period = int(rng.integers(1, 60))
        out[row, length // 2 :] = np.resize(out[row, :period], length - length // 2)
    return out


def _pack_rows(values: NDArray[Any]) -> Ragged:
    n, length = values.shape
    return Ragged(values.reshape(-1), np.arange(0, n * length + 1, length))


def _name_orders(values: dict[int, float], prefix: str = "") -> Values:
    return {f"{prefix}{order}": value for order, value in values.items()}


def _score_all_self_bleu(rows: Ragged) -> Values:
    """Score every text against all others, orders 1 to 4; also the mean over the peer's hypotheses."""
    table = bleu_by_text(index_of(rows), 4)
    return {"order 4": float(table[3, :NLTK_HYPOTHESES].mean()), "all texts": float(table[3].mean())}


def _score_with_nltk(texts: Texts) -> Values:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = SmoothingFunction().method1
    scores = [
        sentence_bleu(texts[:i] + texts[i + 1 :], texts[i], weights=[0.25] * 4, smoothing_function=smooth)
        for i in range(NLTK_HYPOTHESES)
    ]
    return {"order 4": sum(scores) / len(scores)}


def _score_with_fast_bleu(texts: Texts) -> Values:
    from fast_bleu import SelfBLEU  # type: ignore[import-not-found]

    words = [[str(token) for token in text] for text in texts]
    scores = SelfBLEU(words, {"order 4": [0.25] * 4}).get_score()["order 4"]
    return {"order 4": sum(scores) / len(scores)}


def _count_distinct(texts: Texts) -> Values:
    from nltk.util import ngrams

    counts = {n: Counter(gram for text in texts for gram in ngrams(text, n)) for n in ORDERS}
    return {str(n): len(counts[n]) / counts[n].total() for n in ORDERS}


def _find_loops_by_slices(texts: Texts) -> Values:
    """Compute the share of looping texts by comparing slices for each phrase length and each repeat."""
    loops = 0
    for text in texts:
        best, phrase = 0, 0
        for n in range(1, min(500, len(text)) + 1):
            last, repeats, end = text[-n:], 0, len(text)
            while end >= n and text[end - n : end] == last:
                repeats, end = repeats + 1, end - n
            if repeats > best:
                best, phrase = repeats, n
        loops += best > 1 and (phrase >= 3 or best > 50)
    return {"loop_rate": loops / len(texts)}


def _compute_all(rows: Ragged) -> Values:
    index = index_of(rows)
    five = (1, 2, 3, 4, 5)
    values = _name_orders(self_bleu(index, orders=five), "self_bleu_")
    for variant in ("corpus", "li", "hapax", "per_doc", "simctg", "ngd"):
        values |= _name_orders(distinct_n(index, orders=five, variant=variant), f"{variant}_")  # type: ignore[arg-type]
    for average in ("corpus", "texts"):
        values |= _name_orders(ngram_entropy(index, orders=five, average=average), f"entropy_{average}_")  # type: ignore[arg-type]
    values |= _name_orders(seq_rep_n(index, orders=five), "seq_rep_")
    values |= {"loop_rate": loop_rate(index), "diversity": diversity(index), "zipf": zipf_coefficient(index)}
    return values | {"self_repetition": self_repetition(index)}


SIZE = f"{TEXTS:,} texts × {TOKENS} tokens"


def _make_text_work(name: str, harness: Callable[[Ragged], Values], **options: Any) -> Benchmark:  # noqa: ANN401
    """Return a row of `text`; the peer reads lists."""
    texts = partial(_draw_texts, TEXTS, TOKENS)
    options["agree"] = format_max_gap if "peer" in options else None
    prepare = {"prepare": lambda: _pack_rows(texts()), "prepare_peer": lambda: texts().tolist()}
    return Benchmark(name=name, clock="cpu", harness=harness, **prepare, **options)


TEXT = [
    _make_text_work(
        f"self_bleu, {SIZE}, orders 1 to 4, all hypotheses", _score_all_self_bleu, target="3,000×",
        against=f"NLTK sentence_bleu, only order 4, {NLTK_HYPOTHESES} hypotheses", peer=_score_with_nltk,
        peer_imports=("nltk.translate.bleu_score",), peer_share=NLTK_HYPOTHESES / TEXTS, peer_repeats=1,
    ),
    _make_text_work(
        f"self_bleu, {SIZE}, order 4, all hypotheses", lambda rows: {"order 4": self_bleu(rows, orders=(4,))[4]},
        against="fast-bleu (C++), all hypotheses", target="10×", peer=_score_with_fast_bleu,
        peer_imports=("fast_bleu",), peer_repeats=1,
    ),
    _make_text_work(
        f"distinct_n, {SIZE}, orders 1 to 4", lambda rows: _name_orders(distinct_n(rows, orders=ORDERS)),
        against="nltk ngrams and Counter", target="10×", peer=_count_distinct, peer_imports=("nltk.util",),
    ),
    _make_text_work(
        f"loop_rate, {SIZE}", lambda rows: {"loop_rate": loop_rate(rows)},
        against="nested slices, as in the public scripts", target="50×", peer=_find_loops_by_slices,
    ),
    _make_text_work(
        f"all text statistics, {SIZE}, orders 1 to 5", _compute_all, target="≤ 6 s, ≤ 2,048 MiB",
        say=lambda values: f"{len(values)} values",
    ),
]  # fmt: skip


# two_sample

MAUVE_VALUES = ("mauve", "mauve_star", "frontier_integral", "frontier_integral_star")


def _sample_embeddings(n: int, dim: int) -> Pair:
    """Sample two sides around n / 5 centers with decreasing variances; the model misses a fifth of the centers."""
    rng = np.random.default_rng(5)
    scale = np.linspace(1, 0.05, dim)
    centers = 3 * rng.normal(size=(max(n // 5, 2), dim)) * scale
    human = centers[rng.integers(0, len(centers), n)] + rng.normal(size=(n, dim)) * scale
    model = centers[rng.integers(0, len(centers) * 4 // 5, n)] + 1.1 * rng.normal(size=(n, dim)) * scale
    return human.astype(np.float32), model.astype(np.float32)


def _compute_mauve(pair: Pair) -> Values:
    result = mauve(human=pair[0], model=pair[1])
    return {name: float(result[name]) for name in MAUVE_VALUES}


def _run_mauve_text(pair: Pair) -> Values:
    import mauve

    result = mauve.compute_mauve(p_features=pair[0], q_features=pair[1], verbose=False)
    return {name: float(getattr(result, name)) for name in MAUVE_VALUES}


def _run_prdc(pair: Pair) -> Values:
    import prdc

    with contextlib.redirect_stdout(io.StringIO()):
        result = prdc.compute_prdc(real_features=pair[0], fake_features=pair[1], nearest_k=4)
    return {name: float(value) for name, value in result.items()}


def _compute_frechet_by_sqrtm(pair: Pair) -> Values:
    """Compute the usual way: NumPy covariances and SciPy's square root of their product."""
    from scipy.linalg import sqrtm

    human, model = (side.astype(np.float64) for side in pair)
    a, b = np.cov(human, rowvar=False), np.cov(model, rowvar=False)
    gap = human.mean(axis=0) - model.mean(axis=0)
    root = np.trace(sqrtm(a @ b)).real
    return {"frechet": float(gap @ gap + np.trace(a) + np.trace(b) - 2 * root)}


KINDS: dict[str, dict[str, Any]] = {
    "mauve": {
        "harness": _compute_mauve, "peer": _run_mauve_text, "against": "mauve-text 0.4.0",
        "imports": ("faiss", "scipy.sparse", "scipy.linalg"),
        "peer_imports": ("mauve", "faiss", "sklearn.decomposition"),
        "agree": lambda a, b: f"MAUVE {a['mauve']:.6f} / {b['mauve']:.6f}, {format_max_gap(a, b)}",
    },
    "knn_precision_recall": {
        "harness": lambda pair: dict(
            knn_precision_recall(human=pair[0], model=pair[1], k=4, explained_variance=None)
        ),
        "peer": _run_prdc, "against": "prdc 0.2", "imports": ("scipy.linalg",), "peer_imports": ("prdc",),
        "agree": format_max_gap,
    },
    "frechet": {
        "harness": lambda pair: {"frechet": frechet_distance(human=pair[0], model=pair[1])},
        "peer": _compute_frechet_by_sqrtm, "against": "scipy sqrtm", "imports": ("scipy.linalg",),
        "peer_imports": ("scipy.linalg",),
        "agree": lambda a, b: f"{a['frechet']:.6g}, {format_relative_gap(a, b)}",
    },
}  # fmt: skip


def _make_two_sample_work(kind: str, n: int, dim: int, suffix: str = "", **options: Any) -> Benchmark:  # noqa: ANN401
    n, dim = choose_size(n, 60), choose_size(dim, 8)
    name, sample = f"{kind}, {n:,} + {n:,} × {dim:,}{suffix}", partial(_sample_embeddings, n, dim)
    return Benchmark(name=name, prepare=sample, clock="cpu", threads=1, **KINDS[kind], **options)


TWO_SAMPLE = [
    _make_two_sample_work("mauve", 5000, 1280, ", k = 500", repeats=1),
    _make_two_sample_work("mauve", 500, 256, ", k = 50"),
    _make_two_sample_work("knn_precision_recall", 4000, 150, target="2×"),
    _make_two_sample_work("knn_precision_recall", 20000, 150, target="5×, ≤ 600 MiB", repeats=1),
    _make_two_sample_work("frechet", 5000, 1280, target="5×"),
]


# intervals: at most three times as long as the value

N = choose_size(2000, 60)


def _sample_world(name: str, *, computed: bool) -> tuple[Any, Any, Any]:
    """Sample synthetic texts and, with `computed`, the value that replicates reuse; else load what it imports."""
    metric: Any = load_members("metric")[name]()
    sizes = (N, 60)
    large, small = (
        draw(np.random.default_rng(seed), n, metric, MODEL, samples=metric.least_samples)[0]
        for seed, n in enumerate(sizes)
    )
    result = metric.compute(large if computed else small)
    return metric, large, result if computed else None


def _compute_replicates(data: tuple[Any, Any, Any]) -> Values:
    metric, features, result = data
    return {name: values.std_error() for name, values in metric.replicates(features, result, Plan()).items()}


def _format_interval(harness: Values, peer: Values) -> str:
    name = next(iter(harness))
    return f"{name} {peer[name]:.4g} ± {harness[name]:.2g}"


INTERVALS = [
    Benchmark(
        name=f"{name}, {N:,} texts, 200 replicates", against="its value", harness=_compute_replicates,
        prepare=partial(_sample_world, name, computed=True), imports=("scipy.linalg", "scipy.sparse", "scipy.special"),
        peer=lambda data: dict(data[0].compute(data[1]).values),
        prepare_peer=partial(_sample_world, name, computed=False), target="0.33×", agree=_format_interval, clock="cpu",
        threads=1, repeats=1,
    )
    for name, cls in sorted(load_members("metric").items())
    if cls.family != "human" and not cls().reads_grid  # type: ignore[attr-defined]
]  # fmt: skip
AREAS = {"text": TEXT, "two_sample": TWO_SAMPLE, "intervals": INTERVALS}
