"""Time local calibration errors against plainer ways to them on the same rows. Run it after any
change to ``kdgraph/smoothing``.

50,000 rows of 50 features in 15 bins, with confidences like those of a trained network: most rows
are in the last bin, so half of all pairs count; and 20,000 rows of 20 and of 100 features.
Everything is on one core in this process, and every bar is a ratio of times taken one after the
other, so that it means the same on another machine. The naive loop computes one row at a time with
numpy; it and scipy's ``cdist`` in float64, which sees the pairs within bins in blocks, are timed on
some rows and extrapolated.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import cdist

from kdgraph.metrics import local_errors, rms_of
from kdgraph.runner.monitoring import measure_cost
from kdgraph.smoothing import local_means

N, D, BINS, ROUNDS = 50_000, 50, 15, 3
NAIVE_ROWS, CDIST_ROWS, PLACES, FEWER_ROWS = 200, 1_000, 10_000, 20_000
BANDWIDTHS = [0.05 * 2**k for k in range(8)]


def rows(n: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Confidence Float[n], correct Bool[n], X Float[n, d] and bin Int[n], the last by
    multiplication.
    """
    rng = np.random.default_rng(0)
    confidence = 0.3 + 0.7 * rng.beta(3, 0.6, n)
    X = rng.normal(size=(n, d)) * np.linspace(2, 0.5, d)
    return confidence, rng.random(n) < confidence, X, np.ceil(confidence * BINS).astype(np.intp)


def naive(
    places: np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    X: np.ndarray,
    label: np.ndarray,
    gamma: float,
) -> list[np.floating]:
    """Eq. 4 of Luo et al. (2022) at some rows, Int[p], one after the other: without a look at
    nearest rows or effective numbers.
    """
    gap, found = confidence - correct, []
    for i in places:
        here = label == label[i]
        weight = np.exp(-np.abs(X[here] - X[i]).mean(axis=1) / gamma)
        found.append((weight * gap[here]).sum() / weight.sum())
    return found


def by_cdist(
    places: np.ndarray,
    confidence: np.ndarray,
    correct: np.ndarray,
    X: np.ndarray,
    label: np.ndarray,
    gamma: float,
) -> dict[int, np.ndarray]:
    """The same, bin by bin through scipy."""
    gap, found = confidence - correct, {}
    for b in np.unique(label[places]):
        here, at = np.flatnonzero(label == b), places[label[places] == b]
        step = max(1, 2**20 // len(here))
        for start in range(0, len(at), step):
            weight = np.exp(
                cdist(X[at[start : start + step]], X[here], "cityblock") / (-X.shape[1] * gamma)
            )
            found |= dict(
                zip(at[start : start + step], weight @ gap[here] / weight.sum(axis=1), strict=True)
            )
    return found


def seconds(run: Callable[[], object]) -> float:
    """Wall time."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def told(name: str, ours: list[float], theirs: list[float], bar: float, at_least: bool) -> None:
    """Print a line: seconds of both, the median of their ratios, the bar."""
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    held = ratio >= bar if at_least else ratio <= bar
    rule = f"bar {'≥' if at_least else '≤'} {bar} ×" + ("" if held else "   MISSED")
    print(f"{name:42}{statistics.median(theirs):8.2f} s   {ratio:6.2f} × LCE   {rule}", flush=True)


def other_dimension(d: int) -> None:
    """Print the line of fewer rows of d features."""
    confidence, correct, X, label = rows(FEWER_ROWS, d)
    gamma, some = 0.2 * rms_of(X), np.random.default_rng(1).permutation(FEWER_ROWS)[:CDIST_ROWS]
    pairs = np.bincount(label)[label]
    share = pairs.sum() / pairs[some].sum()
    times: dict[str, list[float]] = {name: [] for name in ("one", "cdist")}
    for _ in range(ROUNDS):
        times["one"].append(seconds(lambda: local_errors(confidence, correct, X, bins=BINS)))
        times["cdist"].append(
            share * seconds(lambda: by_cdist(some, confidence, correct, X, label, gamma))
        )
    each = statistics.median(times["one"]) / pairs.sum() * 1e9
    name = f"LCE of {FEWER_ROWS:,} rows, {d} features"
    print(f"{name:42}{statistics.median(times['one']):8.2f} s   {each:.1f} ns a pair", flush=True)
    told(f"scipy cdist, from {CDIST_ROWS:,} rows", times["one"], times["cdist"], 3, at_least=True)


def main() -> None:
    """Print a line for each comparison."""
    confidence, correct, X, label = rows()
    gamma, some = 0.2 * rms_of(X), np.random.default_rng(1).permutation(N)
    pairs = np.bincount(label)[label]
    places, label_at = X[some[:PLACES]] + 0.01, label[some[:PLACES]]
    local_errors(confidence[:99], correct[:99], X[:99])  # compiles
    with measure_cost() as before:
        pass
    with measure_cost() as during:
        found = local_errors(confidence, correct, X, bins=BINS)
    extra = during.peak_memory_mb - before.peak_memory_mb
    plain = naive(some[:20], confidence, correct, X, label, gamma)
    off = np.abs(found.slce[0, some[:20]] - plain).max()
    assert off < 1e-5, off
    assert (
        np.abs(
            [by_cdist(some[:20], confidence, correct, X, label, gamma)[i] for i in some[:20]]
            - np.asarray(plain)
        ).max()
        < 1e-9
    )
    share = {n: pairs.sum() / pairs[some[:n]].sum() for n in (NAIVE_ROWS, CDIST_ROWS)}
    times: dict[str, list[float]] = {
        name: [] for name in ("one", "eight", "naive", "cdist", "places")
    }
    for _ in range(ROUNDS):
        times["one"].append(seconds(lambda: local_errors(confidence, correct, X, bins=BINS)))
        times["eight"].append(
            seconds(lambda: local_errors(confidence, correct, X, bandwidths=BANDWIDTHS, bins=BINS))
        )
        timed = seconds(lambda: naive(some[:NAIVE_ROWS], confidence, correct, X, label, gamma))
        times["naive"].append(timed * share[NAIVE_ROWS])
        times["cdist"].append(
            seconds(lambda: by_cdist(some[:CDIST_ROWS], confidence, correct, X, label, gamma))
            * share[CDIST_ROWS]
        )
        times["places"].append(
            seconds(
                lambda: local_means(places, X, correct, [gamma], within_at=label_at, within=label)
            )
        )
    one = times["one"]
    print(
        f"{N:,} rows, {D} features, {BINS} bins, {pairs.sum() / N**2:.0%} of all pairs within bins;"
        " one core"
    )
    each = statistics.median(one) / pairs.sum() * 1e9
    print(
        f"{'LCE at one bandwidth':42}{statistics.median(one):8.2f} s   {each:.1f} ns a pair, off by"
        f" {off:.0e}",
        flush=True,
    )
    told(f"LCE at {len(BANDWIDTHS)} bandwidths", one, times["eight"], 2, at_least=False)
    told(f"naive loop, from {NAIVE_ROWS} rows", one, times["naive"], 15, at_least=True)
    told(f"scipy cdist in float64, from {CDIST_ROWS:,} rows", one, times["cdist"], 3, at_least=True)
    told(f"means at {PLACES:,} new places", one, times["places"], 0.5, at_least=False)
    print(
        f"{'memory beyond what came in':42}{extra:8.0f} MB   bar < 500 MB"
        + ("" if extra < 500 else "   MISSED")
    )
    for d in (20, 100):
        other_dimension(d)


if __name__ == "__main__":
    main()
