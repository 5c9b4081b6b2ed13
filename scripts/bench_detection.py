"""Time out-of-distribution scores of a forest against its own ``apply``. Run it after any change to
``kdgraph/detection``.

A forest of 100 extremely randomised trees on 10,000 rows of 20 features; 20,000 other rows are
compared with each other, 10,000 are scored one by one. The distance to the fifth neighbour is timed
among 50,000 and 200,000 rows of 20 and 100 features. Everything is on one core in this process,
and every bar is a ratio of times taken one after the other, so that it means the same on another
machine. scipy's pairwise Hamming distances are timed on a few blocks of rows and extrapolated.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from threadpoolctl import threadpool_limits

from kdgraph.detection import (
    GeodesicDistance,
    GraphDensity,
    KthNeighbourDistance,
    LeafBox,
    LeafOccupancy,
    aphd,
)
from kdgraph.geometry import LeafBoxes, partition_of
from kdgraph.runner.monitoring import measure_cost

N_TRAIN, N_SET, N_QUERIES, D, TREES, ROUNDS = 10_000, 20_000, 10_000, 20, 100, 5
CDIST_ROWS, CDIST_BLOCK = 1_000, 250
N_BOUND, N_LARGE, N_NEAR, NEAR_ROUNDS = 50_000, 200_000, 500, 3
BARS = {"LeafBox()": 1, "LeafOccupancy()": 1, "GeodesicDistance()": 2, "GraphDensity()": 2}
"""Of whole queries, as multiples of scikit-learn's 5 nearest neighbours; more than the nearest in
geodesic distance takes all pairs.
"""


def seconds(run: Callable[[], object]) -> float:
    """Processor time, which others on the machine hardly change."""
    start = time.process_time()
    run()
    return time.process_time() - start


def by_pairs(leaves: np.ndarray, n_rows: int) -> np.ndarray:
    """Float[n_rows]: average Hamming distance (scipy) of the first rows of ``leaves`` (Int[m, T])
    to all others, a block at a time.
    """
    blocks = [
        cdist(leaves[i : i + CDIST_BLOCK], leaves, "hamming").sum(axis=1)
        for i in range(0, n_rows, CDIST_BLOCK)
    ]
    return np.concatenate(blocks) / (len(leaves) - 1)


def told(
    name: str,
    ours: list[float],
    theirs: list[float],
    what: str,
    bar: float | None = None,
    at_least: bool = False,
) -> None:
    """Print a line: seconds, the median of the ratios to what is named, and the bar, if there is
    one.
    """
    ratios = [b / a if at_least else a / b for a, b in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    missed = bar is not None and (ratio < bar if at_least else ratio > bar)
    rule = (
        ""
        if bar is None
        else f"   bar {'≥' if at_least else '≤'} {bar:,g} ×" + ("   MISSED" if missed else "")
    )
    words = f"{ratio:9,.2f} × {'as fast as' if at_least else 'the time of'} {what}"
    print(f"{name:52}{statistics.median(ours):9.4f} s{words}{rule}", flush=True)


def sets(forest: ExtraTreesClassifier, X: np.ndarray) -> None:
    """The average pairwise Hamming distance of rows in one set."""
    partition = partition_of(forest, n_jobs=1)
    leaves = partition.encode(X)
    off = np.abs(aphd(leaves)[:CDIST_BLOCK] - by_pairs(leaves, CDIST_BLOCK)).max()
    assert off < 1e-12, off
    times: dict[str, list[float]] = {name: [] for name in ("counts", "pairs", "whole", "apply")}
    as_floats = leaves.astype(np.float64)  # which cdist would do again for each block
    for _ in range(ROUNDS):
        times["pairs"].append(
            seconds(lambda: by_pairs(as_floats, CDIST_ROWS)) * len(X) / CDIST_ROWS
        )
        times["counts"].append(seconds(lambda: aphd(leaves)))
        times["apply"].append(seconds(lambda: forest.apply(X)))
        times["whole"].append(seconds(lambda: aphd(partition.encode(X))))
    pairs = f"pairwise cdist, from {CDIST_ROWS:,} rows ({statistics.median(times['pairs']):.0f} s)"
    told(
        f"APHD of {len(X):,} rows in {TREES} trees, by counts",
        times["counts"],
        times["pairs"],
        pairs,
        5_000,
        at_least=True,
    )
    told("APHD, from rows to scores", times["whole"], times["apply"], "the forest's own apply", 2)


def boxes(forest: ExtraTreesClassifier, train: np.ndarray, X: np.ndarray) -> None:
    """Boxes of leaves: their index, and the part of a query that is theirs."""
    partition = partition_of(forest, n_jobs=1)
    there, place = partition.locate(train), partition.locate(X)
    LeafBoxes(partition, there[:9]).outside_by_feature(place[:9], "distance")  # compiles
    with measure_cost() as before:
        pass
    with measure_cost() as during:
        index = LeafBoxes(partition, there, 5)
    beyond = during.peak_memory_mb - before.peak_memory_mb
    times: dict[str, list[float]] = {
        name: [] for name in ("build", "fraction", "distance", "apply")
    }
    for _ in range(ROUNDS):
        times["build"].append(seconds(lambda: LeafBoxes(partition, there, 5)))
        times["apply"].append(seconds(lambda: forest.apply(X)))
        times["fraction"].append(seconds(lambda: index.outside_by_feature(place)))
        times["distance"].append(seconds(lambda: index.outside_by_feature(place, "distance")))
    apply, kept = "the forest's own apply", (index.boxes.nbytes + index.node_box.nbytes) / 1e6
    told("leaf boxes, built", times["build"], times["apply"], apply, 4)
    print(
        f"{'leaf boxes, kept':52}{kept:9.0f} MB   {beyond:.0f} MB at the most while they are built"
    )
    told(
        f"leaf boxes, their part of {len(X):,} queries", times["fraction"], times["apply"], apply, 1
    )
    told("leaf boxes, their part, as distances", times["distance"], times["apply"], apply, 2)


def rows(forest: ExtraTreesClassifier, train: np.ndarray, X: np.ndarray) -> None:
    """Whole queries of each score, beside scikit-learn's neighbours."""
    parent, held_out = FrozenEstimator(forest), X[:500]
    neighbours, lof = (
        NearestNeighbors(n_neighbors=5).fit(train),
        LocalOutlierFactor(novelty=True).fit(train),
    )
    queries: dict[str, Callable[[], object]] = {
        "5 nearest neighbours (scikit-learn)": lambda: neighbours.kneighbors(X),
        "local outlier factor (scikit-learn)": lambda: lof.score_samples(X),
    }
    for detector in (
        LeafBox(),
        LeafOccupancy(),
        GeodesicDistance(),
        GeodesicDistance(neighbor=5),
        GraphDensity(),
    ):
        fitted = (
            clone(detector)
            .set_params(estimator=parent, n_jobs=1)
            .fit(train, X_calibration=held_out)
        )
        queries[repr(detector)] = partial(fitted.ood_score, X)
    times: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(ROUNDS):
        for name, run in queries.items():
            times[name].append(seconds(run))
    knn = next(iter(times.values()))
    for name, taken in times.items():
        told(name, taken, knn, f"these neighbours, {len(X):,} queries", BARS.get(name))


def nearest(d: int) -> None:
    """The fifth neighbour among more training rows than are compared."""
    rng = np.random.default_rng(0)
    train, X = rng.normal(size=(N_LARGE, d)), rng.normal(size=(N_NEAR, d))
    few, many = (
        KthNeighbourDistance(random_state=0).fit(train[:n], X_calibration=X[:500])
        for n in (N_BOUND, N_LARGE)
    )
    every = NearestNeighbors(n_neighbors=5).fit(train)
    times: dict[str, list[float]] = {name: [] for name in ("few", "many", "every")}
    for _ in range(NEAR_ROUNDS):
        times["few"].append(seconds(lambda: few.ood_score(X)))
        times["many"].append(seconds(lambda: many.ood_score(X)))
        times["every"].append(seconds(lambda: every.kneighbors(X)))
    name = f"KthNeighbourDistance(), {N_LARGE:,} rows of {d} features"
    told(name, times["many"], times["every"], "scikit-learn's, among all rows", 0.6)
    told("", times["many"], times["few"], f"itself with {N_BOUND:,} rows", 1.2)


def main() -> None:
    """Print a line for each comparison."""
    X, y = make_classification(N_TRAIN + N_SET, D, n_informative=10, random_state=0)
    forest = ExtraTreesClassifier(TREES, n_jobs=1, random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN])
    print(f"{N_TRAIN:,} training rows, {D} features, {TREES} trees; one core")
    with threadpool_limits(1):
        sets(forest, X[N_TRAIN:])
        boxes(forest, X[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_QUERIES])
        rows(forest, X[:N_TRAIN], X[N_TRAIN : N_TRAIN + N_QUERIES])
        for d in (20, 100):
            nearest(d)


if __name__ == "__main__":
    main()
