"""Time the kernel density network against the network it wraps, and its geometry against scipy and
a matrix product.

Run it after any change to geometry or density.

Every figure is a ratio of wall times in one process, both sides with two threads where they can
have them, so that it means the same on another machine. Codes are those of a random ReLU network on
Gaussian data, so that they are alike as real ones are. What is timed: class masses of n queries
among n polytopes at the 24 exponents of the search, at one exponent, as predictions need them, and
the nearest polytope alone. The baseline is one scipy Hamming distance a layer, their product, 24
powers by numpy and 24 matrix products; it runs on 512 queries and is scaled to n. The yardstick is
one float32 matrix product with as many multiply-adds as units are compared (n × n × units), on at
most 2,000 queries and scaled.

The whole fit (reading both sets of rows, the search, the floor; calibration rows 30 % of all) is
compared with one epoch of training, since the number of epochs is chance, and predicting 1,000 rows
with the network's own ``predict_proba``.

``--rows 1000 4000 --fit 1000`` is the short form. While the machine does something else, the ratios
are noise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from warnings import catch_warnings

import numpy as np
from bench_kdf import peak_mb, seconds, spiral
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityNetwork
from kdgraph.density.posterior import EXPONENT_FACTOR_GRID
from kdgraph.geometry.code_index import CodeIndex
from kdgraph.parents.networks import MultilayerPerceptron

NETWORKS: dict[str, list[int]] = {"4 × 1000": [1000] * 4 + [2], "4 × 100": [100] * 4 + [2]}
BASELINE_BAR, MATMUL_BAR = 30, 2.0
BASELINE_QUERIES, MATMUL_QUERIES = 512, 2000
N_FEATURES, N_JOBS = 20, 2


def activations(n: int, widths: list[int]) -> tuple[list[np.ndarray], np.ndarray]:
    """(Bool[n, width] of each layer, Float[n, 2]): which units n rows activate, the last layer's by
    softmax > 1/2, and one-hot labels.
    """
    rng = np.random.default_rng(0)
    x, layers = rng.standard_normal((n, N_FEATURES), dtype=np.float32), []
    labels = np.eye(2)[(x[:, 0] + 0.5 * rng.standard_normal(n) > 0).astype(int)]
    for width in widths:
        z = x @ (
            rng.standard_normal((x.shape[1], width), dtype=np.float32)
            * np.sqrt(2 / x.shape[1], dtype=np.float32)
        )
        layers.append(z > 0 if width != widths[-1] else z == z.max(axis=1, keepdims=True))
        x = np.maximum(z, 0)
    return layers, labels


def packed(layers: list[np.ndarray]) -> np.ndarray:
    """UInt64[n, W], column by column: the codes, each layer from a word of its own on."""
    padded = (np.pad(bits, [(0, 0), (0, -bits.shape[1] % 64)]) for bits in layers)
    return np.asfortranarray(
        np.hstack([np.packbits(bits, axis=1, bitorder="little").view("<u8") for bits in padded])
    )


def exponents(n: int) -> np.ndarray:
    """Float[24]: those of the search."""
    return EXPONENT_FACTOR_GRID * np.log(n)


def baseline(layers: list[np.ndarray], labels: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """Float[512, 2, 24]: class masses of the first 512 queries, in plain scipy and numpy."""
    similarity = np.ones((min(BASELINE_QUERIES, len(labels)), len(labels)))
    for bits in layers:
        similarity *= 1 - cdist(bits[: len(similarity)], bits, "hamming")
    return np.stack([similarity**power @ labels for power in powers], axis=2)


def against_baselines(name: str, n: int, *, with_scipy: bool) -> float:
    """Print the time of all masses of ``n`` polytopes, and its ratios to scipy's and to a matrix
    product's; returns it.
    """
    layers, labels = activations(n, NETWORKS[name])
    codes, powers, repeats = packed(layers), exponents(n), 7 if n <= 4000 else 3
    index = CodeIndex(codes, labels, NETWORKS[name], n_jobs=N_JOBS)
    run = partial(index.query, codes)
    all_powers, one_power, none = (
        seconds(partial(run, some), repeats) for some in (powers, powers[12:13], powers[:0])
    )
    signs = np.hstack(layers).astype(np.float32)
    some = signs[:MATMUL_QUERIES].copy()
    product = seconds(lambda: some @ signs.T, repeats) * n / len(some)
    line = (
        f"{name:>9} {n:>7,}   24 exponents {all_powers:7.3f} s = {all_powers / product:4.2f}× the"
        " matrix product"
    )
    line += (
        f"{_bar(name, MATMUL_BAR):<8}   one {one_power / product:4.2f}×   nearest alone"
        f" {none / product:4.2f}×"
    )
    if with_scipy:
        spent = seconds(lambda: baseline(layers, labels, powers)) * n / min(BASELINE_QUERIES, n)
        expected = baseline(layers, labels, powers)
        deviation = (
            np.abs(run(powers)[0][:BASELINE_QUERIES] - expected) / np.maximum(expected, 1e-300)
        ).max()
        line += (
            f"   {spent / all_powers:3.0f}× as fast as scipy{_bar(name, BASELINE_BAR)}, off by"
            f" {deviation:.0e}"
        )
    print(line, flush=True)
    return all_powers


def _bar(name: str, bar: float) -> str:
    return f" (bar {bar:.0f})" if name == "4 × 1000" else ""


def masses(rows: list[int], scipy_rows: int) -> None:
    """Both networks at every size, with the exponent at which the time grows from 4,000 rows on (2
    is expected).
    """
    for name in NETWORKS:
        times = {n: against_baselines(name, n, with_scipy=n <= scipy_rows) for n in rows}
        large = [n for n in rows if n >= 4000]
        if len(large) > 1:
            exponent = np.polyfit(np.log(large), np.log([times[n] for n in large]), 1)[0]
            print(
                f"{name:>9}: time grows as n^{exponent:.2f} from {min(large):,} to {max(large):,}"
                " rows",
                flush=True,
            )


def against_network(rows: list[int]) -> None:
    """The whole fit in epochs of the training, and predicting against the network's own, at every
    size.
    """
    for name, widths in NETWORKS.items():
        for n in rows:
            X, y, X_calibration, y_calibration, X_test, _ = spiral(n)
            network = MultilayerPerceptron(
                hidden=widths[:-1],
                max_epochs=1,
                device="cpu",
                threads=N_JOBS,
                n_jobs=N_JOBS,
                random_state=0,
            )
            with catch_warnings(
                action="ignore", category=ConvergenceWarning
            ):  # one epoch may teach nothing
                epoch = seconds(partial(network.fit, X, y), 3)
            network.set_params(max_epochs=20_000 // n).fit(
                X, y
            )  # as many steps at every size: what is read is a trained network
            kdn = KernelDensityNetwork(FrozenEstimator(network), n_jobs=N_JOBS)
            fit = seconds(
                partial(kdn.fit, X, y, X_calibration=X_calibration, y_calibration=y_calibration), 3
            )
            predict = seconds(partial(kdn.predict_proba, X_test), 7) / seconds(
                partial(network.predict_proba, X_test), 7
            )
            polytopes = kdn.describe()["n_polytopes"]
            line = (
                f"{name:>9} {n:>7,}   fit {fit:6.2f} s = {fit / epoch:5.2f} epochs of training"
                f" ({epoch:.2f} s each)"
            )
            print(
                f"{line}   predict 1,000 rows {predict:4.2f}×   {polytopes:,} polytopes", flush=True
            )


def memory(rows: list[int]) -> None:
    """Peak memory of all masses above what the process held before, each in a process of its own,
    and how it grows (1 is expected).
    """
    # With a fixed threshold freed arrays go back to the system; else what the codes' making left
    # would be used again, and not be seen.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}
    peaks = [
        float(
            subprocess.check_output([sys.executable, __file__, "--peak", str(n)], env=environment)
        )
        for n in rows
    ]
    exponent = np.polyfit(np.log(rows), np.log(peaks), 1)[0]
    found = ", ".join(f"{peak:.0f} MB at {n:,}" for n, peak in zip(rows, peaks, strict=True))
    print(f"peak memory of index and masses {found}, grows as n^{exponent:.2f}", flush=True)


def print_peak(n: int) -> None:
    """What :func:`memory` asks its processes for; 1,000 queries at one exponent, so that only the
    polytopes count.
    """
    widths = NETWORKS["4 × 1000"]
    layers, labels = activations(n, widths)
    codes = packed(layers)
    warm_up()
    print(
        peak_mb(
            lambda: CodeIndex(codes, labels, widths, n_jobs=N_JOBS).query(codes[:1000], np.ones(1))
        )
    )


def warm_up() -> None:
    """Compile the kernels, or load them."""
    CodeIndex(np.ones((3, 1), dtype=np.uint64), np.eye(3), np.array([64])).query(
        np.ones((3, 1), dtype=np.uint64), np.ones(1)
    )


def main() -> None:
    """Print every ratio beside its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[1000, 4000, 10_000, 20_000],
        help="polytopes, and queries",
    )
    parser.add_argument(
        "--scipy", type=int, default=4000, help="most rows at which scipy is timed too"
    )
    parser.add_argument(
        "--fit",
        type=int,
        nargs="*",
        default=[1000, 4000, 10_000],
        help="training rows of the whole fit",
    )
    parser.add_argument(
        "--memory",
        type=int,
        nargs="+",
        default=[20_000, 40_000, 80_000],
        help="memory at these sizes",
    )
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(arguments.peak)
        return
    warm_up()
    masses(arguments.rows, arguments.scipy)
    against_network(arguments.fit)
    memory(arguments.memory)


if __name__ == "__main__":
    main()
