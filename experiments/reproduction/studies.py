"""Declarations of a paper: its studies, their sizes, and which direction of a metric is better."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

Scale = Literal["smoke", "workstation", "paper"]
Joined = Literal["mean", "median", "jackknife"]
# Minutes, on simulations and small real data; hours on two cores; the sizes of the papers.
SCALES: tuple[Scale, ...] = ("smoke", "workstation", "paper")
# The better direction, or the ideal number, which may depend on the published row (the level of an
# interval).
Better = Literal["lower", "higher"] | float | Callable[[Mapping[str, object]], float]


@dataclass(frozen=True)
class Size:
    """Sweeps and computations of a study at one scale."""

    runs: Sequence[tuple[str, ...]] = ()  # words after ``kdg run -m``, for each sweep
    # rows as of ``Study.measured``, stored in a file of the name
    computed: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    differs: str = ""  # from the paper, for the page
    minutes: float | None = None  # measured on two cores


@dataclass(frozen=True)
class Study:
    """Source of the numbers of tables, figures or sections.

    ``measured`` returns of a folder of runs a row for each number: the columns that identify a
    published number, ``seed``, ``value``, and ``variant``: empty for the paper's own method, else
    the title of a method of this project in its place. ``comparable`` is the published number over
    the tables that ran, where the paper's own is over more. ``archived`` returns a row for each run
    with the numbers behind ``measured``, if these are statistics of many runs, and ``archive`` the
    file that counts as the runs in it: a page stores it beside itself, so that its numbers can be
    computed again.
    """

    items: tuple[str, ...]  # by their names in ``published.csv``
    sizes: Mapping[Scale, Size]  # of each scale that is offered
    measured: Callable[[Path], pd.DataFrame] | None = None  # None if all numbers are computed
    repeats: int = 1  # that the paper averages; 1 if it does not state their number
    joined: Joined = "mean"  # how the paper joins repetitions, and the page seeds
    deterministic: bool = False  # numbers follow from given data without a random draw
    archived: Callable[[Path], pd.DataFrame] | None = None
    archive: Callable[[Path], Path] | None = None


@dataclass(frozen=True)
class Paper:
    """A paper, its studies, and how its numbers are judged."""

    name: str
    title: str  # the citation
    folder: Path  # of ``published.csv``, ``claims.csv`` and ``reasons.csv``
    studies: Sequence[Study]
    # published metric → better direction; a metric without one can only match
    better: Mapping[str, Better] = field(default_factory=dict)
    # columns of ``published.csv`` that do not identify a number
    about: frozenset[str] = frozenset()
    items: tuple[str, ...] | None = None  # chosen items; None for all
    # published method → method that is its parent, if that is published too
    parents: Mapping[str, str] = field(default_factory=dict)
    # metric → its value without effect, 0 by default: 50 for an AUROC in percent
    no_effect: Mapping[str, float] = field(default_factory=dict)
    bounds: frozenset[str] = frozenset()  # metrics whose published value is an upper bound
    # methods of which no number is better, such as the true model
    no_better: frozenset[str] = frozenset()
    # item → error of reading its values off a plot
    reading: Mapping[str, float] = field(default_factory=dict)
    # identity of a number printed in several tables: the first is judged
    measurement: Callable[[Mapping[str, object]], Hashable] | None = None

    def study_of(self, item: str) -> Study | None:
        """Return the study that makes an item, or None."""
        return next((study for study in self.studies if item in study.items), None)
