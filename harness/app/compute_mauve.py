"""MAUVE with the arguments and the result of the package mauve-text, on this harness's embedders and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from openended.harness.app.api import check_texts, make_metric
from openended.harness.core import Features, Plan, Ragged, Runtime, Side, SpecError, suggest_arguments
from openended.harness.models import (
    BUNDLED,
    EmbedderSpec,
    EmbeddingRequest,
    ModelCache,
    embed_rows,
    is_encoder,
    list_bundled_models,
    tokenize_texts,
)
from openended.harness.run import compute_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False, eq=False)
class ComputedMauve:
    """The fields of mauve-text's result, the interval of MAUVE and the harness's signature and notes."""

    mauve: float
    """Area under the divergence curve, in [0, 1]."""
    frontier_integral: float
    """In [0, 1], lower is better."""
    mauve_star: float
    """With Krichevsky-Trofimov smoothing."""
    frontier_integral_star: float
    """With Krichevsky-Trofimov smoothing."""
    divergence_curve: NDArray[np.float64]
    """Shape (points + 2, 2)."""
    p_hist: NDArray[np.float64]
    """Share of the texts of p in each cell, shape (num_buckets,)."""
    q_hist: NDArray[np.float64]
    """The same of q."""
    num_buckets: int
    interval: tuple[float, float] | None
    """95 % interval of `mauve` for new texts of both sides; None where there are too few."""
    signature: str
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        ends = "" if self.interval is None else f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        return f"<MAUVE {self.mauve:.6g}{ends}, {self.num_buckets} cells>"

    def plot(self, ax: "Axes | None" = None, **style: Any) -> "Axes":  # noqa: ANN401 - of matplotlib's `plot`
        """Draw the divergence curve and return its axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        ax.plot(self.divergence_curve[:, 0], self.divergence_curve[:, 1], **style)
        ax.set(xlabel=r"$\exp(-c\,\mathrm{KL}(Q\,\|\,R))$", ylabel=r"$\exp(-c\,\mathrm{KL}(P\,\|\,R))$")
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")
        return ax


@suggest_arguments
def compute_mauve(
    p_features: Any = None,  # noqa: ANN401 - array-like
    q_features: Any = None,  # noqa: ANN401
    p_tokens: Sequence[Any] | None = None,
    q_tokens: Sequence[Any] | None = None,
    p_text: Sequence[str] | None = None,
    q_text: Sequence[str] | None = None,
    num_buckets: int | Literal["auto"] = "auto",
    pca_max_data: int = -1,
    kmeans_explained_var: float = 0.9,
    kmeans_num_redo: int = 5,
    kmeans_max_iter: int = 500,
    featurize_model_name: str = "gpt2-large",
    device_id: int = -1,
    max_text_length: int = 1024,
    divergence_curve_discretization_size: int = 25,
    mauve_scaling_factor: float = 5,
    verbose: bool = False,
    seed: int = 25,
    batch_size: int = 1,
    use_float64: bool = False,
) -> ComputedMauve:
    """Compute MAUVE of two sets of texts as mauve-text 0.4 does.

    Args:
        p_features: Embeddings of p (human text by convention), shape (n, d); or give `p_tokens` or `p_text`.
        q_features: Embeddings of q; each side may be given in another form.
        p_tokens: Token ids of each text under the tokenizer of the embedder, arrays of shape (1, length) or (length,).
        q_tokens: The same for q.
        p_text: The texts.
        q_text: The texts.
        num_buckets: Number of cells; `auto`: a tenth of the smaller side.
        pca_max_data: Number of rows, drawn at random, that PCA is fitted on; -1: all.
        kmeans_explained_var: Share of the variance that PCA keeps.
        kmeans_num_redo: Restarts of k-means.
        kmeans_max_iter: Most iterations of each.
        featurize_model_name: Hub id, folder or name of a bundled model (`docs-m`) of the embedder.
        device_id: Number of the GPU; -1: CPU.
        max_text_length: Tokens of a text that are read, at most the embedder's context.
        divergence_curve_discretization_size: Number of mixture weights.
        mauve_scaling_factor: c, positive.
        verbose: Show progress.
        seed: Of k-means.
        batch_size: Texts embedded at a time.
        use_float64: Accepted; everything but the embedder computes in float64 anyway.

    Raises:
        SpecError: If a side is given in no form or in several, or an option is out of range.
        UndefinedMetric: If there are fewer texts than cells.
    """
    del use_float64
    is_bundled = featurize_model_name in list_bundled_models()
    embedder = EmbedderSpec(path=f"{BUNDLED}{featurize_model_name}" if is_bundled else featurize_model_name)
    runtime = Runtime(device="cpu" if device_id < 0 else f"cuda:{device_id}", progress=verbose)
    forms = {
        "p": {"p_features": p_features, "p_tokens": p_tokens, "p_text": p_text},
        "q": {"q_features": q_features, "q_tokens": q_tokens, "q_text": q_text},
    }
    chosen: dict[str, tuple[str, Any]] = {}
    for side, values in forms.items():
        arguments = {form: value for form, value in values.items() if value is not None}
        if len(arguments) != 1:
            names = " and ".join(arguments) or "none"
            raise SpecError(f"{side}: expected one of {', '.join(values)}, got {names}")
        (chosen[side],) = arguments.items()
    rows = {
        side: _embed(form, value, embedder, max_text_length, batch_size, runtime)
        for side, (form, value) in chosen.items()
    }
    # mauve-text has no upper limit, unlike `num_buckets=auto` of the metric.
    automatic = max(2, round(min(map(len, rows.values())) / 10))
    options: dict[str, Any] = {"num_buckets": automatic if num_buckets == "auto" else num_buckets}
    options |= {"explained_variance": kmeans_explained_var, "restarts": kmeans_num_redo, "max_iter": kmeans_max_iter}
    options |= {"scaling_factor": mauve_scaling_factor, "curve_points": divergence_curve_discretization_size}
    options |= {"pca_max_data": None if pca_max_data == -1 else pca_max_data, "clustering_seeds": 1, "seed": seed}
    spec = make_metric("mauve", options)
    (need,) = spec.needs()
    # The sides' texts are not known to share prompts, so they are resampled independently.
    p, q = (Side(name, [f"{name}/{i:09d}" for i in range(len(side))], {need: side}) for name, side in rows.items())
    features = Features(p, q, {"n": f"{len(p)}/{len(q)}"})
    result = compute_metric(spec, features, Plan())
    interval = result.intervals.get("mauve")
    numbers = ("mauve", "frontier_integral", "mauve_star", "frontier_integral_star")
    ends = None if interval is None else (interval["low"], interval["high"])
    curve, human, model = (result.arrays[name][0] for name in ("divergence_curves", "human_hists", "model_hists"))
    arrays = {"divergence_curve": curve, "p_hist": human, "q_hist": model, "num_buckets": len(human)}
    values = {name: result.values[name] for name in numbers}
    return ComputedMauve(**values, **arrays, interval=ends, signature=result.signature, notes=result.notes)


def _embed(form: str, value: Any, embedder: EmbedderSpec, limit: int, batch_size: int, runtime: Runtime) -> Any:  # noqa: ANN401
    if form.endswith("features"):
        return np.asarray(value)
    model_spec = embedder.model_spec()
    context = model_spec.context_length()
    length = limit if context is None else min(limit, context)
    kind: Literal["masked", "causal"] = "masked" if is_encoder(model_spec.config()) else "causal"
    spec = EmbedderSpec(path=embedder.path, max_length=length, pooling="last", kind=kind)
    model = _get_models().embedder(spec, runtime)
    if form.endswith("text"):
        ids = tokenize_texts(model.tokenizer, check_texts(form, value))
    else:
        ids = Ragged.from_rows((np.asarray(row).reshape(-1) for row in value), np.int64)
    nothing = Ragged(ids.values[:0], np.zeros_like(ids.offsets))
    request = EmbeddingRequest(prompts=nothing, continuations=ids, embedder=spec, batch_size=batch_size)
    return embed_rows(model, request).vectors


@lru_cache(maxsize=1)
def _get_models() -> ModelCache:
    """Return the models of this process, which stay loaded for the next call."""
    return ModelCache()
