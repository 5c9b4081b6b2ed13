"""Claims of Salamon et al. on Figures 4 and 14 B, tested on scores of MNIST ensembles: bins of both
test sets, and curves of two rules.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import chi2

from experiments.common.claims import Claim
from experiments.p2.mnist.measure import METHODS, fitted, members_of
from experiments.p2.mnist.pool import Combine, Pool
from kdgraph.metrics import TopLabel

# Bins of Figure 4; and the least expected number of right and wrong rows in a bin on each set, the
# usual rule of a chi-squared test.
BINS, EXPECTED = 10, 5
LEVEL = 0.05
# Gap of the confidence between curves that are almost identical; the paper has no number.
GAP = 0.05
# Lowest score of the paper's curves, and number of scores up to 1 at which they are compared.
LOW, GRID = 0.15, 341


def claims_on_ensembles(pool: Pool, ensembles: int, combine: Combine) -> Iterator[Claim]:
    """Yield both claims, in the median of the first ensembles, which share both test sets."""
    bins, gaps = [], []
    for number in range(ensembles):
        proba = pool.ensemble(members_of(number, pool.size), combine)
        bins.append(bins_apart(proba, pool.labels))
        gaps.append(between_rules(proba["1"], pool.labels["1"]))
    yield _noise(pd.DataFrame(bins, columns=["p", "apart", "bins"]))
    yield claim_on_rules(pd.DataFrame(gaps))


def bins_apart(
    proba: dict[str, np.ndarray], labels: dict[str, np.ndarray]
) -> tuple[float, int, int]:
    """Return whether noise explains the differences between both test sets' shares of right rows.

    These are the p of a chi-squared test of all bins (predicted class and tenth of the score), how
    many bins differ at 5 % each, and of how many; NaN of none.
    """
    counts = np.stack([_counts(proba[name], labels[name]) for name in ("1", "2")]).astype(
        float
    )  # set, class, bin, right
    # Expected under equal shares of right rows in both sets. Each bin is a table of 2 × 2 counts
    # with fixed numbers of rows, so it adds one degree of freedom.
    rows = counts.sum(axis=3, keepdims=True)
    both = counts.sum(axis=0, keepdims=True)
    expected = rows * both / np.maximum(both.sum(axis=3, keepdims=True), 1)
    enough = (expected >= EXPECTED).all(axis=(0, 3))
    distance = ((counts - expected) ** 2 / np.where(expected > 0, expected, 1)).sum(axis=(0, 3))[
        enough
    ]
    if not len(distance):
        return np.nan, 0, 0
    return (
        float(chi2.sf(distance.sum(), len(distance))),
        int((chi2.sf(distance, 1) < LEVEL).sum()),
        len(distance),
    )


def between_rules(proba: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return class → the widest gap between the curves of KDE(b_mon) and KDE(b_mon2)."""
    models = [fitted(METHODS[name], proba, y) for name in ("KDE(b_mon)", "KDE(b_mon2)")]
    score = np.linspace(LOW, 1, GRID)
    result = {}
    for k in range(10):
        rows = np.repeat(((1 - score) / 9)[:, None], 10, axis=1)
        rows[:, k] = score
        each, other = (model.predict_confidence(rows) for model in models)
        result[str(k)] = float(np.abs(each - other).max())
    return result


def _counts(proba: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Int[10, bins, 2], wrong and right rows by predicted class and bin."""
    top_label = TopLabel.from_proba(proba)
    at = np.clip(np.ceil(top_label.confidence * BINS).astype(int) - 1, 0, BINS - 1)
    result = np.zeros((10, BINS, 2), dtype=int)
    np.add.at(result, (top_label.predicted, at, top_label.correct(y).astype(int)), 1)
    return result


def _noise(result: pd.DataFrame) -> Claim:
    p = float(result.p.median())
    apart = (
        f"{result.apart.median():.0f} of {result.bins.median():.0f}"
        f" bins differ at {LEVEL:.0%} by themselves"
    )
    evidence = f"p {p:.2g}, {apart} (medians of {len(result)} ensembles)"
    text = (
        "noise explains the differences between both test sets' shares of right rows by class and"
        " tenth of the score (Figure 4)"
    )
    rule = (
        f"a chi-squared test of all bins with {EXPECTED} expected"
        f" rows of each kind has p above {LEVEL:g}"
    )
    return Claim(
        f"{text}: {rule}, in the median of ensembles", p > LEVEL, evidence, ("noise_of_histograms",)
    )


def claim_on_rules(gaps: pd.DataFrame) -> Claim:
    """Return the claim on the widest gap between the curves of both rules."""
    medians = gaps.median()
    evidence = f"on {(medians < GAP).sum()} of {len(medians)}; " + ", ".join(
        f"{name} {value:.3f}" for name, value in medians.items()
    )
    text = (
        f"the curves of b_mon and b_mon2 are less than {GAP:g} apart"
        f" at every score from {LOW:g} (Figure 14)"
    )
    statement = f"{text}, on each class, in the median of ensembles"
    return Claim(statement, bool((medians < GAP).all()), evidence, ("two_rules_alike_on_mnist",))
