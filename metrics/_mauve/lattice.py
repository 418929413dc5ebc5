"""The lattice quantizer: a small network spreads rows over the sphere in four dimensions, a fixed lattice cuts it up.

Cells are the 744 points of squared norm 50 in Z⁴; a row's cell is the point with the largest inner product with its
image. The loss of a batch of m rows is

    mean max(0, |f(x) - f(x⁺)| - |f(x) - f(x⁻)|) - λ mean ln(m min_j |f(x_i) - f(x_j)|)

with x⁺ one of the 10 nearest rows in the features and x⁻ the 50th nearest image, found again every epoch. The second
term (KoLeo) pushes images apart until they fill the sphere. `docs/mauve.md` compares network and training with the
published ones. Training runs in one thread: the order of sums would move the cells.

Source: Sablayrolles et al. 2019, "Spreading vectors for similarity search", section 3; Pillutla et al. 2021, section
4.2 and appendix.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from openended.harness.core import I64, make_random_stream
from openended.metrics._mauve.kmeans import F32

NORM = 50  # squared, of the lattice points
HIDDEN, EPOCHS, BATCH = 256, 20, 128
PUBLISHED = {"hidden": 768, "epochs": 160, "batch": 64}  # Sablayrolles et al.; Pillutla et al. 2021, C.3.3
_DIM = 4
_POSITIVES, _NEGATIVE = 10, 50  # Sablayrolles et al.
_RATES = (0.1, 0.1, 0.05, 0.01)  # of each quarter of the training
_MOMENTUM = 0.9
_STATISTICS = np.float32(0.1)  # weight of a batch in the running means of the normalization
_EPS = np.float32(1e-5)
_BLOCK = 1024


@lru_cache(maxsize=1)
def lattice_points() -> F32:
    """Return the points of Z⁴ of squared norm 50, shape (744, 4), in lexical order."""
    most = int(NORM**0.5)
    minimal = [z for z in product(range(-most, most + 1), repeat=_DIM) if sum(v * v for v in z) == NORM]
    points = np.array(minimal, dtype=np.float32)
    points.setflags(write=False)
    return points


def lattice_cells(images: F32) -> I64:
    """Return the lattice point nearest in direction to each row, shape (n, 4) → (n,)."""
    return np.asarray(np.argmax(images @ lattice_points().T, axis=1), dtype=np.int64)


class SpreadingNet:
    """Three layers; the weights of the first two have no bias, for normalization takes it out."""

    def __init__(self, dim: int, hidden: int, stream: np.random.Generator) -> None:
        self.weights: dict[str, F32] = {}
        for number, (inner, outer) in enumerate([(dim, hidden), (hidden, hidden), (hidden, _DIM)]):
            self.weights[f"w{number}"] = (stream.uniform(-1, 1, (inner, outer)) / inner**0.5).astype(np.float32)
        self.weights["b2"] = np.zeros(_DIM, dtype=np.float32)
        self.running: dict[str, F32] = {}
        for number in (0, 1):
            self.weights[f"gain{number}"] = np.ones(hidden, dtype=np.float32)
            self.weights[f"shift{number}"] = np.zeros(hidden, dtype=np.float32)
            self.running[f"mean{number}"] = np.zeros(hidden, dtype=np.float32)
            self.running[f"var{number}"] = np.ones(hidden, dtype=np.float32)

    def map_to_sphere(self, rows: F32) -> F32:
        """Return the images of rows with the running statistics, unit rows, shape (n, 4)."""
        images = []
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            for number in (0, 1):
                scale = self.weights[f"gain{number}"] / np.sqrt(self.running[f"var{number}"] + _EPS)
                block = (block @ self.weights[f"w{number}"] - self.running[f"mean{number}"]) * scale
                block = np.maximum(block + self.weights[f"shift{number}"], 0)
            images.append(_normalize_rows(block @ self.weights["w2"] + self.weights["b2"])[0])
        return np.vstack(images)

    def forward(self, rows: F32) -> tuple[F32, list[tuple[F32, ...]]]:
        """Return the images of a batch with its own statistics, and what `gradients` needs."""
        activations: list[tuple[F32, ...]] = []
        for number in (0, 1):
            flat = rows @ self.weights[f"w{number}"]
            mean, var = flat.mean(axis=0), flat.var(axis=0)
            scale = 1 / np.sqrt(var + _EPS)
            normal = (flat - mean) * scale
            after = np.maximum(normal * self.weights[f"gain{number}"] + self.weights[f"shift{number}"], 0)
            activations.append((rows, normal, scale, after))
            for name, value in (("mean", mean), ("var", var * (len(rows) / (len(rows) - 1)))):
                self.running[f"{name}{number}"] += _STATISTICS * (value - self.running[f"{name}{number}"])
            rows = after
        images, lengths = _normalize_rows(rows @ self.weights["w2"] + self.weights["b2"])
        activations.append((rows, images, lengths))
        return images, activations

    def gradients(self, slope: F32, activations: Sequence[tuple[F32, ...]]) -> Mapping[str, F32]:
        """Return the gradient of every weight, from that of the images of a batch."""
        rows, images, lengths = activations[2]
        slope = (slope - images * np.einsum("ij,ij->i", slope, images)[:, None]) / lengths
        gradients = {"w2": rows.T @ slope, "b2": slope.sum(axis=0)}
        slope = slope @ self.weights["w2"].T
        for number in (1, 0):
            before, normal, scale, after = activations[number]
            slope = slope * (after > 0)
            gradients[f"gain{number}"] = np.einsum("ij,ij->j", slope, normal)
            gradients[f"shift{number}"] = slope.sum(axis=0)
            part = slope * self.weights[f"gain{number}"]
            part = (part - part.mean(axis=0) - normal * np.einsum("ij,ij->j", part, normal) / len(part)) * scale
            gradients[f"w{number}"] = before.T @ part
            if number:
                slope = part @ self.weights[f"w{number}"].T
        return gradients


def train_spreading_net(
    rows: F32, *, seed: int, hidden: int = HIDDEN, epochs: int = EPOCHS, batch: int = BATCH, spread: float = 1.0
) -> SpreadingNet:
    """Train a network on rows, shape (n, d), n >= 3; `spread` is λ."""
    from scipy.spatial import KDTree

    stream = make_random_stream(seed, "lattice")
    net = SpreadingNet(rows.shape[1], hidden, stream)
    count, squares = min(_POSITIVES, len(rows)), np.einsum("ij,ij->i", rows, rows)
    near = np.empty((len(rows), count), dtype=np.int64)  # the nearest rows of each row, itself among them
    for start in range(0, len(rows), _BLOCK):
        table = squares - 2 * (rows[start : start + _BLOCK] @ rows.T)
        near[start : start + _BLOCK] = np.sort(np.argpartition(table, count - 1, axis=1)[:, :count], axis=1)
    speed = {name: np.zeros_like(value) for name, value in net.weights.items()}
    for epoch in range(epochs):
        rate = np.float32(_RATES[epoch * len(_RATES) // epochs])
        # The 50th nearest image of each row, the last one where there are fewer.
        images = net.map_to_sphere(rows)
        far = np.asarray(KDTree(images).query(images, k=[min(_NEGATIVE, len(rows))])[1], dtype=np.int64)[:, 0]
        order = stream.permutation(len(rows))
        for start in range(0, len(order), batch):
            rows_of_batch = order[start : start + batch]
            if len(rows_of_batch) < 2:
                continue
            chosen = near[rows_of_batch, stream.integers(near.shape[1], size=len(rows_of_batch))]
            images, activations = net.forward(rows[np.concatenate([rows_of_batch, chosen, far[rows_of_batch]])])
            slope = loss_and_slope(images, spread)[1]
            for name, gradient in net.gradients(slope, activations).items():
                speed[name] = np.float32(_MOMENTUM) * speed[name] + gradient
                net.weights[name] = net.weights[name] - rate * speed[name]
    return net


def loss_and_slope(images: F32, spread: float) -> tuple[float, F32]:
    """Return the loss and its gradient by the images: rows, positives and negatives one below the other, (3 m, 4)."""
    x, positive, negative = np.split(images, 3)
    m = len(x)
    to_positive, to_negative = x - positive, x - negative
    a, b = (np.maximum(np.linalg.norm(gap, axis=1), 1e-6)[:, None] for gap in (to_positive, to_negative))
    active = (a > b) / np.float32(m)
    pull, push = active * to_positive / a, active * to_negative / b
    apart = x @ x.T
    np.fill_diagonal(apart, -np.inf)
    other = apart.argmax(axis=1)  # unit rows: the largest product is the least distance
    gap = x - x[other]
    squares = np.maximum(np.einsum("ij,ij->i", gap, gap), np.float32(1e-12))
    away = np.float32(spread / m) * gap / squares[:, None]
    slope = np.concatenate([pull - push - away, -pull, push])
    np.add.at(slope, other, away)
    triplet = float(np.mean(np.maximum(a - b, 0)))
    return triplet - spread * float(np.mean(np.log(m * np.sqrt(squares)))), slope.astype(np.float32)


def _normalize_rows(rows: F32) -> tuple[F32, F32]:
    """Return rows of length 1, and the original lengths as a column."""
    lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return rows / lengths, lengths
