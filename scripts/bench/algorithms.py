"""Algorithms against plainer ways to the same numbers, which are checked to be the same.

The plainer way is what one would write with numpy, scipy or scikit-learn; where it takes minutes,
it is timed on some rows, and the rest is in proportion.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KernelDensity, KNeighborsRegressor, NearestNeighbors
from table import Table, Value, cpu_seconds, peak_in_process, peak_mb, ratio

from kdgraph import KernelDensityForest
from kdgraph.calibration.top_label.kernel_density import SIGN_CHANGES, narrowest_bandwidth
from kdgraph.calibration.top_label.kernel_sums import KernelSum
from kdgraph.data.simulations import Spiral
from kdgraph.density.posterior import EXPONENT_FACTOR_GRID
from kdgraph.detection import (
    GeodesicDistance,
    GraphDensity,
    KthNeighbourDistance,
    LeafBox,
    LeafOccupancy,
    aphd,
)
from kdgraph.geometry import LeafBoxes, partition_of
from kdgraph.geometry.code_index import CodeIndex
from kdgraph.metrics import ece, local_errors, rms_of
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit
from kdgraph.smoothing import local_means

N_LOOP = 200
"""Rows of loops over rows."""
ENDS = [q for level in (0.8, 0.9, 0.95) for q in ((1 - level) / 2, (1 + level) / 2)]
"""Levels at which three intervals end."""


def bench(table: Table) -> None:
    """Add the lines of all algorithms."""
    for part in (
        calibration_error,
        local_calibration_errors,
        confidence_bandwidths,
        kernel_density_forest,
        leaf_scores,
        neighbours,
        local_recalibration,
        codes,
        networks,
    ):
        part(table)


def _faster(table: Table, what: str, cell: str, run: Callable[[], object], **plain: Any) -> None:
    """Add how many times as fast an algorithm is as the plain ``way``, ``scale`` times as long."""
    value = float(plain.get("scale", 1.0) / ratio(run, plain["way"], plain.get("rounds", 3)))
    anchor = f"as fast as {plain['name']}"
    table.add(what, cell, time=Value(value, "×", anchor, plain["bar"], at_least=True))


def calibration_error(table: Table, n_rows: int = 1_000_000, n_bins: int = 15) -> None:
    """Add ECE against three lines of numpy."""
    rng = np.random.default_rng(0)
    proba = rng.standard_exponential((n_rows, 10)) ** 2
    proba /= proba.sum(axis=1, keepdims=True)
    y = rng.integers(10, size=n_rows)

    def formula() -> float:
        predicted, confidence = proba.argmax(axis=1), proba.max(axis=1)
        index = np.ceil(confidence * n_bins).astype(np.intp) - 1
        gaps = np.bincount(index, (predicted == y) - confidence, minlength=n_bins)
        return float(np.abs(gaps).sum() / len(y))

    assert abs(ece(y, proba) - formula()) < 1e-12
    value = ratio(lambda: ece(y, proba), formula, 7)
    table.add("ECE", f"{n_rows:,} × 10", time=Value(value, "×", "three lines of numpy", 1.5))


def _confidences(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return confidences, which of them are right, and features, Float[n, 50]."""
    rng = np.random.default_rng(0)
    confidence = 0.3 + 0.7 * rng.beta(3, 0.6, n_rows)
    X = rng.normal(size=(n_rows, 50)) * np.linspace(2, 0.5, 50)
    return confidence, rng.random(n_rows) < confidence, X


def local_calibration_errors(table: Table, n_rows: int = 20_000, n_bins: int = 15) -> None:
    """Add local calibration errors against scipy's distances and a loop over rows.

    Most confidences are those of a trained network, in the last bin, so that half of all pairs
    count.
    """
    confidence, correct, X = _confidences(n_rows)
    label, gap = np.ceil(confidence * n_bins).astype(np.intp), confidence - correct
    rng, gamma = np.random.default_rng(1), 0.2 * rms_of(X)
    some = rng.permutation(n_rows)[: 2 * N_LOOP]
    pairs = np.bincount(label)[label]
    scale = pairs.sum() / pairs[some].sum()

    def loop() -> list[float]:
        found = []
        for i in some:
            same = label == label[i]
            weight = np.exp(-np.abs(X[same] - X[i]).mean(axis=1) / gamma)
            found.append(float((weight * gap[same]).sum() / weight.sum()))
        return found

    def by_cdist() -> None:
        for i in range(0, len(some), 50):
            rows = some[i : i + 50]
            for b in np.unique(label[rows]):
                same, at = label == b, rows[label[rows] == b]
                weight = np.exp(cdist(X[at], X[same], "cityblock") / (-50 * gamma))
                _ = weight @ gap[same] / weight.sum(axis=1)

    def errors(**options: Any) -> Any:
        return local_errors(confidence, correct, X, bins=n_bins, **options)

    assert np.abs(errors().slce[0, some] - loop()).max() < 1e-5  # weights are single numbers
    cell = f"{n_rows:,} × 50"
    eight = [0.05 * 2**k for k in range(8)]
    value = ratio(lambda: errors(bandwidths=eight), errors)
    table.add("LCE at eight bandwidths", cell, time=Value(value, "×", "one bandwidth", 2))
    for name, way, bar in (("a loop", loop, 15), ("scipy's cdist", by_cdist, 3)):
        _faster(table, "LCE", cell, errors, way=way, name=name, scale=scale, bar=bar)
    peak = Value(peak_in_process("algorithms", "LCE"), "MB", "beyond the rows", 500)
    table.add("LCE", cell, memory=peak)
    places = X[:5000] + 0.01
    value = ratio(
        lambda: local_means(places, X, correct, [gamma], within_at=label[:5000], within=label),
        errors,
    )
    table.add("local means at 5,000 places", cell, time=Value(value, "×", "LCE of all rows", 0.5))


def confidence_bandwidths(table: Table, n_rows: int = 50_000) -> None:
    """Add the search for a bandwidth against a scan with KernelDensity of scikit-learn."""
    rng, first, step = np.random.default_rng(0), 0.005, 0.0005
    score = rng.beta(3.3, 1.1, size=n_rows // 10)
    is_right = rng.random(len(score)) < score**0.75
    sets = score[is_right], score[~is_right]
    grid = np.linspace(score.min(), score.max(), 512)
    changes = SIGN_CHANGES["b_mon2"]

    def search() -> Any:
        right, wrong = (KernelSum.from_scores(rows, np.ones(len(rows))) for rows in sets)
        return narrowest_bandwidth((right, wrong), grid, changes, first=first, step=step)

    found = search()
    bandwidths = np.arange(first, found.bandwidth + step / 2, step)
    some = bandwidths[np.unique(np.linspace(0, len(bandwidths) - 1, 4).astype(int))]

    def scan() -> None:
        for bandwidth in some:
            for rows in sets:
                estimate = KernelDensity(bandwidth=float(bandwidth)).fit(rows[:, None])
                estimate.score_samples(grid[:, None])

    scale = len(bandwidths) / len(some)
    cell = f"{len(score):,} scores, {len(bandwidths):,} bandwidths"
    name = "KernelDensity"
    _faster(
        table, "bandwidth of a confidence", cell, search, way=scan, name=name, scale=scale, bar=50
    )


def kernel_density_forest(table: Table, n_rows: int = 4_000) -> None:
    """Add the fit on held-out rows against Algorithm 1 of Dey et al. (2024) in plain numpy.

    That has a matrix of all similarities.
    """
    rng, source = np.random.default_rng(0), Spiral()
    (X, y), held_out = (source.sample(n, rng) for n in (n_rows, round(0.43 * n_rows)))
    forest = RandomForestClassifier(500, n_jobs=1, random_state=0).fit(X, y)

    def similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        matches = np.zeros((len(a), len(b)))
        for t in range(a.shape[1]):
            matches += a[:, t, None] == b[None, :, t]
        return matches / a.shape[1]

    def plain() -> None:
        leaves, of_held_out = forest.apply(X), forest.apply(held_out[0])
        kernel, labels = similarity(leaves, leaves), np.eye(2)[y]
        nearest = similarity(of_held_out, leaves).argmax(axis=1)
        for exponent in EXPONENT_FACTOR_GRID * np.log(len(X)):
            masses = kernel**exponent @ labels
            fraction = masses / masses.sum(axis=0)
            posterior = fraction / fraction.sum(axis=1, keepdims=True)
            _ = -np.log(np.maximum(posterior[nearest, held_out[1]], 1e-6)).mean()

    def fit() -> None:
        model = KernelDensityForest(FrozenEstimator(forest), n_jobs=1, random_state=0)
        model.fit(X, y, X_calibration=held_out[0], y_calibration=held_out[1])

    cell = f"{n_rows:,} × 2, forest of 500"
    _faster(table, "KDF, fit", cell, fit, way=plain, name="numpy", rounds=1, bar=50)


def leaf_scores(table: Table) -> None:
    """Add scores of leaves against the forest's own ``apply`` and scikit-learn's neighbours."""
    X, y = make_classification(30_000, 20, n_informative=10, random_state=0)
    train, new, rows = X[:10_000], X[10_000:20_000], X[10_000:]
    forest = ExtraTreesClassifier(100, n_jobs=1, random_state=0).fit(train, y[:10_000])
    partition = partition_of(forest, n_jobs=1)
    leaves = partition.encode(rows)

    def apply() -> None:
        forest.apply(new)

    def by_pairs(n: int = 500) -> np.ndarray:
        return cdist(leaves[:n], leaves, "hamming").sum(axis=1) / (len(leaves) - 1)

    assert np.abs(aphd(leaves)[:500] - by_pairs()).max() < 1e-12
    scale = len(leaves) / 500
    cell = f"{len(rows):,} rows, 100 trees"
    name = "scipy's cdist"
    _faster(
        table,
        "APHD of a set",
        cell,
        lambda: aphd(leaves),
        way=by_pairs,
        name=name,
        scale=scale,
        bar=5_000,
    )
    value = ratio(lambda: aphd(partition.encode(rows)), lambda: forest.apply(rows))
    table.add("APHD, from rows to scores", cell, time=Value(value, "×", "apply", 2))

    known, place = partition.locate(train), partition.locate(new)
    index = LeafBoxes(partition, known, 5)
    cell = "10,000 × 20, 100 trees"
    for what, run, bar in (
        ("leaf boxes, built", lambda: LeafBoxes(partition, known, 5), 4),
        ("leaf boxes, fractions", lambda: index.outside_by_feature(place), 1),
        ("leaf boxes, distances", lambda: index.outside_by_feature(place, "distance"), 2),
    ):
        table.add(what, cell, time=Value(ratio(run, apply), "×", "apply", bar))
    nearest = NearestNeighbors(n_neighbors=5).fit(train)
    for detector, bar in (
        (LeafBox(), 1),
        (LeafOccupancy(), 1),
        (GeodesicDistance(), 2),
        (GraphDensity(), 2),
    ):
        fitted = clone(detector).set_params(estimator=FrozenEstimator(forest), n_jobs=1)
        fitted.fit(train, X_calibration=X[20_000:20_500])
        value = ratio(lambda fitted=fitted: fitted.ood_score(new), lambda: nearest.kneighbors(new))
        name = f"{type(detector).__name__}, score"
        table.add(name, cell, time=Value(value, "×", "five nearest neighbours", bar))


def neighbours(table: Table, n_rows: int = 200_000) -> None:
    """Add the distance to a neighbour among more rows than are compared."""
    for d in (20, 100):
        rng = np.random.default_rng(0)
        train, new = rng.normal(size=(n_rows, d)), rng.normal(size=(500, d))
        few, many = (
            KthNeighbourDistance(random_state=0).fit(train[:n], X_calibration=new)
            for n in (n_rows // 4, n_rows)
        )
        every = NearestNeighbors(n_neighbors=5).fit(train)
        cell = f"{n_rows:,} × {d}"
        for anchor, run, bar in (
            ("NearestNeighbors of all", lambda every=every, new=new: every.kneighbors(new), 0.6),
            (f"itself of {n_rows // 4:,}", lambda few=few, new=new: few.ood_score(new), 1.2),
        ):
            value = ratio(lambda many=many, new=new: many.ood_score(new), run)
            table.add("k-th neighbour, score", cell, time=Value(value, "×", anchor, bar))


def _local_pit(n_rows: int, d: int, k: int) -> tuple[LocalPit, Any, Any, Any, Any]:
    """Return a fitted model, its parent, calibration rows with their targets, and new rows."""
    rng = np.random.default_rng(0)
    X, new = (rng.uniform(-1, 1, size=(n_rows, d)) for _ in range(2))
    y = 3 * X[:, 0] ** 2 + X[:, 1] + (0.2 + np.abs(X[:, 1])) * rng.normal(size=n_rows)
    parent = GaussianLinear().fit(X[:1000], y[:1000])
    model = LocalPit(FrozenEstimator(parent), k=k, units="raw", random_state=0)
    model.fit(X[:10], y[:10], X_calibration=X, y_calibration=y)
    return model, parent, X, y, new


def local_recalibration(table: Table, n_rows: int = 10_000, k: int = 1_000) -> None:
    """Add local PIT against nearest neighbours of scikit-learn and a loop that draws.

    The loop does for each row what Algorithm 1 of Torres et al. (2024) states.
    """
    for d, bar in ((2, 1.3), (20, 1.0), (100, 1.0)):
        model, parent, X, y, new = _local_pit(n_rows, d, k)
        tree, pits = cKDTree(X), norm.cdf(y, parent.predict(X), parent.sigma_)

        def predict(new: np.ndarray = new, model: LocalPit = model) -> np.ndarray:
            distribution = model.predict_dist(new)
            return np.column_stack([distribution.mean(), distribution.ppf(np.array(ENDS))])

        def weighted(
            x: np.ndarray, parent: Any = parent, tree: Any = tree, pits: Any = pits
        ) -> Any:
            distance, near = tree.query(x, k)
            sample = norm.ppf(pits[near], parent.predict([x])[0], parent.sigma_)
            weight = 1 - (distance / distance[-1]) ** 2
            return sample, weight / weight.sum()

        def loop(new: np.ndarray = new, weighted: Any = weighted) -> None:
            rng = np.random.default_rng(0)
            for x in new[:N_LOOP]:
                sample, weight = weighted(x)
                draws = rng.choice(sample, k, p=weight)
                _ = draws.mean(), draws.var(), np.quantile(draws, ENDS)

        means = [sample @ weight for sample, weight in map(weighted, new[:20])]
        assert np.abs(predict(new[:20])[:, 0] - means).max() < 1e-5  # weights are single numbers
        cell = f"{n_rows:,} × {d}, {k:,} neighbours"
        regression = KNeighborsRegressor(k, weights=_epanechnikov).fit(X, y)
        value = ratio(predict, lambda new=new, r=regression: r.predict(new))
        table.add("local PIT, intervals", cell, time=Value(value, "×", "KNeighborsRegressor", bar))
        if d == 2:
            peak = Value(peak_in_process("algorithms", "local PIT"), "MB", "beyond the rows", 100)
            table.add("local PIT", cell, memory=peak)
            scale = n_rows / N_LOOP
            _faster(
                table,
                "local PIT",
                cell,
                predict,
                way=loop,
                name="a loop that draws",
                scale=scale,
                bar=5,
            )


def _epanechnikov(distance: np.ndarray) -> np.ndarray:
    return 1 - np.square(distance / distance[:, -1:])


def activations(n: int, widths: list[int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return which units of a random network n rows activate, [n, width] a layer, and labels.

    The last layer's are by softmax > 1/2; labels are one-hot.
    """
    rng = np.random.default_rng(0)
    x, layers = rng.standard_normal((n, 20), dtype=np.float32), []
    labels = np.eye(2)[(x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)]
    for width in widths:
        weights = rng.standard_normal((x.shape[1], width), dtype=np.float32)
        z = x @ (weights * np.sqrt(2 / x.shape[1], dtype=np.float32))
        layers.append(z > 0 if width != widths[-1] else z == z.max(axis=1, keepdims=True))
        x = np.maximum(z, 0)
    return layers, labels


def packed(layers: list[np.ndarray]) -> np.ndarray:
    """Return the codes, UInt64[n, W], column by column, each layer from a word of its own on."""
    padded = (np.pad(bits, [(0, 0), (0, -bits.shape[1] % 64)]) for bits in layers)
    words = [np.packbits(bits, axis=1, bitorder="little").view("<u8") for bits in padded]
    return np.asfortranarray(np.hstack(words))


def exponents(n: int) -> np.ndarray:
    """Return the exponents of a search, Float[24]."""
    return EXPONENT_FACTOR_GRID * np.log(n)


def codes(table: Table, n_rows: int = 4_000) -> None:
    """Add class masses among codes of networks against scipy, and against a matrix product.

    The product has as many multiply-adds as units are compared, in single precision.
    """
    for name, widths in {"4 × 1000": [1000] * 4 + [2], "4 × 100": [100] * 4 + [2]}.items():
        layers, labels = activations(n_rows, widths)
        words, powers = packed(layers), exponents(n_rows)
        index = CodeIndex(words, labels, widths, n_jobs=1)
        signs = np.hstack(layers).astype(np.float32)

        def plain(layers: Any = layers, labels: Any = labels, powers: Any = powers) -> np.ndarray:
            similarity = np.ones((256, len(labels)))
            for bits in layers:
                similarity *= 1 - cdist(bits[:256], bits, "hamming")
            return np.stack([similarity**power @ labels for power in powers], axis=2)

        def query(index: Any = index, words: Any = words, powers: Any = powers) -> np.ndarray:
            return index.query(words, powers)[0]

        expected = plain()
        assert (np.abs(query()[:256] - expected) / np.maximum(expected, 1e-300)).max() < 1e-9
        cell, is_large = f"{n_rows:,} codes of {name} units", widths[0] == 1000
        value = ratio(query, lambda signs=signs: signs @ signs.T)
        bar = 2.0 if is_large else None
        table.add("masses at 24 exponents", cell, time=Value(value, "×", "a matrix product", bar))
        bar, scale = 30.0 if is_large else None, n_rows / 256
        _faster(table, "masses", cell, query, way=plain, name="scipy", scale=scale, bar=bar)


def networks(table: Table, n_rows: int = 4_000) -> None:
    """Add the network and perceptrons that train side by side; nothing without torch."""
    try:
        from kdgraph import KernelDensityNetwork
        from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble
    except ImportError:
        return
    rng = np.random.default_rng(0)
    (X, y), held_out, (new, _) = (Spiral().sample(n, rng) for n in (n_rows, n_rows // 2, 1_000))
    network = MultilayerPerceptron(
        hidden=[100] * 4, max_epochs=1, device="cpu", threads=1, n_jobs=1, random_state=0
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        epoch = cpu_seconds(lambda: network.fit(X, y))
        network.set_params(max_epochs=20_000 // n_rows).fit(X, y)
    kdn = KernelDensityNetwork(FrozenEstimator(network), n_jobs=1)
    given = {"X_calibration": held_out[0], "y_calibration": held_out[1]}
    seconds = cpu_seconds(lambda: kdn.fit(X, y, **given))
    cell = f"{n_rows:,} × 2, 4 × 100 units"
    table.add("KDN, fit", cell, time=Value(seconds / epoch, "×", "an epoch of training"))
    value = ratio(lambda: kdn.predict_proba(new), lambda: network.predict_proba(new))
    table.add("KDN, predict", cell, time=Value(value, "×", "the network's predict_proba"))

    X, y = rng.random((10_000, 784), dtype=np.float32), rng.integers(10, size=10_000)
    options: dict[str, Any] = {
        "hidden": (300, 100),
        "learning_rate": 5e-5,
        "batch_size": 1000,
        "patience": None,
        "max_epochs": 2,
        "device": "cpu",
        "threads": 1,
    }
    with warnings.catch_warnings(action="ignore"):
        value = ratio(
            lambda: [MultilayerPerceptron(random_state=k, **options).fit(X, y) for k in range(10)],
            lambda: MultilayerPerceptronEnsemble(members=10, random_state=0, **options).fit(X, y),
        )
    cell = "10 networks for pixels"
    table.add(
        "ensemble, fit", cell, time=Value(value, "×", "as fast as a loop", 1.0, at_least=True)
    )


def _peak_of_errors() -> float:
    rows = _confidences(20_000)
    return peak_mb(lambda: lambda: local_errors(*rows, bins=15))


def _peak_of_intervals() -> float:
    model, _, _, _, new = _local_pit(10_000, 2, 1_000)
    return peak_mb(lambda: lambda: model.predict_dist(new).ppf(np.array(ENDS)))


PEAKS = {"LCE": _peak_of_errors, "local PIT": _peak_of_intervals}
