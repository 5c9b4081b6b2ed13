"""Each published number beside the measured one: the difference, its interval, and a verdict.

The rules are those of a reviewer who wants to be convinced:

- With n seeds the interval of a mean is Student's t at 95 %, with Welch's degrees of freedom where
  the paper has a spread too. Below it lies a floor, half a unit of the last printed decimal and the
  error of reading a value off a plot.
- A difference within the interval is a *match*, unless the interval is wider than half of the
  published effect or the signs are opposite: then it is *inconclusive*.
- A difference beyond the interval is *better* on the better side, where the metric has one, and
  *differs* otherwise. Where the number is of a parent, or the parent of the same column is another
  one than the paper's, it is *different parent* on either side: a method cannot be credited with
  the training of its parent, nor blamed for it.
- One measurement is judged once: where a paper prints a number in several tables, the first is
  judged, and the others are *a repeat*.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy import stats

from experiments.common.published import ABOUT
from experiments.reproduction.studies import Better, Joined, Paper

Verdict = Literal[
    "match",
    "better",
    "different parent",
    "inconclusive",
    "differs",
    "one run",
    "not run",
    "not runnable here",
    "lost in the text",
    "a setting",
    "a repeat",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
REACHED = ("match", "better")
# Verdicts of numbers that no run can be judged by, or is judged by in another place.
NOT_RUNNABLE = ("not runnable here", "lost in the text", "a setting", "a repeat")
# Verdicts of numbers that nothing is concluded from: one run has no measure of its noise.
NOT_JUDGED = (*NOT_RUNNABLE, "one run", "not run")
CONFIDENCE = 0.95  # Level of the interval of a difference
# An interval that is wider than this fraction of the published effect decides nothing.
MOST_OF_EFFECT = 0.5
# A printed number whose rounding is more than this fraction of its effect is weak evidence.
WEAK = 0.25
SETTING = "setting"  # Kind of a number that describes how something was done, not what came out
_BOUNDS = {  # How a number is printed that is no number but a bound → what must hold
    "above": operator.gt,
    "at least": operator.ge,
    "at most": operator.le,
    "below": operator.lt,
}
# The standard error of a median of normal values is this many times that of their mean.
_OF_MEDIAN = np.sqrt(np.pi / 2)
_IDENTITY = frozenset({"item", "dataset", "metric", "method"})


@dataclass(frozen=True)
class Measurement:
    """Numbers of runs in the place of a published number.

    Mean and deviation are over seeds, the mean is a median where the paper has medians; a deviation
    is NaN for one seed, infinity where a value is. Of a statistic of many tables it is √n times the
    standard error, by leaving out one seed at a time.
    """

    mean: float
    sd: float
    n: int  # number of seeds
    made: str = ""  # when, where and by which commit; empty for now
    # published number over the tables that ran, where the paper's is over more
    comparable: float = float("nan")

    @classmethod
    def from_rows(cls, rows: pd.DataFrame, joined: Joined = "mean") -> Measurement:
        """Return the measurement of rows with a ``value`` for each ``seed``.

        With ``joined="jackknife"`` the row without a seed has the estimate from all seeds, and the
        row of a seed the estimate without it. Their spread gives the standard error √((n - 1)/n
        Σ(θ_i - θ̄)²), which for a mean is sd/√n (Efron and Stein 1981).
        """
        of_all = rows.seed.isna()
        values = rows.value[~of_all].astype(float).to_numpy()
        comparable = float(rows.get("comparable", pd.Series([np.nan])).astype(float).iloc[0])
        n = len(values)
        if joined == "jackknife":
            centred = values - values.mean() if n else values
            sd = np.sqrt((n - 1) * np.sum(centred**2)) if n > 1 else np.nan
            mean = float(rows.value[of_all].astype(float).iloc[0])
            return cls(mean, float(sd), n, comparable=comparable)
        mean = float(np.median(values) if joined == "median" else np.mean(values))
        if np.isinf(values).any():  # of a median, as a radius that is never reached
            return cls(mean, float("inf"), n, comparable=comparable)
        sd = float(np.std(values, ddof=1)) if n > 1 else float("nan")
        return cls(mean, sd, n, comparable=comparable)


@dataclass(frozen=True)
class Cell:
    """One published number, and the measured one."""

    published: Mapping[str, Any]  # its row of ``published.csv``
    measured: Measurement | None
    verdict: Verdict
    tolerance: float  # largest difference of a match; NaN where there is nothing to compare
    digits: int  # decimals that the paper prints in such cells
    weak: bool = False  # rounded so much, or a bound, that a match is weak evidence
    # title → measurement of another method in this place
    variants: Mapping[str, Measurement] = field(default_factory=dict)
    # further keys of the number besides item, data set, metric and method
    also: Mapping[str, Any] = field(default_factory=dict)
    judged_in: str = ""  # item in which the measurement of a repeat is judged

    @property
    def target(self) -> float:
        """Return the published number to compare with: over the same tables if that is known."""
        if self.measured is not None and np.isfinite(self.measured.comparable):
            return self.measured.comparable
        return float(self.published["value"])

    @property
    def difference(self) -> float:
        """Return the measured number less the published one."""
        return float("nan") if self.measured is None else self.measured.mean - self.target


def cells_of(
    paper: Paper,
    published: pd.DataFrame,
    measured: pd.DataFrame,
    missing: Mapping[int, str] | None = None,
    stored: Mapping[int, Mapping[str, Measurement]] | None = None,
) -> list[Cell]:
    """Return a cell for each row of ``published``, in its order.

    Within an item a metric is printed to equally many decimals, however few some cells need.
    ``missing`` is label of a row → reason why it cannot be run here, ``stored`` label → variant →
    measurement of earlier runs, used where ``measured`` has none.
    """
    keys = [name for name in published if name not in ABOUT | paper.about]
    joined: dict[str, Joined] = {item: s.joined for s in paper.studies for item in s.items}
    measurements = {
        key: dict(_by_variant(rows, joined.get(str(rows["item"].iloc[0]), "mean")))
        for key, rows in _grouped(measured, keys).items()
    }
    published_keys = {_key(row, keys) for _, row in published.iterrows()}
    if unknown := [
        key for key, by in measurements.items() if key not in published_keys and "" in by
    ]:
        raise ValueError(
            f"{paper.name}/published.csv has no number of"
            f" {dict(zip(keys, unknown[0], strict=True))} ({len(unknown)} such)"
        )
    digits = published.groupby([published.item, published.metric.fillna("")]).decimals.transform(
        "max"
    )
    cells = []
    for label, row in published.iterrows():
        variants = {**(stored or {}).get(label, {}), **measurements.get(_key(row, keys), {})}  # type: ignore[call-overload]
        cell = Cell(
            dict(row),
            variants.pop("", None),
            "not run",
            float("nan"),
            int(digits[label]),
            variants=variants,
            also={n: row[n] for n in keys if n not in _IDENTITY and not pd.isna(row[n])},
        )
        cell = judge(cell, paper)
        if cell.verdict == "not run" and label in (missing or {}):
            cell = replace(cell, verdict="not runnable here")
        cells.append(cell)
    return _mark_repeats(_mark_different_parents(cells, paper, keys), paper)


def judge(cell: Cell, paper: Paper) -> Cell:
    """Return the cell with its verdict and tolerance, before parents are compared."""
    row, measured = cell.published, cell.measured
    if row.get("kind") == SETTING:
        return replace(cell, verdict="a setting")
    if np.isnan(float(row["value"])):
        return replace(cell, verdict="lost in the text")
    if measured is None:
        return cell
    metric, value = str(row["metric"]), cell.target
    study = paper.study_of(str(row["item"]))
    rounding = 0.5 * 10.0**-cell.digits
    effect = abs(value - paper.no_effect.get(metric, 0.0))
    # Numbers with few digits match only what rounds to them: an interval on top of so coarse a
    # rounding would let nearly everything through.
    bound = "at most" if metric in paper.bounds else str(row.get("said"))
    weak = bound in _BOUNDS or (cell.digits == 0 and rounding > WEAK * effect)
    cell = replace(cell, weak=weak)
    if bound in _BOUNDS:
        return replace(cell, verdict="match" if _BOUNDS[bound](measured.mean, value) else "differs")
    exact = study is not None and study.deterministic
    interval = 0.0 if weak or exact else interval_of(measured, row, study)
    # A difference of rounded numbers is exact up to rounding in binary.
    apart = abs(round(measured.mean, cell.digits) - round(value, cell.digits))
    apart_is_rounding = apart <= 1e-9 * max(1.0, abs(value))
    if np.isnan(interval):
        return replace(cell, verdict="one run")
    reading = paper.reading.get(str(row["item"]), 0.0) if row.get("kind") == "figure" else 0.0
    tolerance = max(interval, reading + (rounding if not (weak or exact) else 0.0))
    cell = replace(cell, tolerance=tolerance)
    if weak or exact:
        return replace(
            cell, verdict="match" if apart_is_rounding else _side(measured.mean, value, paper, row)
        )
    if abs(measured.mean - value) > tolerance * (1 + 1e-9):
        return replace(cell, verdict=_side(measured.mean, value, paper, row))
    # The effect of a number that is printed as none is unknown, but no smaller than its rounding.
    too_wide = interval > MOST_OF_EFFECT * max(effect, 2 * rounding)
    opposite = round(measured.mean, cell.digits) * round(value, cell.digits) < 0
    return replace(cell, verdict="inconclusive" if too_wide or opposite else "match")


def interval_of(measured: Measurement, row: Mapping[str, Any], study: Any = None) -> float:
    """Return the half width of the 95 % interval of the difference; NaN where no spread is known.

    A published deviation is that of one repetition, its mean is over ``study.repeats`` of them.
    Without one, the published number is taken to be as noisy as one measured repetition over as
    many repetitions. With one run, the published deviation stands for the measured one, with the
    degrees of freedom of the paper.
    """
    repeats = study.repeats if study else 1
    spread = float(row.get("spread", np.nan))
    is_se = row.get("spread_is") == "se"
    printed_sd = spread * np.sqrt(repeats) if is_se else spread
    if np.isinf(measured.sd):
        return float("inf")
    if not (np.isfinite(measured.sd) or np.isfinite(printed_sd)):
        return float("nan")
    own_sd = measured.sd if np.isfinite(measured.sd) else printed_sd
    published_sd = printed_sd if np.isfinite(printed_sd) else own_sd
    factor = _OF_MEDIAN**2 if study and study.joined == "median" else 1.0
    own_variance = factor * own_sd**2 / measured.n
    published_variance = factor * published_sd**2 / repeats
    total = own_variance + published_variance
    if total == 0:
        return 0.0
    # Welch and Satterthwaite, with the samples whose deviations were estimated apart. A deviation
    # that stands for the other sample's has the degrees of freedom of its own sample alone.
    if np.isfinite(measured.sd) and np.isfinite(printed_sd) and repeats > 1:
        df = total**2 / (own_variance**2 / (measured.n - 1) + published_variance**2 / (repeats - 1))
    else:
        df = measured.n - 1 if np.isfinite(measured.sd) else max(repeats - 1, 1)
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, df) * np.sqrt(total))


def _side(measured: float, published: float, paper: Paper, row: Mapping[str, Any]) -> Verdict:
    better = paper.better.get(str(row["metric"]))
    if better is None or row.get("method") in paper.no_better:
        return "differs"
    return "better" if _is_better(measured, published, better, row) else "differs"


def _is_better(measured: float, published: float, better: Better, row: Mapping[str, Any]) -> bool:
    if better == "lower":
        return measured < published
    if better == "higher":
        return measured > published
    ideal = better(row) if callable(better) else float(better)
    return abs(measured - ideal) < abs(published - ideal)


def _mark_different_parents(cells: list[Cell], paper: Paper, keys: Sequence[str]) -> list[Cell]:
    """Return the cells, with "different parent" where a parent or the parent of a method differs.

    A parent is in the same column as the methods on it: the same number of another method.
    """
    others = [name for name in keys if name != "method"]
    beyond = ("better", "differs")
    parents = set(paper.parents.values())
    different = {
        (_key(cell.published, others), str(cell.published["method"]))
        for cell in cells
        if cell.published.get("method") in parents
        and cell.verdict in beyond
        and cell.published["metric"] not in paper.bounds
    }
    marked = []
    for cell in cells:
        method = str(cell.published.get("method"))
        column = _key(cell.published, others)
        if cell.verdict in beyond and (
            (column, method) in different or (column, paper.parents.get(method)) in different
        ):
            cell = replace(cell, verdict="different parent")
        marked.append(cell)
    return marked


def _mark_repeats(cells: Sequence[Cell], paper: Paper) -> list[Cell]:
    """Return the cells, with "a repeat" where the measurement is judged in an earlier cell."""
    if paper.measurement is None:
        return list(cells)
    judged: dict[Hashable, str] = {}
    marked = []
    for cell in cells:
        if cell.measured is not None and cell.verdict not in NOT_RUNNABLE:
            key, item = paper.measurement(cell.published), str(cell.published["item"])
            if key in judged:
                cell = replace(cell, verdict="a repeat", weak=False, judged_in=judged[key])
            else:
                judged[key] = item
        marked.append(cell)
    return marked


def _grouped(measured: pd.DataFrame, keys: Sequence[str]) -> dict[tuple[str, ...], pd.DataFrame]:
    if measured.empty:
        return {}
    whole = measured.reindex(columns=[*keys, "seed", "value", "variant", "comparable"])
    labels = [_key(row, keys) for _, row in whole.iterrows()]
    return {labels[rows[0]]: whole.iloc[rows] for rows in _places(labels)}


def _places(labels: Sequence[tuple[str, ...]]) -> Iterable[list[int]]:
    places: dict[tuple[str, ...], list[int]] = {}
    for i, label in enumerate(labels):
        places.setdefault(label, []).append(i)
    return places.values()


def _by_variant(rows: pd.DataFrame, joined: Joined) -> Iterable[tuple[str, Measurement]]:
    for variant, values in rows.groupby(rows.variant.fillna("")):
        yield str(variant), Measurement.from_rows(values, joined)


def _key(row: Any, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in keys)


def _text(value: Any) -> str:
    """Return one spelling of a key: "" for a missing one, one form of equal numbers."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value)
