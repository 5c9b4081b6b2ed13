"""Time ECE against the plain formula on the same arrays. Run it after any change to how rows are
binned.

The formula is what one would write in three lines of numpy: the largest of each row, a bin by
multiplication, ``bincount``. What is timed of ours checks its input too. Medians of rounds that
alternate, as a ratio, so that it means the same on another machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from kdgraph.metrics import TopLabel, ece, top_label_ece

ROWS, CLASSES, BINS, ROUNDS = 1_000_000, 10, 15, 9
BAR = 1.5


def formula(y: np.ndarray, proba: np.ndarray) -> float:
    """ECE of Int[n] and Float[n, K] in equal bins, without a look at what comes in; edges are as
    rounding has them.
    """
    predicted, confidence = proba.argmax(axis=1), proba.max(axis=1)
    index = np.ceil(confidence * BINS).astype(np.intp) - 1
    gaps = np.bincount(index, (predicted == y) - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(y))


def seconds(run: Callable[[], object]) -> float:
    """Wall time."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each way in."""
    rng = np.random.default_rng(0)
    proba = rng.standard_exponential((ROWS, CLASSES)) ** 2
    proba /= proba.sum(axis=1, keepdims=True)
    y, top_label = rng.integers(CLASSES, size=ROWS), TopLabel.from_proba(proba)
    assert abs(ece(y, proba) - formula(y, proba)) < 1e-12
    ways = {
        "ece of probabilities": lambda: ece(y, proba),
        "ece of top labels": lambda: ece(y, top_label),
        "top-label ece": lambda: top_label_ece(y, top_label),
    }
    print(f"{ROWS:,} rows, {CLASSES} classes, {BINS} bins")
    for name, way in ways.items():
        times = [(seconds(way), seconds(lambda: formula(y, proba))) for _ in range(ROUNDS)]
        ratio = statistics.median(ours / plain for ours, plain in times)
        said = (
            ""
            if name != "ece of probabilities"
            else f"   bar {BAR} ×" + ("" if ratio <= BAR else "   MISSED")
        )
        print(
            f"{name:24}{statistics.median(ours for ours, _ in times):8.3f} s   {ratio:5.2f} × the"
            f" formula{said}",
            flush=True,
        )


if __name__ == "__main__":
    main()
