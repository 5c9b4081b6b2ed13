"""Tests that blocks on threads, on processes and on a Dask cluster give the same bits."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from kdgraph.density import KernelDensityForest
from kdgraph.geometry.partition import map_blocks


def compute_powers(rows: np.ndarray, power: int) -> tuple[np.ndarray, int]:
    return rows**power, len(rows)


def make_blocks(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    "backend", [None, pytest.param("loky", marks=pytest.mark.slow), "threading"]
)
@pytest.mark.parametrize("size", [3, 7, 100])
def test_every_block_is_computed_once_in_order(n_jobs, backend, size):
    rows, counts = np.arange(50), np.zeros(50, dtype=int)
    blocks = make_blocks(50, size)

    def sum_blocks() -> int:
        n = 0
        for block, (value, length) in map_blocks(
            partial(compute_powers, power=2), rows, blocks, n_jobs
        ):
            counts[block] += value
            n += length
        return n

    if backend is None:
        n = sum_blocks()
    else:
        with parallel_config(backend=backend, n_jobs=n_jobs):
            n = sum_blocks()
    assert n == 50 and np.array_equal(counts, rows**2)


def test_no_blocks_for_no_rows():
    assert list(map_blocks(np.sum, np.empty(0), [], 2)) == []


@pytest.mark.slow
def test_workers_of_dask_give_the_same_bits_after_a_killed_worker():
    distributed = pytest.importorskip("distributed")
    X, y = make_classification(6000, 8, n_informative=5, random_state=0)
    forest = KernelDensityForest(
        RandomForestClassifier(50, random_state=0), random_state=0, n_jobs=-1
    )
    local_proba = forest.fit(X, y).predict_proba(X)
    killed = []

    def task_counts(client: Any) -> dict[int, int]:
        """Process of each worker, and how many tasks it has executed."""
        return dict(
            client.run(lambda dask_worker: (os.getpid(), dask_worker.state.executed_count)).values()
        )

    def kill_a_worker_at_work(address: str, before: dict[int, int]) -> None:
        deadline = time.time() + 60
        with distributed.Client(address) as watcher:
            while not killed and time.time() < deadline:
                counts = task_counts(watcher)
                at_work = [pid for pid, count in counts.items() if count > before.get(pid, 0)]
                if at_work:
                    os.kill(at_work[0], signal.SIGKILL)
                    killed.append(at_work[0])

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp://"
        ) as cluster,
        distributed.Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        cluster_predict = forest.predict_proba(X)
        predicting = task_counts(client)
        arguments = (client.scheduler.address, predicting)
        killer = threading.Thread(target=kill_a_worker_at_work, args=arguments)
        killer.start()
        cluster_proba = forest.fit(X, y).predict_proba(X)
        killer.join()
    assert len(predicting) == 2 and all(predicting.values())
    assert np.array_equal(local_proba, cluster_predict)
    assert len(killed) == 1
    assert np.array_equal(local_proba, cluster_proba)
