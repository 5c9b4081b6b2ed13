"""Time networks and the kernel density network on a CUDA device against the CPU, and count what
differs.

Both sides run in one process; every figure is a ratio of wall times, or a number of differences
that should be 0. The baseline is what runs without the device: the compiled index with all cores,
and training with the one thread that presets have and with all cores. Times include the way to the
device and back. What is compared: the class masses of n queries among n polytopes of 4 × 1,000
units at the 24 exponents of the search; the distances to the 5th of n rows of a layer; the codes of
rows; an epoch of training in mixed precision, the default. Where torch has no CUDA device, there is
nothing to compare, and one line is printed.

``--rows 2000`` is the short form. While the machine does something else, the ratios are noise.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from algorithms import activations, exponents, packed
from sklearn.neighbors import NearestNeighbors

from kdgraph.geometry.activations import ActivationPartition, DeviceCodeIndex
from kdgraph.geometry.code_index import CodeIndex, code_similarity
from kdgraph.parents.networks import (
    ConvolutionalNetwork,
    MultilayerPerceptron,
    MultilayerPerceptronEnsemble,
    NetworkClassifier,
    ResidualNetwork,
)
from kdgraph.parents.networks.device_search import DeviceSearch
from kdgraph.smoothing.neighbours import distances_of

BLOCK_ROWS = 256
"""Rows of a search, as detectors make it."""
CORES = len(os.sched_getaffinity(0))
SIMILARITY_ROWS = 2000
WIDTHS = [1000] * 4 + [2]
HEADER = "| task | CPU | CUDA | ratio | differences |\n|---|---|---|---|---|"


def print_line(task: str, times: list[float], differences: str = "") -> None:
    """Print a row of the table; times in seconds, on the CPU and on the device."""
    cpu, cuda = times
    print(
        f"| {task} | {cpu:.3g} s | {cuda:.3g} s | {cpu / cuda:.3g}× | {differences} |", flush=True
    )


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    """Return the median wall time of calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def counts(n: int, device: str) -> None:
    """Class masses, nearest polytopes and similarities of both indices."""
    layers, labels = activations(n, WIDTHS)
    codes, powers = packed(layers), exponents(n)
    index = CodeIndex(codes, labels, WIDTHS, n_jobs=CORES)
    device_index = DeviceCodeIndex(codes, labels, WIDTHS, device=device)
    some = codes[:SIMILARITY_ROWS]
    n_similarities = int(
        (device_index.similarity(some) != code_similarity(some, codes, WIDTHS)).sum()
    )
    for name, chosen in {"24 exponents": powers, "1 exponent": powers[12:13]}.items():
        masses, nearest = index.query(codes, chosen)
        device_masses, device_nearest = device_index.query(codes, chosen)
        deviation = (np.abs(device_masses - masses) / np.maximum(masses, 1e-300)).max()
        differences = (
            f"{n_similarities} of {len(some) * n:,} similarities,"
            f" {int((nearest != device_nearest).sum())} nearest polytopes; masses ≤ {deviation:.0e}"
        )
        times = [seconds(partial(i.query, codes, chosen), 3) for i in (index, device_index)]
        print_line(f"counts, {n:,} × {n:,}, {name}, {CORES} cores", times, differences)


def distances(n: int, d: int, device: str, n_queries: int) -> None:
    """Distances to the 5th of n rows of d features of length 1, in clusters as those of a layer."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, d))
    rows = centres[rng.integers(10, size=n + n_queries)] + 0.5 * rng.normal(size=(n + n_queries, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    index, queries = NearestNeighbors(n_jobs=CORES).fit(rows[:n]), rows[n:]

    def by_blocks(search: Callable[[np.ndarray, int], np.ndarray]) -> np.ndarray:
        blocks = range(0, len(queries), BLOCK_ROWS)
        return np.concatenate([search(queries[i : i + BLOCK_ROWS], 5)[:, -1] for i in blocks])

    cpu = partial(by_blocks, partial(distances_of, index))

    def cuda() -> np.ndarray:
        return by_blocks(DeviceSearch(index, device).distances)

    n_different = int((cpu() != cuda()).sum())
    times = [seconds(run, 3) for run in (cpu, cuda)]
    print_line(
        f"5th neighbours of {len(queries):,} rows among {n:,} of {d} features, {CORES} cores",
        times,
        f"{n_different} of {len(queries):,} distances",
    )


def codes_of_rows(name: str, network: NetworkClassifier, X: np.ndarray) -> None:
    """Codes of rows by the network on either device."""
    partitions = [ActivationPartition(network.module_, n_jobs=CORES), ActivationPartition(network)]
    codes, device_codes = (partition.encode(X) for partition in partitions)
    n_flipped = int(np.bitwise_count(codes ^ device_codes).sum())
    times = [seconds(partial(partition.encode, X), 3) for partition in partitions]
    n_bits = len(X) * int(partitions[0].widths.sum())
    print_line(
        f"codes, {len(X):,} rows, {name}, {CORES} cores", times, f"{n_flipped} of {n_bits:,} bits"
    )


def epoch(name: str, network: NetworkClassifier, X: np.ndarray, y: np.ndarray) -> None:
    """An epoch of training, and the codes of the trained network."""
    network.set_params(max_epochs=1, random_state=0)

    def fit(**options: Any) -> NetworkClassifier:
        with warnings.catch_warnings(action="ignore"):  # one epoch may teach nothing
            return network.set_params(**options).fit(X, y)

    cpu = {threads: seconds(partial(fit, device="cpu", threads=threads)) for threads in (1, CORES)}
    fit(device="cuda", threads=1)  # cuDNN and cuBLAS are loaded at their first call
    cuda = seconds(partial(fit, device="cuda"), 3)
    for threads, cpu_time in cpu.items():
        label = f"epoch, {len(X):,} rows, {name}, {threads} thread{'s' * (threads > 1)}"
        print_line(label, [cpu_time, cuda])
    codes_of_rows(name, network, X)


def networks() -> None:
    """The networks of the presets at sizes at which the CPU takes seconds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 20))
    MultilayerPerceptron(max_epochs=0).fit(X[:10], np.arange(10) % 2)  # what is loaded once
    epoch("4 × 1000", MultilayerPerceptron(), X, (X[:, 0] > 0).astype(int))
    epoch("2 × 32", MultilayerPerceptron(hidden=(32, 32)), X, (X[:, 0] > 0).astype(int))
    images = rng.random((10_000, 1, 28, 28), dtype=np.float32)
    epoch(
        "LeNet", ConvolutionalNetwork(architecture="lenet"), images, rng.integers(10, size=10_000)
    )
    images = rng.random((2000, 3, 32, 32), dtype=np.float32)
    epoch("ResNet-20", ResidualNetwork(), images, rng.integers(10, size=2000))


def ensembles(n_networks: int = 100) -> None:
    """Perceptrons for the pixels of MNIST that train side by side on the device, or in a loop."""
    rng = np.random.default_rng(0)
    X, y = rng.random((50_000, 784), dtype=np.float32), rng.integers(10, size=50_000)
    options: dict[str, Any] = {"hidden": (300, 100), "batch_size": 1000, "max_epochs": 1}
    options |= {"patience": None, "device": "cuda", "threads": 1, "random_state": 0}

    def loop() -> None:
        for _ in range(n_networks):
            MultilayerPerceptron(**options).fit(X, y)

    together = MultilayerPerceptronEnsemble(members=n_networks, **options)
    with warnings.catch_warnings(action="ignore"):  # noise teaches nothing
        times = [seconds(loop), seconds(lambda: together.fit(X, y))]
    print_line(f"{n_networks} perceptrons, a loop on the device and side by side", times)


def main() -> None:
    """Print the machine and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    rows = parser.parse_args().rows
    if not torch.cuda.is_available():
        print("torch sees no CUDA device on this machine; there is nothing to compare")
        return
    print(
        f"{torch.cuda.get_device_name()}, {CORES} cores, torch {torch.__version__}, Python"
        f" {platform.python_version()}\n\n{HEADER}",
        flush=True,
    )
    for n in rows:
        counts(n, "cuda")
    for n, d, n_queries in ((50_000, 64, 10_000), (50_000, 512, 10_000), (500_000, 512, 1000)):
        distances(n, d, "cuda", n_queries)
    networks()
    ensembles()


if __name__ == "__main__":
    main()
