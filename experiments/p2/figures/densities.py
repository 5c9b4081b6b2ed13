"""Figures 5, 6 and 15: kernel densities of scores, and the confidence that is their ratio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.frozen import FrozenEstimator

from experiments.p2.figures.curves import SCORE, grid
from experiments.p2.figures.score_densities import plot_score_densities
from experiments.p2.figures.study import LABELS, Study, rows_at
from kdgraph.calibration.top_label import KernelDensityConfidence
from kdgraph.calibration.top_label.kernel_sums import KernelSum
from kdgraph.metrics import ReliabilityBins, TopLabel, nll_top, reliability_bins
from kdgraph.parents import PrecomputedScores

# Section XIII B: "about 3000 new HTJ sequences", "the 1227 previous HTJs in the test set".
ADDED, TRUE_HTJ = 3000, 1227


def density(scores: np.ndarray, at: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return Float[g], Eq. 7 of scores Float[n] at Float[g]; it integrates to 1."""
    log, _ = KernelSum.from_scores(scores, np.ones(len(scores))).log(at, bandwidth)
    return np.exp(log) / (len(scores) * bandwidth * np.sqrt(2 * np.pi))


def figure5(study: Study, name: str = "Baseplate") -> Figure:
    """Draw densities of the scores of right and of wrong rows, and their ratio, for one class."""
    at, bandwidth = grid(), study.learnt("bandwidth", "kde")[name]
    lines = {
        f"{what}: {len(scores):,} predicted as {name}": (
            10 * at,
            density(scores, at, bandwidth) / 10,
        )
        for what, scores in zip(("right", "wrong"), study.scores(name), strict=True)
    }
    confidence = {
        f"{LABELS['kde']}, b = {10 * bandwidth:g}": (10 * at, study.curve("kde", name, at))
    }
    return plot_score_densities(
        lines,
        confidence,
        _times_ten(study.bins(name)),
        density_label="density of the score",
        score_label=SCORE,
    )


def figure6(X: np.ndarray, y: np.ndarray, k: int, title: str) -> Figure:
    """Draw the same with the score of class k of every row, Float[n, K], in the denominator.

    Of PhANNs these scores are stored without those of class Other.
    """
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    fitted = {
        c: (
            KernelDensityConfidence(parent, condition=c).fit(X, y, X_calibration=X, y_calibration=y)
        )
        for c in ("predicted", "all")
    }
    top_label = TopLabel.from_proba(X)
    own, right = top_label.predicted == k, top_label.correct(y)
    bandwidth = float(fitted["predicted"].curves_[k]["bandwidth"])
    at = np.linspace(max(0.15, 1 / X.shape[1] + 1e-6), 1, 851)
    parts = {
        "right, predicted as it": own & right,
        "wrong, predicted as it": own & ~right,
        "predicted as another class": ~own,
    }
    lines = {
        f"{what}: {rows.sum():,}": (at, rows.sum() * density(X[rows, k], at, bandwidth))
        for what, rows in parts.items()
    }
    confidence = {
        f"{predicted}": (at, fitted[condition].predict_confidence(rows_at(at, k, X.shape[1])))
        for condition, predicted in (
            ("predicted", "of rows predicted as it"),
            ("all", "of all rows (condition=all)"),
        )
    }
    bins = reliability_bins(top_label.confidence[own], right[own], bins=10)
    note = f"{title}; the counts of PhANNs have no scores of the classes that were not predicted"
    return plot_score_densities(
        lines,
        confidence,
        bins,
        density_label="rows per unit of score",
        score_label="score for the class",
        log=True,
        note=note,
    )


@dataclass(frozen=True)
class Added:
    """Figure 15: new true rows of one class and its confidence."""

    n_right: int  # new rows that are predicted as their class
    right: np.ndarray  # Float[r], scores of the right rows before
    wrong: np.ndarray  # Float[w]
    new: np.ndarray  # Float[m], of the new right ones
    bandwidth: float  # b_mon2 of the rows before
    # on :func:`grid`: before; after at that bandwidth; after at b_mon2
    confidence: Mapping[str, np.ndarray]
    nll: Mapping[str, float]


def added(
    study: Study, name: str = "HTJ", n: int = ADDED, true_before: int = TRUE_HTJ, seed: int = 0
) -> Added:
    """Draw new true rows of a class like its right rows, whose scores are drawn with replacement.

    New rows that are predicted as another class would be wrong there, and change nothing here.
    """
    right, wrong = study.scores(name)
    n_right = round(n * len(right) / true_before)
    new = np.random.default_rng(seed).choice(right, n_right)
    k, bandwidth = study.classes.index(name), study.learnt("bandwidth", "kde")[name]
    X = np.concatenate([study.X, rows_at(new, k, len(study.classes))])
    y = np.append(study.y, np.full(n_right, k))
    at, own = rows_at(grid(), k, len(study.classes)), X.argmax(axis=1) == k
    fitted: dict[str, Any] = {"before": study.models["kde"].post_hoc["calibrator"]}
    for predicted, rule in (
        ("after, at the same bandwidth", bandwidth),
        ("after, at b_mon2 again", "b_mon2"),
    ):
        model = KernelDensityConfidence(FrozenEstimator(PrecomputedScores().fit(X)), bandwidth=rule)
        fitted[predicted] = model.fit(X, y, X_calibration=X, y_calibration=y)
    confidence = {predicted: model.predict_confidence(at) for predicted, model in fitted.items()}
    tops = {
        predicted: TopLabel(np.full(own.sum(), k), model.predict_confidence(X[own]))
        for predicted, model in fitted.items()
    }
    return Added(
        n_right,
        right,
        wrong,
        new,
        bandwidth,
        confidence,
        {p: nll_top(y[own], top_label, clip=1e-12) for p, top_label in tops.items()},
    )


def figure15(study: Study, result: Added) -> Figure:
    """Draw rows by score before and after: the wrong ones stay as they are; and the confidence."""
    at = grid()
    both = np.concatenate([result.right, result.new])
    sets = {"right before": result.right, "wrong, before and after": result.wrong}
    lines = {
        f"{what}: {len(x):,}": (10 * at, len(x) * density(x, at, result.bandwidth) / 10)
        for what, x in (sets | {"right after": both}).items()
    }
    confidence = {p: (10 * at, values) for p, values in list(result.confidence.items())[:2]}
    drawn = f"new scores are drawn from those of the {len(result.right):,} right rows"
    note = (
        f"{drawn}; {result.n_right:,} of {ADDED:,} new HTJ are"
        " predicted as HTJ, as large a share as before"
    )
    return plot_score_densities(
        lines,
        confidence,
        _times_ten(study.bins("HTJ")),
        density_label="rows per unit of score",
        score_label=SCORE,
        note=note,
    )


def _times_ten(bins: ReliabilityBins) -> ReliabilityBins:
    return replace(bins, lower=10 * bins.lower, upper=10 * bins.upper)
