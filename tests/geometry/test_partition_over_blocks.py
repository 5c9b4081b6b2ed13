"""Blocks on threads, on processes, and on a cluster of the user's own: the same bits."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from kdgraph.density import KernelDensityForest
from kdgraph.geometry.partition import map_blocks


def squares(rows: np.ndarray, power: int) -> tuple[np.ndarray, int]:
    return rows**power, len(rows)


def blocks_of(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "backend", [None, pytest.param("loky", marks=pytest.mark.slow), "threading"]
)
@pytest.mark.parametrize("size", [3, 7, 100])
def test_every_block_once_with_its_rows(n_jobs, backend, size):
    rows, found = np.arange(50), np.zeros(50, dtype=int)
    blocks = blocks_of(50, size)

    def collect() -> int:
        n = 0
        for block, (value, length) in map_blocks(partial(squares, power=2), rows, blocks, n_jobs):
            found[block] += value
            n += length
        return n

    if backend is None:
        n = collect()
    else:
        with parallel_config(backend=backend, n_jobs=n_jobs):
            n = collect()
    assert n == 50 and np.array_equal(found, rows**2)


def test_no_row_no_block():
    assert list(map_blocks(np.sum, np.empty(0), [], 2)) == []


@pytest.mark.slow
def test_a_cluster_of_dask_does_the_work_of_one_big_fit_to_the_same_bits():
    distributed = pytest.importorskip("distributed")
    X, y = make_classification(3000, 8, n_informative=5, random_state=0)
    forest = KernelDensityForest(
        RandomForestClassifier(20, random_state=0), random_state=0, n_jobs=-1
    )
    alone = forest.fit(X, y).predict_proba(X)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp://"
        ) as cluster,
        distributed.Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        there = forest.predict_proba(X)
        done = client.run(
            lambda dask_worker: dask_worker.state.executed_count
        )  # by the kernels alone
        again = forest.fit(X, y).predict_proba(X)
    assert np.array_equal(alone, there) and np.array_equal(alone, again)
    assert len(done) == 2 and all(count > 0 for count in done.values())
