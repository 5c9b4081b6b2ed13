"""Time the bandwidth searches of kernel density confidence against scikit-learn's KernelDensity.
Run it after a change to top_label.

Every search is the plain scan's: bandwidths .005, .0055, … until the slope of the confidence
changes its sign at most twice. scikit-learn's scan takes minutes, so some of its bandwidths are
timed, of some classes, and the rest is in proportion: a ratio of wall times in one process, on one
core.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from sklearn.neighbors import KernelDensity
from threadpoolctl import threadpool_limits

from kdgraph.calibration.top_label.kernel_density import SIGN_CHANGES, Rule, narrowest_bandwidth
from kdgraph.calibration.top_label.kernel_sums import KernelSum

FIRST, STEP, GRID, CLASSES = 0.005, 0.0005, 512, 10
SEARCH_BAR, PEER_BAR = 0.3, 50
COMPARED = (50_000, "b_mon2")
PEER_CLASSES, PEER_BANDWIDTHS = 2, 4


def scores(n: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """The scores of right and of wrong rows of ten classes, together n, each class with a curve of
    its own.
    """
    found = []
    for k in range(CLASSES):
        score = rng.beta(3 + k / 3, 1 + k / 10, size=n // CLASSES)
        right = rng.random(len(score)) < score ** (0.5 + k / 4)
        found.append((score[right], score[~right]))
    return found


def search(right: np.ndarray, wrong: np.ndarray, rule: Rule) -> float:
    """The bandwidth of one class, kernels and grid made from its scores."""
    sums = (
        KernelSum.from_scores(right, np.ones(len(right))),
        KernelSum.from_scores(wrong, np.ones(len(wrong))),
    )
    found = narrowest_bandwidth(
        sums, _grid(right, wrong), SIGN_CHANGES[rule], first=FIRST, step=STEP
    )
    return found.bandwidth if found else np.inf


def peer(right: np.ndarray, wrong: np.ndarray, last: float) -> float:
    """Seconds of scikit-learn's scan up to the bandwidth ``last``, from some of its bandwidths."""
    bandwidths = np.arange(FIRST, last + STEP / 2, STEP)
    some = bandwidths[np.unique(np.linspace(0, len(bandwidths) - 1, PEER_BANDWIDTHS).astype(int))]
    grid, start = _grid(right, wrong)[:, None], time.perf_counter()
    for bandwidth in some:
        for rows in (right, wrong):
            KernelDensity(bandwidth=float(bandwidth)).fit(rows[:, None]).score_samples(grid)
    return (time.perf_counter() - start) / len(some) * len(bandwidths)


def _grid(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    everything = np.concatenate([right, wrong])
    return np.linspace(everything.min(), everything.max(), GRID)


def timed(n: int, rule: Rule, repeats: int) -> list[float]:
    """Print the median seconds of ten searches; returns the bandwidths."""
    classes, times, found = scores(n, np.random.default_rng(0)), [], []
    for _ in range(repeats):
        start = time.perf_counter()
        found = [search(*rows, rule) for rows in classes]
        times.append(time.perf_counter() - start)
    steps = sum(round((b - FIRST) / STEP) + 1 for b in found)
    bar = f" (bar {SEARCH_BAR} s)" if (n, rule) == COMPARED else ""
    seen = f"{steps:,} bandwidths, {min(found):.4f} to {max(found):.4f}"
    print(f"{n:>9,} rows {rule:>7}   {statistics.median(times):6.3f} s{bar}   {seen}", flush=True)
    return found


def compared(n: int, rule: Rule, found: list[float]) -> None:
    """Print how often the searches of some classes go into scikit-learn's scan of the same
    bandwidths.
    """
    classes = scores(n, np.random.default_rng(0))[:PEER_CLASSES]
    start = time.perf_counter()
    for rows in classes:
        search(*rows, rule)
    ours = time.perf_counter() - start
    theirs = sum(peer(*rows, last) for rows, last in zip(classes, found, strict=False))
    what = (
        f"{PEER_CLASSES} classes, {PEER_BANDWIDTHS} bandwidths of each timed, the rest in"
        " proportion"
    )
    print(
        f"{'':>14} scikit-learn's scan: {theirs:.1f} s, {theirs / ours:.0f} times as long (bar"
        f" {PEER_BAR}; {what})",
        flush=True,
    )


def main() -> None:
    """Print one line for each number of rows and rule."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[5000, 50_000, 500_000],
        help="of all ten classes together",
    )
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    with threadpool_limits(1):
        for n in given.rows:
            for rule in SIGN_CHANGES:
                found = timed(n, rule, given.repeats)
                if (n, rule) == COMPARED:
                    compared(n, rule, found)


if __name__ == "__main__":
    main()
