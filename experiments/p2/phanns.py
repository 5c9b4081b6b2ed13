"""Scores of the PhANNs test set, row by row, from the table that its authors published: precision
by class and threshold.

Usage, in the root of the repository: ``python -m experiments.p2.phanns test_set_stats.csv
phanns.parquet``. The table is in the repository of PhANNs (Cantu et al., 2020; MIT); the file that
is written is for ``kdg run -m experiment=paper/p2/phanns dataset.path=phanns.parquet``. ``--spread
0`` puts each score somewhere in its bin, by this seed, and not in its middle: what hangs on where
it is?

Salamon et al. show these 46,801 proteins in Figures 1, 5 to 9, 13 to 15 and 17. Scores protein by
protein are stored without those of the largest class, see :mod:`experiments.p2.phanns_scores`;
these counts are of all. A precision is a fraction TP/(TP + FP) of whole numbers, and TP and FP only
fall as the threshold rises. In lowest terms, times the least multiple at which they do, the counts
follow from the highest threshold down. The totals of the eleven classes then sum to 46,801.

Where no false positive is left, a precision of 1 does not show how many are right (above 9.2 of
10 at the lowest, in four of the classes). There the recall at the threshold before the last, whose
numerator is the count of the last, determines it up to a multiple.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.command import study_options

# Largest number of rows of a class in the test set; two fractions of such numbers differ by far
# more than floating-point noise.
LARGEST = 60_000


def counts(precision: np.ndarray, last: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return right and wrong rows at or above each threshold, as few as can be, Int[t] each.

    ``precision`` is Float[t] by rising threshold, not 0; the right rows at the last threshold are a
    multiple of ``last``.

    >>> counts(np.array([0.6, 0.75, 1.0]))
    (array([3, 3, 1]), array([2, 1, 0]))
    """
    # From the highest threshold down both counts only rise. A fraction in lowest terms gives them
    # up to a multiple, of which the least that is no smaller than the counts above is taken.
    right, wrong = last, 0
    result = []
    for share in reversed(precision.tolist()):
        fraction = Fraction(share).limit_denominator(LARGEST)
        a, b = fraction.numerator, fraction.denominator - fraction.numerator
        if b == 0 and wrong:
            raise ValueError(
                "a precision of 1 stands below one of"
                f" {right}/{right + wrong}: this is no cumulative precision"
            )
        times = max(-(-right // a), -(-wrong // b) if b else 1)
        right, wrong = times * a, times * b
        result.append((right, wrong))
    tp, fp = np.array(result[::-1]).T
    return tp, fp


def counted(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the columns right and wrong, of rows at or above each threshold."""
    parts = []
    for _, of_class in table.sort_values("threshold", kind="stable").groupby("class", sort=False):
        before_last = Fraction(float(of_class.recall.iloc[-2])).limit_denominator(LARGEST)
        right, wrong = counts(of_class.precision.to_numpy(), before_last.numerator)
        parts.append(of_class[["class", "threshold"]].assign(right=right, wrong=wrong))
    return pd.concat(parts, ignore_index=True)


def rows(result: pd.DataFrame, rng: np.random.Generator | None = None) -> pd.DataFrame:
    """Return a row for each protein: the scores of the classes, which sum to 1, and the label.

    A score is the middle of its bin, or with ``rng`` anywhere in it, as a share of the highest
    threshold; the rest is spread evenly over the other classes, whose scores the table lacks. It
    lacks the true class of a wrong row, too: here it is the class after the predicted one.
    """
    names = list(dict.fromkeys(result["class"]))
    top, step = float(result.threshold.max()), float(np.diff(result.threshold.unique()).min())
    parts = []
    for k, name in enumerate(names):
        of_class = result[result["class"] == name]
        threshold = of_class.threshold.to_numpy()
        wrong_label = names[(k + 1) % len(names)]
        for column, label in (("right", name), ("wrong", wrong_label)):
            cumulative = of_class[column].to_numpy()
            lower = np.repeat(threshold, cumulative - np.append(cumulative[1:], 0))
            within = step * (np.full(len(lower), 0.5) if rng is None else rng.random(len(lower)))
            score = np.minimum(lower + within, top) / top
            others = np.repeat(((1 - score) / (len(names) - 1))[:, None], len(names), axis=1)
            others[:, k] = score
            parts.append(pd.DataFrame(others, columns=names).assign(label=label))
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    """Write the rows, and print the number of each class."""
    spread = "scores anywhere in their bins, not in the middle"
    more: dict[str, dict[str, Any]] = {
        "table": {"type": Path, "help": "test_set_stats.csv"},
        "rows": {"type": Path, "help": "the parquet file to write"},
        "--spread": {"type": int, "metavar": "SEED", "help": spread},
    }
    options = study_options(__doc__, more=more)
    result = counted(pd.read_csv(options.table))
    rows(
        result, None if options.spread is None else np.random.default_rng(options.spread)
    ).to_parquet(options.rows, index=False)
    totals = result.groupby("class", sort=False)[["right", "wrong"]].first()
    for name, of_class in totals.iterrows():
        print(
            f"{name:14}{of_class.right:8,} right{of_class.wrong:8,} wrong  "
            f" {of_class.right / of_class.sum():.3f}"
        )
    print(f"{int(totals.to_numpy().sum()):,} rows → {options.rows}")


if __name__ == "__main__":
    main()
