"""Deep residual mixture model as a quantizer: three layers of ten components; a cell is one component per layer.

Layer l has centers μ_k, one variance σ², weights w and, for the assignment of each earlier layer s, a table C_s of
log-probabilities. For a row x with memberships h_s in the earlier layers it computes

    a_k = -(|x - μ_k|² / σ² + d ln σ²) / 2,    b_k = Σ_s Σ_c h_sc C_s,k,c,    s_k = a_k + ln w_k + b_k

and takes k* = argmax a_k + ρ b_k, with ρ = 0 in the first half of the training and 1 in the second. The next layer gets
x - μ_k* and h_s / exp(C_s,k*), and this layer's memberships (softmax of s, small ones 0). A layer's loss is
-mean s_k* - α mean_k max_i a_k(x_i). Given k*, the best parameters have a closed form, so both are updated in turn over
all rows, from starts far from each other; the best of several starts is kept. The `published` training takes gradient
steps from one start instead: Adam on batches of 64, all layers in each step, 20 epochs, at the rate
.005 min(1, (2 - 2 t / T)²) in step t of T.

Source: Hämäläinen et al. 2020, "Deep residual mixture models" (model, loss, rate); Pillutla et al. 2021, section 4.2
and appendix C.3.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness.core import F64, I64, Floats, make_random_stream
from openended.metrics._embeddings.blocks import compute_squared_distances
from openended.metrics._mauve.kmeans import LEVELS, choose_distant_rows

_ALPHA = 0.01  # Hämäläinen et al.
_MIN_MEMBERSHIP = 0.05  # Hämäläinen et al.: memberships below this share of the largest are 0
_MAX_UPDATES = 30  # maximum updates in each half of the training; not in the paper
_MIN_VARIANCE = 1e-12  # lower limit of the variance, for identical rows
_EPOCHS, _BATCH, _RATE = 20, 64, 0.005  # Pillutla et al. 2021, section 4.2; C.3.3 after Hämäläinen et al.


@dataclass(frozen=True, slots=True, eq=False)
class MixtureLayer:
    """One layer's parameters."""

    centers: F64  # shape (k, d)
    variance: float  # σ² of each dimension
    log_weights: F64  # shape (k,)
    tables: tuple[F64, ...]  # log-probabilities of each earlier layer's components, each of shape (k, k)

    def compute_terms(self, rows: F64, streams: Sequence[F64]) -> tuple[F64, F64 | float]:
        """Return a and b of the module docstring, each of shape (n, k); b is 0 in the first layer."""
        squares = compute_squared_distances(rows, self.centers)
        densities = -0.5 * (squares / self.variance + rows.shape[1] * np.log(self.variance))
        return densities, self.compute_stream_terms(streams)

    def compute_stream_terms(self, streams: Sequence[F64]) -> F64 | float:
        return sum((member @ table.T for member, table in zip(streams, self.tables, strict=True)), 0.0)

    def forward(self, rows: F64, streams: Sequence[F64]) -> tuple[I64, F64, list[F64]]:
        """Return the component of each row, and the residuals and streams for the next layer."""
        a, b = self.compute_terms(rows, streams)
        component = np.argmax(a + b, axis=1)
        scores = a + b + self.log_weights
        remaining = [
            _normalize_rows(membership / np.exp(table[component]))
            for membership, table in zip(streams, self.tables, strict=True)
        ]
        membership = np.exp(scores - scores.max(axis=1, keepdims=True))
        membership[membership < _MIN_MEMBERSHIP] = 0
        return np.argmax(scores, axis=1), rows - self.centers[component], [*remaining, _normalize_rows(membership)]

    def compute_loss(self, rows: F64, streams: Sequence[F64]) -> float:
        a, b = self.compute_terms(rows, streams)
        component = np.argmax(a + b, axis=1)
        scores = (a + b + self.log_weights)[np.arange(len(rows)), component]
        return -float(np.mean(scores)) - _ALPHA * float(np.mean(a.max(axis=0)))

    def read_parameters(self) -> dict[str, F64]:
        """Return what gradient steps change, by name."""
        tables = {f"table{number}": table for number, table in enumerate(self.tables)}
        return {"centers": self.centers, "log_variance": np.log(self.variance), "logits": self.log_weights, **tables}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, F64]) -> "MixtureLayer":
        centers, log_variance, logits, *tables = parameters.values()
        log_weights = logits - np.logaddexp.reduce(logits)
        rows = tuple(table - np.logaddexp.reduce(table, axis=1, keepdims=True) for table in tables)
        return cls(centers, max(float(np.exp(log_variance)), _MIN_VARIANCE), log_weights, rows)

    def compute_gradients(self, rows: F64, streams: Sequence[F64], weight: float) -> dict[str, F64]:
        """Return the gradient of the loss by every parameter, with ρ = `weight` in the choice of components."""
        n, (k, dim) = len(rows), self.centers.shape
        squares = compute_squared_distances(rows, self.centers)
        a = -0.5 * squares / self.variance
        component = np.argmax(a + weight * self.compute_stream_terms(streams), axis=1)
        # How much each row counts in a of each component: the chosen rows, and the row nearest to each center.
        shares = np.zeros((n, k))
        shares[np.arange(n), component] = 1 / n
        counts = shares.sum(axis=0)
        shares[squares.argmin(axis=0), np.arange(k)] += _ALPHA / k
        gradients: dict[str, F64] = {
            "centers": (shares.sum(axis=0)[:, None] * self.centers - shares.T @ rows) / self.variance,
            "log_variance": np.asarray(0.5 * np.sum(shares * (dim - squares / self.variance))),
            "logits": np.exp(self.log_weights) - counts,
        }
        for number, (member, table) in enumerate(zip(streams, self.tables, strict=True)):
            sums = _sum_by_component(member, component, k) / n
            gradients[f"table{number}"] = sums.sum(axis=1, keepdims=True) * np.exp(table) - sums
        return gradients


@dataclass(frozen=True, slots=True, eq=False)
class ResidualMixture:
    """All layers, and the centering and scaling before the first."""

    mean: F64
    scale: float
    layers: tuple[MixtureLayer, ...]

    def cells(self, sides: Sequence[Floats]) -> I64:
        """Return the cell of each row: the components of all layers, read as the digits of a number."""
        rows = _standardize(sides, self.mean, self.scale)
        cells, streams = np.zeros(len(rows), dtype=np.int64), list[F64]()
        for layer in self.layers:
            digits, rows, streams = layer.forward(rows, streams)
            cells = cells * len(layer.centers) + digits
        return cells


def fit_mixture(
    sides: Sequence[Floats], components: int, *, restarts: int, seed: int, published: bool = False
) -> ResidualMixture:
    """Fit the layers one after another, or train all together from their first starts with the published schedule."""
    total = sum(map(len, sides))
    mean = np.sum([np.sum(side, axis=0, dtype=np.float64) for side in sides], axis=0) / total
    total_squares = sum(float(np.sum((np.asarray(side, dtype=np.float64) - mean) ** 2)) for side in sides)
    scale = float(np.sqrt(total_squares / (total * len(mean)))) or 1.0
    rows, streams, layers = _standardize(sides, mean, scale), list[F64](), []
    first_rows, most_updates = rows, 0 if published else _MAX_UPDATES
    for number in range(LEVELS):
        fits = [
            _fit_layer(rows, streams, components, make_random_stream(seed, "drmm", number, restart), most_updates)
            for restart in range(1 if published else restarts)
        ]
        layers.append(min(fits, key=lambda layer: layer.compute_loss(rows, streams)))
        _, rows, streams = layers[-1].forward(rows, streams)
    if published:
        layers = _train_layers(first_rows, layers, make_random_stream(seed, "drmm", "batches"))
    return ResidualMixture(mean, scale, tuple(layers))


def _train_layers(rows: F64, layers: list[MixtureLayer], generator: np.random.Generator) -> list[MixtureLayer]:
    ends = range(0, len(rows), _BATCH)
    total, moments = _EPOCHS * len(ends), [dict[str, tuple[F64, F64]]() for _ in layers]
    for step in range(total):
        if step % len(ends) == 0:
            order = generator.permutation(len(rows))
        start = ends[step % len(ends)]
        batch, streams = rows[order[start : start + _BATCH]], list[F64]()
        rate, weight = _RATE * min(1.0, (2 - 2 * step / total) ** 2), float(2 * step >= total)
        for number, layer in enumerate(layers):
            updated = layer.read_parameters()
            for name, gradient in layer.compute_gradients(batch, streams, weight).items():
                mean, square = moments[number].get(name, (0.0, 0.0))
                mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
                moments[number][name] = mean, square
                corrected = mean / (1 - 0.9 ** (step + 1)) / (np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8)
                updated[name] = updated[name] - rate * corrected
            _, batch, streams = layer.forward(batch, streams)
            layers[number] = MixtureLayer.from_parameters(updated)
    return layers


def _standardize(sides: Sequence[Floats], mean: F64, scale: float) -> F64:
    """Stack the rows of all sides, centered and scaled."""
    rows: F64 = np.vstack([np.asarray(side, dtype=np.float64) for side in sides])
    rows -= mean
    rows /= scale
    return rows


def _fit_layer(
    rows: F64, streams: Sequence[F64], components: int, generator: np.random.Generator, most_updates: int
) -> MixtureLayer:
    """Fit one layer from one random start."""
    centers = rows[choose_distant_rows(rows, components, generator)]
    uniform = np.log(np.full(components, 1 / components))
    lengths = _compute_squared_norms(rows)
    start = max(float(lengths.mean()) / rows.shape[1], _MIN_VARIANCE)
    tables = tuple(np.log(np.full((components, stream.shape[1]), 1 / stream.shape[1])) for stream in streams)
    layer = MixtureLayer(centers, start, uniform, tables)
    for weight in (0.0, 1.0) if streams else (0.0,):
        previous: I64 | None = None
        for _ in range(most_updates):
            squares = compute_squared_distances(rows, layer.centers)
            a = -0.5 * squares / layer.variance
            component = np.argmax(a + weight * layer.compute_stream_terms(streams), axis=1)
            if previous is not None and np.array_equal(component, previous):
                break
            previous = component
            layer = _optimize_parameters(rows, lengths, streams, component, squares.argmin(axis=0))
    return layer


def _optimize_parameters(rows: F64, lengths: F64, streams: Sequence[F64], component: I64, closest: I64) -> MixtureLayer:
    """Return the parameters that minimize the loss, given each row's component and each component's closest row."""
    n, k, dim = len(rows), len(closest), rows.shape[1]
    counts = np.bincount(component, minlength=k)
    sums = _sum_by_component(rows, component, k)
    centers = sums / n + _ALPHA / k * rows[closest]
    centers /= (counts / n + _ALPHA / k)[:, None]
    # Mean of |x - μ|² over all rows, from the sums alone.
    within = float(lengths.sum() - 2 * np.sum(sums * centers) + counts @ _compute_squared_norms(centers)) / n
    within += _ALPHA * float(np.mean(_compute_squared_norms(rows[closest] - centers)))
    variance = max(within / (dim * (1 + _ALPHA)), _MIN_VARIANCE)
    # Half a count: a component without rows keeps a finite weight, as under gradient steps.
    weights = np.log((counts + 0.5) / (n + 0.5 * k))
    tables = tuple(np.log(_normalize_rows(_sum_by_component(member, component, k) + 0.5)) for member in streams)
    return MixtureLayer(centers, variance, weights, tables)


def _sum_by_component(rows: F64, component: I64, k: int) -> F64:
    """Sum the rows of each component in a fixed order, independent of the number of threads."""
    from scipy.sparse import csr_array

    ones, ends = np.ones(len(rows)), np.cumsum(np.bincount(component, minlength=k))
    order = np.argsort(component, kind="stable")
    return csr_array((ones, order, np.concatenate([[0], ends])), shape=(k, len(rows))) @ rows


def _compute_squared_norms(rows: F64) -> F64:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _normalize_rows(weights: F64) -> F64:
    shares: F64 = weights / weights.sum(axis=1, keepdims=True)
    return shares
