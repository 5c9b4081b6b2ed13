"""Each published number beside ours: the difference, how sure it is, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from experiments.common.published import ABOUT
from experiments.reproduction.declared import Better, Joined, Paper

Verdict = Literal[
    "match",
    "better",
    "differs, same ranking",
    "differs",
    "one run",
    "not run",
    "not runnable here",
    "lost in the text",
    "a setting",
]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
REACHED = ("match", "better")
NOT_ASKED = ("not runnable here", "lost in the text", "a setting")
"""What no run of ours could answer."""
STANDARD_ERRORS = 2.0
"""So far apart are numbers that differ."""
_USUAL = frozenset({"item", "dataset", "metric", "method"})
SETTING = "setting"
"""Kind of a number that says how something was done, not what was found."""


@dataclass(frozen=True)
class Found:
    """What runs of ours have in the place of a published number.

    Attributes
    ----------
    mean, sd, n : its mean and deviation over ``n`` seeds; or its median, as published.
    made : when, where and by which commit; empty where that is now.
    """

    mean: float
    sd: float
    n: int
    made: str = ""

    @classmethod
    def of(cls, values: Sequence[float], joined: Joined = "mean") -> Found:
        """Of one value for each seed; the deviation of one is NaN."""
        middle = np.median if joined == "median" else np.mean
        return cls(
            float(middle(values)),
            float(np.std(values, ddof=1)) if len(values) > 1 else float("nan"),
            len(values),
        )


@dataclass(frozen=True)
class Cell:
    """One published number, and ours.

    Attributes
    ----------
    published : its row of ``published.csv``.
    ours : None where there is none.
    verdict : see :data:`VERDICTS`.
    tolerance : how far apart both may be and match; NaN where there is nothing to compare.
    digits : decimals that the paper prints in such cells.
    variants : title → what a method of ours has that stands in the place of the paper's.
    also : what else tells it apart, beside item, data set, metric and method: "radius" → 5.
    """

    published: Mapping[str, Any]
    ours: Found | None
    verdict: Verdict
    tolerance: float
    digits: int
    variants: Mapping[str, Found] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def difference(self) -> float:
        """Ours less the published one."""
        return (
            float("nan") if self.ours is None else self.ours.mean - float(self.published["value"])
        )


def cells_of(
    paper: Paper,
    published: pd.DataFrame,
    measured: pd.DataFrame,
    missing: Mapping[int, str] | None = None,
    kept: Mapping[int, Mapping[str, Found]] | None = None,
) -> list[Cell]:
    """A cell for each row of ``published``, in its order.

    Parameters
    ----------
    paper : whose numbers they are.
    published : rows of its ``published.csv``. In one item a metric is printed to equally many
    decimals, however few some cells need.
    measured : what runs found, of all its studies; see
    :class:`~experiments.reproduction.declared.Study`.
    missing : label of a row → what would have to be fetched to run it.
    kept : label of a row → variant → what earlier runs found, which stands where ``measured`` has
        nothing.

    Raises
    ------
    ValueError
        A measured number has a key that no published number has: a name is spelt in two ways.
    """
    keys = [name for name in published if name not in ABOUT | paper.about]
    joined: dict[str, Joined] = {
        item: study.joined for study in paper.studies for item in study.items
    }
    of = {
        key: dict(_by_variant(rows, joined.get(str(rows["item"].iloc[0]), "mean")))
        for key, rows in _grouped(measured, keys).items()
    }
    known = {_key(row, keys) for _, row in published.iterrows()}
    if strange := [key for key, variants in of.items() if key not in known and "" in variants]:
        raise ValueError(
            f"{paper.name}/published.csv has no number of"
            f" {dict(zip(keys, strange[0], strict=True))} ({len(strange)} such)"
        )
    digits = published.groupby([published.item, published.metric.fillna("")]).decimals.transform(
        "max"
    )
    found = []
    for label, row in published.iterrows():
        variants = {**(kept or {}).get(label, {}), **of.get(_key(row, keys), {})}  # type: ignore[call-overload]
        said, ours = dict(row), variants.pop("", None)
        study = paper.study_of(str(row["item"]))
        verdict, tolerance = _judged(
            said,
            ours,
            int(digits[label]),
            paper.better.get(str(row["metric"])),
            study.repeats if study else 1,
        )
        if verdict == "not run" and label in (missing or {}):
            verdict = "not runnable here"
        also = {name: row[name] for name in keys if name not in _USUAL and not pd.isna(row[name])}
        found.append(Cell(said, ours, verdict, tolerance, int(digits[label]), variants, also))
    return _ranked(found, keys)


def tolerance_of(ours: Found, spread: float, spread_is: str, repeats: int) -> float:
    """2 √(se² + se'²): se of our mean, se' of the published one.

    A published deviation is that of one repetition, and its mean is over ``repeats`` of them; where
    none is published, ours takes its place, and where we have one run, the published one takes that
    of ours.
    """
    own = ours.sd if np.isfinite(ours.sd) else spread * np.sqrt(repeats if spread_is == "se" else 1)
    theirs = (
        spread
        if spread_is == "se"
        else (spread if np.isfinite(spread) else ours.sd) / np.sqrt(repeats)
    )
    return float(
        STANDARD_ERRORS * np.sqrt(np.nan_to_num(own) ** 2 / ours.n + np.nan_to_num(theirs) ** 2)
    )


def _judged(
    said: Mapping[str, Any], ours: Found | None, digits: int, better: Better | None, repeats: int
) -> tuple[Verdict, float]:
    value = float(said["value"])
    if said.get("kind") == SETTING:
        return "a setting", float("nan")
    if np.isnan(value):
        return "lost in the text", float("nan")
    if ours is None:
        return "not run", float("nan")
    spread_is = said.get("spread_is")
    tolerance = tolerance_of(
        ours,
        float(said.get("spread", np.nan)),
        spread_is if isinstance(spread_is, str) else "",
        repeats,
    )
    rounded = round(ours.mean, digits)
    if rounded != value and ours.n == 1 and np.isnan(float(said.get("spread", np.nan))):
        return "one run", float("nan")  # of which nobody knows how far another one would be
    if abs(rounded - value) <= tolerance + 1e-12 * abs(value):
        return "match", tolerance
    return (
        "better" if better is not None and _is_better(rounded, value, better, said) else "differs"
    ), tolerance


def _is_better(ours: float, theirs: float, better: Better, said: Mapping[str, Any]) -> bool:
    if better == "lower":
        return ours < theirs
    if better == "higher":
        return ours > theirs
    ideal = better(said) if callable(better) else float(better)
    return abs(ours - ideal) < abs(theirs - ideal)


def _ranked(cells: list[Cell], keys: Sequence[str]) -> list[Cell]:
    """Where a method differs, and has the same rank among the methods of its column here as it has
    there.
    """
    columns: dict[tuple[str, ...], list[Cell]] = {}
    others = [name for name in keys if name != "method"]
    for cell in cells:
        if cell.ours is not None and not np.isnan(float(cell.published["value"])):
            columns.setdefault(_key(cell.published, others), []).append(cell)
    same = set()
    for column in columns.values():
        theirs, ours = (
            [float(of(cell)) for cell in column]
            for of in (lambda c: c.published["value"], lambda c: c.ours.mean)
        )
        same |= {
            id(c)
            for c, a, b in zip(column, _ranks(theirs), _ranks(ours), strict=True)
            if len(column) > 1 and a == b
        }
    return [
        (
            replace(c, verdict="differs, same ranking")
            if c.verdict == "differs" and id(c) in same
            else c
        )
        for c in cells
    ]


def _ranks(values: Sequence[float]) -> list[int]:
    return [sum(other < value for other in values) for value in values]


def _grouped(measured: pd.DataFrame, keys: Sequence[str]) -> dict[tuple[str, ...], pd.DataFrame]:
    if measured.empty:
        return {}
    whole = measured.reindex(columns=[*keys, "seed", "value", "variant"])
    labels = [_key(row, keys) for _, row in whole.iterrows()]
    return {labels[rows[0]]: whole.iloc[rows] for rows in _places(labels)}


def _places(labels: Sequence[tuple[str, ...]]) -> Iterable[list[int]]:
    places: dict[tuple[str, ...], list[int]] = {}
    for i, label in enumerate(labels):
        places.setdefault(label, []).append(i)
    return places.values()


def _by_variant(rows: pd.DataFrame, joined: Joined) -> Iterable[tuple[str, Found]]:
    for variant, of in rows.groupby(rows.variant.fillna("")):
        yield str(variant), Found.of(of.value.astype(float).tolist(), joined)


def _key(row: Any, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(_text(row[name]) for name in keys)


def _text(value: Any) -> str:
    """A missing key is none; numbers are alike however they are written."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return f"{value:g}" if isinstance(value, (int, float, np.number)) else str(value)
