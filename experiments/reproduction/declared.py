"""What a paper declares about its numbers: which studies make them, at which sizes, and which way
of each metric is better.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

Scale = Literal["smoke", "workstation", "paper"]
Joined = Literal["mean", "median", "jackknife"]
SCALES: tuple[Scale, ...] = ("smoke", "workstation", "paper")
"""Minutes, on simulations and small real data; hours on two cores; the sizes of the papers."""
Better = Literal["lower", "higher"] | float | Callable[[Mapping[str, object]], float]
"""Which way is better: down, up, or towards a number, which may depend on the published row (the
level of an interval).
"""


@dataclass(frozen=True)
class Size:
    """How a study is done at one scale.

    Attributes
    ----------
    runs : of each sweep the words after ``kdg run -m``.
    computed : name → a function of no arguments, for what is no run: it gives rows as
        ``Study.measured`` does. What it gave is kept in a file of that name; a change of what it
        computes needs another name.
    differs : what is not as in the paper, for the page; empty where nothing is.
    minutes : that it takes on two cores, as seen; None where nobody has seen it.
    """

    runs: Sequence[tuple[str, ...]] = ()
    computed: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    differs: str = ""
    minutes: float | None = None


@dataclass(frozen=True)
class Study:
    """What makes the numbers of one table, figure or section.

    Attributes
    ----------
    items : what it makes, as ``published.csv`` calls it.
    sizes : by scale; a scale that is not here is not offered.
    measured : a folder of its runs → a row for each number: the columns by which ``published.csv``
        tells its numbers apart, ``seed``, ``value``, and ``variant``, empty for the paper's own
        method, else the title of one of ours that stands in its place; and where the paper's number
        is over other tables, ``comparable``, its number over these. None where all is computed.
    repeats : over how many repetitions the paper averaged; 1 where it does not say.
    joined : how the paper joins these, and so how ours joins its seeds; "jackknife" for a statistic
        of many tables, see
        :meth:`~experiments.reproduction.verdicts.Measurement.from_rows`.
    deterministic : whether the numbers come from given data without any draw, so that they are
        right or wrong.
    archived : a folder of its runs → a row for each run with the numbers that ``measured`` is of,
        where these are of more than a seed, such as a statistic of many tables; with ``archive``,
        the file in a folder of runs that counts as the runs that it has. A page keeps it beside
        itself, so that tables and seeds add up and its numbers can be computed again.
    archive : see ``archived``.
    """

    items: tuple[str, ...]
    sizes: Mapping[Scale, Size]
    measured: Callable[[Path], pd.DataFrame] | None = None
    repeats: int = 1
    joined: Joined = "mean"
    deterministic: bool = False
    archived: Callable[[Path], pd.DataFrame] | None = None
    archive: Callable[[Path], Path] | None = None


@dataclass(frozen=True)
class Paper:
    """One paper.

    Attributes
    ----------
    name, title : "p5", and how it is cited.
    folder : where its ``published.csv`` lies, and ``reasons.csv`` if there is one.
    studies : that make its numbers.
    better : metric as published → which way is better; a metric that is not here has no better,
    only a match.
    about : columns of ``published.csv``, beside the usual ones, that tell of a number and not what
    it is of.
    items : the only ones that are asked for; None: all.
    parents : method as published → the method that is its parent, where that is published too.
    no_effect : metric as published → its value without any effect, 0 where it is not here: 50 of an
        AUROC in percent.
    bounds : metrics whose published value is an upper bound.
    no_better : methods of which no number is better, as the true model.
    reading : item → error of reading its values off a plot.
    measurement : published row → what identifies the measurement of ours that stands beside it,
        where a paper prints one number in several tables. The first of them is judged, and the
        others are repeats, which count for nothing. None: each row has a measurement of its own.
    """

    name: str
    title: str
    folder: Path
    studies: Sequence[Study]
    better: Mapping[str, Better] = field(default_factory=dict)
    about: frozenset[str] = frozenset()
    items: tuple[str, ...] | None = None
    parents: Mapping[str, str] = field(default_factory=dict)
    no_effect: Mapping[str, float] = field(default_factory=dict)
    bounds: frozenset[str] = frozenset()
    no_better: frozenset[str] = frozenset()
    reading: Mapping[str, float] = field(default_factory=dict)
    measurement: Callable[[Mapping[str, object]], Hashable] | None = None

    def study_of(self, item: str) -> Study | None:
        """The one that makes an item; None where none does."""
        return next((study for study in self.studies if item in study.items), None)
