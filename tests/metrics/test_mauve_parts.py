"""Quantizers of MAUVE."""

import itertools
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from openended.harness.core import SpecError, UndefinedMetric, make_random_stream
from openended.metrics._mauve import drmm, lattice
from openended.metrics._mauve.drmm import MixtureLayer, fit_mixture
from openended.metrics._mauve.kmeans import kmeans, nearest, residual_cells, residual_kmeans
from openended.metrics._mauve.lattice import lattice_cells, lattice_points
from openended.metrics._mauve.quantizers import QUANTIZERS, FitOptions, fit_quantizer
from openended.metrics.mauve import Mauve, mauve
from openended.metrics.precision_recall_curve import PrecisionRecallCurve
from tests.metrics.helpers import check_edges
from tests.metrics.test_mauve import clusters

# Quantizers: k-means against plain Lloyd, codes of blobs, the lattice's points, gradients against differences, threads

CODED = ("residual_kmeans", "drmm", "lattice")


@pytest.fixture(autouse=True)
def small_network(monkeypatch):
    """Seconds of training say nothing more than its first steps about what is tested here."""
    size = {"hidden": 32, "epochs": 4, "batch": 64, "spread": 1.0}
    monkeypatch.setattr(lattice.train_spreading_net, "__kwdefaults__", size)


def blobs(*, codes=10, each=3, d=24, noise=0.01):
    """Ten blobs of ten blobs of ten, and the name of each row's smallest blob."""
    rng = np.random.default_rng(0)
    levels = [scale * rng.normal(size=(codes, d)) for scale in (25.0, 5.0, 1.0)]
    names = np.repeat(np.arange(codes**3), each)
    rows = sum(level[names // codes**place % codes] for level, place in zip(levels, (2, 1, 0), strict=True))
    order = rng.permutation(len(names))
    return (rows + noise * rng.normal(size=rows.shape)).astype(np.float32)[order], names[order]


def pure(cells, names):
    """Cells and names are the same partition."""
    pairs = set(zip(cells.tolist(), names.tolist(), strict=True))
    return len(pairs) == len(set(cells.tolist())) == len(set(names.tolist()))


def test_unit_norm_after_pca_scales_what_pca_kept():
    # Ten raw directions of falling variance: PCA of raw rows keeps other axes than PCA of unit rows.
    sides = [np.random.default_rng(i).normal(size=(60, 10)) * np.geomspace(8, 0.5, 10) + i for i in range(2)]
    options = {"quantizer": "kmeans", "num_buckets": 5, "explained_variance": 0.9, "restarts": 2, "max_iter": 50}
    cells = fit_quantizer(sides, FitOptions(**options, unit_norm="after_pca"))[0](3)(sides)
    rows = np.vstack(sides)
    values, axes = np.linalg.eigh(np.cov(rows.T))
    kept = int(np.argmax(np.cumsum(values[::-1]) / values.sum() >= 0.9)) + 1
    projected = (rows - rows.mean(axis=0)) @ axes[:, ::-1][:, :kept]
    projected /= np.linalg.norm(projected, axis=1, keepdims=True)
    # The seed of k-means is the metric's plus 2; a flipped axis moves no distance.
    centroids = kmeans(projected.astype(np.float32), 5, restarts=2, max_iter=50, seed=5)
    assert pure(np.concatenate(cells), nearest(projected.astype(np.float32), centroids)[0])
    assert not pure(np.concatenate(cells), np.concatenate(fit_quantizer(sides, FitOptions(**options))[0](3)(sides)))


# k-means: it ends in a fixed point, and the best of its starts


def lloyd_step(points, centroids):
    """One step of Lloyd's algorithm: labels and means."""
    points = points.astype(np.float64)
    squares = ((points[:, None] - centroids[None].astype(np.float64)) ** 2).sum(axis=2)
    labels = squares.argmin(axis=1)
    means = np.stack([points[labels == i].mean(axis=0) for i in range(len(centroids))])
    return labels, means, squares.min(axis=1).sum()


@pytest.mark.parametrize("start", [False, True])
def test_it_ends_in_a_fixed_point(start):
    points = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    found = kmeans(points, 12, restarts=1 if start else 3, seed=27, start=points[:12] if start else None)
    labels, means, objective = lloyd_step(points, found)
    np.testing.assert_array_equal(nearest(points, found)[0], labels)
    np.testing.assert_allclose(found, means, atol=1e-5)
    # No start of its own does better than the best of several.
    if not start:
        alone = [lloyd_step(points, kmeans(points, 12, restarts=1, seed=27))[2]]
        assert objective <= min(alone) + 1e-3
    assert float(nearest(points, found)[1].sum()) == pytest.approx(objective, rel=1e-4)


def test_copies_and_as_many_cells_as_rows():
    points = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    assert float(nearest(points, kmeans(points, 6, max_iter=5))[1].sum()) == pytest.approx(0, abs=1e-5)
    assert len(set(nearest(points, kmeans(points, 3, seed=1))[0])) <= 3


# residual k-means and the mixture


def test_blobs_of_blobs_are_a_thousand_pure_cells():
    rows, names = blobs()
    cells = residual_cells(rows, residual_kmeans(rows, 10, restarts=3, max_iter=100, seed=1))
    assert pure(cells, names)
    assert cells.max() < 1000
    mixture = fit_mixture([rows[:1000], rows[1000:]], 10, restarts=3, seed=1)
    cells = mixture.cells([rows])
    assert pure(cells, names)
    variances = [layer.variance for layer in mixture.layers]
    assert variances == sorted(variances, reverse=True)
    # Gradient steps of a falling rate come near it.
    trained = fit_mixture([rows], 10, restarts=1, seed=1, published=True)
    assert variances[0] < trained.layers[0].variance < 2 * variances[0]  # of rows with variance 1
    assert len(set(trained.cells([rows]).tolist())) > 500


def test_gradients_of_a_mixture_layer_are_those_of_its_loss():
    rng = np.random.default_rng(0)
    rows, stream = rng.normal(size=(30, 6)), rng.dirichlet(np.ones(4), size=30)
    values = {"centers": rng.normal(size=(4, 6)), "log_variance": np.array(0.3), "logits": rng.normal(size=4)}
    values["table0"] = rng.normal(size=(4, 4))
    layer = MixtureLayer.from_parameters(values)
    for name, gradient in layer.compute_gradients(rows, [stream], 1.0).items():
        assert np.shape(gradient) == np.shape(values[name])
        for at in np.ndindex(np.shape(gradient)):
            losses = []
            for step in (1e-6, -1e-6):
                moved = {key: value.copy() for key, value in values.items()}
                moved[name][at] += step
                losses.append(MixtureLayer.from_parameters(moved).compute_loss(rows, [stream]))
            assert gradient[at] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-6), (name, at)


def test_layers_of_a_mixture_use_nearly_all_components():
    rows = np.random.default_rng(2).normal(size=(600, 12)) * np.linspace(2, 0.2, 12) + 40
    mixture = fit_mixture([rows], 10, restarts=2, seed=0)
    cells = mixture.cells([rows])
    digits = [cells // 100, cells // 10 % 10, cells % 10]
    assert all(len(np.unique(digit)) >= 9 for digit in digits)
    variances = [layer.variance for layer in mixture.layers]
    assert variances == sorted(variances, reverse=True)
    for layer in mixture.layers:
        assert np.exp(layer.log_weights).sum() == pytest.approx(1)
        for table in layer.tables:
            np.testing.assert_allclose(np.exp(table).sum(axis=1), 1)
    assert [len(layer.tables) for layer in mixture.layers] == [0, 1, 2]
    # Scaled and shifted by one number, the cells stay.
    again = fit_mixture([1000 * rows + 7], 10, restarts=2, seed=0)
    np.testing.assert_array_equal(cells, again.cells([1000 * rows + 7]))


@pytest.mark.parametrize("quantizer", ["drmm", "residual_kmeans"])
def test_rotation_and_order_do_not_matter_where_rows_are_far_apart(quantizer):
    rows, names = blobs(codes=4, d=12)
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(12, 12)))[0].astype(np.float32)
    order = np.random.default_rng(6).permutation(len(rows))
    for changed, named in ((rows @ turn, names), (rows[order], names[order])):
        if quantizer == "drmm":
            cells = fit_mixture([changed + 3], 4, restarts=5, seed=0).cells([changed + 3])
        else:
            cells = residual_cells(changed, residual_kmeans(changed, 4, restarts=5, max_iter=50, seed=0))
        assert pure(cells, named)


def test_scikit_learn_clusters_a_sample_of_very_many_rows_unless_it_has_a_start(monkeypatch):
    kmeans_module = sys.modules[kmeans.__module__]
    monkeypatch.setattr(kmeans_module, "has_faiss", lambda: False)
    monkeypatch.setattr(kmeans_module, "_MAX_POINTS", 1)
    points = np.arange(12, dtype=np.float32)[:, None]
    found = kmeans(points, 3, seed=5)[:, 0]
    assert set(found) < set(points[:, 0]), "three rows alone"
    assert not set(kmeans(points, 3, start=points[:3])[:, 0]) <= set(points[:, 0]), "means of all rows"


def test_faiss_clusters_on_a_gpu_that_it_sees_and_the_signature_says_so(monkeypatch):
    faiss = pytest.importorskip("faiss")
    kmeans_module, asked = sys.modules[kmeans.__module__], []

    class Clustering(faiss.Kmeans):
        def __init__(self, *sizes, gpu=False, **options):
            asked.append(gpu)
            super().__init__(*sizes, **options)

    monkeypatch.setattr(faiss, "Kmeans", Clustering)
    for gpus, library in ((0, {}), (1, {"kmeans": "faiss on a GPU"})):
        monkeypatch.setattr(faiss, "get_num_gpus", lambda count=gpus: count)
        kmeans(np.arange(12, dtype=np.float32)[:, None], 3)
        assert kmeans_module.describe_library() == library
    assert asked == [False, True]


# the lattice


def test_the_lattice_has_744_points():
    every = [z for z in itertools.product(range(-8, 9), repeat=4) if sum(v * v for v in z) == 50]
    kinds = {}
    for z in every:
        key = tuple(sorted(map(abs, z), reverse=True))
        kinds[key] = kinds.get(key, 0) + 1
    assert kinds == {(6, 3, 2, 1): 384, (5, 4, 3, 0): 192, (4, 4, 3, 3): 96, (7, 1, 0, 0): 48, (5, 5, 0, 0): 24}
    assert {tuple(map(int, z)) for z in lattice_points()} == set(every)
    assert len(lattice_points()) == 744


def test_every_point_is_its_own_code_at_any_length():
    points = lattice_points()
    np.testing.assert_array_equal(lattice_cells(points), np.arange(744))
    np.testing.assert_array_equal(lattice_cells(np.float32(1e-3) * points), np.arange(744))


def test_the_slope_of_the_loss_is_that_of_differences():
    rows = np.random.default_rng(0).normal(size=(18, 4))
    images = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    loss, slope = lattice.loss_and_slope(images, 0.7)
    rows, near, far = images[:6], images[6:12], images[12:]
    apart = [min(np.linalg.norm(rows[i] - rows[j]) for j in range(6) if j != i) for i in range(6)]
    pulls = np.linalg.norm(rows - near, axis=1) - np.linalg.norm(rows - far, axis=1)
    assert loss == pytest.approx(np.maximum(pulls, 0).mean() - 0.7 * np.log(6 * np.array(apart)).mean())
    for at in [(0, 0), (3, 2), (7, 1), (14, 3)]:
        moved = [images.copy(), images.copy()]
        moved[0][at] += 1e-6
        moved[1][at] -= 1e-6
        want = (lattice.loss_and_slope(moved[0], 0.7)[0] - lattice.loss_and_slope(moved[1], 0.7)[0]) / 2e-6
        assert slope[at] == pytest.approx(want, rel=1e-4, abs=1e-6)


def test_the_gradients_of_the_network_are_those_of_differences():
    rng = np.random.default_rng(1)
    net = lattice.SpreadingNet(5, 7, make_random_stream(0, "test"))
    net.weights = {name: value.astype(np.float64) for name, value in net.weights.items()}
    rows, goal = rng.normal(size=(12, 5)), rng.normal(size=(12, 4))
    _, kept = net.forward(rows)
    spread = (rows @ net.weights["w0"]).var(axis=0, ddof=1)
    assert net.running["var0"] == pytest.approx(1 + lattice._STATISTICS * (spread - 1))
    found = net.gradients(goal, kept)
    for name, value in net.weights.items():
        at = tuple(rng.integers(0, size) for size in value.shape)
        sums = []
        for step in (1e-6, -1e-6):
            value[at] += step
            sums.append(float(np.sum(goal * net.forward(rows)[0])))
            value[at] -= step
        assert found[name][at] == pytest.approx((sums[0] - sums[1]) / 2e-6, rel=1e-3, abs=1e-5), name


def test_the_published_schedule_of_drmm(monkeypatch):
    """100 rows in batches of 64, 20 times; with a gradient of 1, Adam's step is the rate, which falls after one half."""
    seen, values = [], []

    class Layer:
        def read_parameters(self):
            return {"table": np.array(values[-1] if values else 0.0)}

        def compute_gradients(self, batch, streams, weight):
            seen.append((len(batch), weight))
            return {"table": np.ones(())}

        def forward(self, batch, streams):
            return None, batch, streams

        @staticmethod
        def from_parameters(parameters):
            values.append(float(parameters["table"]))
            return Layer()

    monkeypatch.setattr(drmm, "MixtureLayer", Layer)
    drmm._train_layers(np.zeros((100, 2)), [Layer()], np.random.default_rng(0))
    assert seen == [(64, 0.0), (36, 0.0)] * 10 + [(64, 1.0), (36, 1.0)] * 10
    rates = [0.005 * min(1, (2 - step / 20) ** 2) for step in range(40)]
    assert -np.diff([0.0, *values]) == pytest.approx(rates, rel=1e-6)


def entropy(cells):
    share = np.bincount(cells, minlength=744) / len(cells)
    return -float(np.sum(share[share > 0] * np.log(share[share > 0])))


@pytest.mark.slow
def test_spreading_fills_the_sphere():
    """3,000 even rows: with the second term most of the lattice is used, with more of it more evenly."""
    rows = np.random.default_rng(0).uniform(-1, 1, size=(3000, 8)).astype(np.float32)
    found = []
    for spread in (0.0, 0.1, 1.0):
        net = lattice.train_spreading_net(rows, seed=0, hidden=48, epochs=8, batch=128, spread=spread)
        found.append(lattice_cells(net.map_to_sphere(rows)))
    assert [entropy(cells) for cells in found] == sorted(entropy(cells) for cells in found)
    assert len(np.unique(found[-1])) >= 600
    assert len(np.unique(found[0])) < len(np.unique(found[-1]))


# as quantizers of MAUVE


@pytest.mark.parametrize("quantizer", CODED)
def test_same_seed_same_cells_on_one_and_two_threads(quantizer):
    human, model = clusters(120, 12), clusters(110, 7, seed=1)
    found = []
    for threads in (1, 2, 2):
        with threadpool_limits(limits=threads):
            found.append(mauve(human=human, model=model, quantizer=quantizer, restarts=2))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].human_hist, other.human_hist)
        np.testing.assert_array_equal(found[0].model_hist, other.model_hist)
    assert found[0].mauve != mauve(human=human, model=model, quantizer=quantizer, restarts=2, seed=26).mauve


@pytest.mark.parametrize("quantizer", ["kmeans", "kmeans_l1", *CODED])
def test_meaning(quantizer):
    """Copies score one, a collapse lower, far sides as disjoint histograms: 1 / C(10, 5)."""
    options = {"quantizer": quantizer, "restarts": 2} | ({} if quantizer == "lattice" else {"num_buckets": 27})
    human = clusters(200, 12)
    assert mauve(human=human, model=human.copy(), **options).mauve == pytest.approx(1.0)
    scores = [mauve(human=human, model=clusters(200, groups, seed=1), **options).mauve for groups in (12, 6, 1)]
    assert scores == sorted(scores, reverse=True)
    far = mauve(human=human, model=human @ -np.eye(16, dtype=np.float32) - 40, **options).mauve
    # The grid of 25 weights is off by less than .001; the lattice's sphere brings far sides together.
    assert far == pytest.approx(1 / 252, abs=1e-3 if quantizer != "lattice" else 0.02)


FIT = {"num_buckets": "auto", "explained_variance": 0.9, "restarts": 1, "max_iter": 50}


def test_more_cells_than_texts_need_no_more_texts_and_what_cannot_be_fitted_is_refused():
    human, model = clusters(30, 12), clusters(30, 12, seed=1)
    assert mauve(human=human, model=model, quantizer="drmm", restarts=1).num_buckets <= 60
    assert mauve(human=human[:5], model=model[:5], quantizer="drmm", restarts=1).num_buckets <= 10  # codes per level
    refused = [{"quantizer": q, "num_buckets": k} for q, k in (("lattice", 500), ("drmm", 500), ("residual_kmeans", 1))]
    idle = {"training": "published"}, {"quantizer": "drmm", "pca_max_data": 9}  # options that do nothing together
    check_edges([
        (lambda: mauve(human=human[:5], model=model[:4], quantizer="drmm"), UndefinedMetric, "codes"),
        (lambda: fit_quantizer([human[:2]], FitOptions("lattice", **FIT)), UndefinedMetric, "3 texts"),
        *((lambda o=o: mauve(human=np.eye(12), model=np.eye(12), **o), ValueError, "num_buckets") for o in refused),
        *((lambda s=s, o=o: s(**o), SpecError, "num_buckets") for s in (Mauve, PrecisionRecallCurve) for o in refused),
        *((lambda o=o: Mauve(**o), SpecError, "quantizer") for o in idle),
    ])  # fmt: skip


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_other_sides_get_the_cells_of_the_same_fit(quantizer):
    """A side of the fit has the cells that it would have as any other side."""
    sides = [clusters(90, 12), clusters(80, 12, seed=1)]
    cluster, _ = fit_quantizer(sides, FitOptions(quantizer, **FIT))
    assign = cluster(3)
    whole = assign(sides)
    apart = assign([side.copy() for side in sides])
    assert all(np.array_equal(a, b) for a, b in zip(whole, apart, strict=True))
    assert np.array_equal(assign([sides[1], sides[0].copy()])[0], whole[1])


def test_options_of_the_fit_move_the_cells_alone(monkeypatch):
    """Each is in the signature only if it is set; the training takes the published sizes."""
    sides = {"human": clusters(90, 12), "model": clusters(80, 12, seed=1)}
    sizes = []
    net = lattice.train_spreading_net
    monkeypatch.setattr(lattice, "train_spreading_net", lambda rows, **size: sizes.append(size) or net(rows, seed=0))
    for options in ({"quantizer": "lattice", "training": "published"}, {"quantizer": "lattice"}):
        mauve(**sides, **options)
    assert sizes == [{"seed": 25, "hidden": 768, "epochs": 160, "batch": 64}, {"seed": 25}]
    few, every = (mauve(**sides, pca_max_data=count) for count in (20, 170))
    assert every.mauve == mauve(**sides).mauve != few.mauve
    assert few.mauve == mauve(**sides, pca_max_data=20).mauve
