"""Declarations of a paper: its studies, their sizes, and which direction of a metric is better."""

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
"""The better direction, or the ideal number, which may depend on the published row (the level of an
interval).
"""


@dataclass(frozen=True)
class Size:
    """Sweeps and computations of a study at one scale.

    Attributes ---------- runs : sequence of tuple of str Words after ``kdg run -m``, for each
    sweep. computed : mapping Name → function without arguments, for numbers without a run, in the
    rows of ``Study.measured``. The result is stored in a file of that name, so another computation
    needs another name. differs : str Differences from the paper, for the page. minutes : float or
    None Measured time on two cores.
    """

    runs: Sequence[tuple[str, ...]] = ()
    computed: Mapping[str, Callable[[], pd.DataFrame]] = field(default_factory=dict)
    differs: str = ""
    minutes: float | None = None


@dataclass(frozen=True)
class Study:
    """Source of the numbers of tables, figures or sections.

    Attributes ---------- items : tuple of str Tables, figures and sections, by their names in
    ``published.csv``. sizes : mapping Size of each scale that is offered. measured : callable or
    None Folder of runs → a row for each number: the columns that identify a published number,
    ``seed``, ``value``, and ``variant``: empty for the paper's own method, else the title of a
    method of this project in its place. ``comparable`` is the published number over the tables that
    ran, where the paper's own is over more. None if all numbers are computed. repeats : int
    Repetitions that the paper averages; 1 if it does not state their number. joined : str How the
    paper joins repetitions, and the page seeds; "jackknife" for a statistic of many tables, see
    :meth:`~experiments.reproduction.verdicts.Measurement.from_rows`. deterministic : bool Whether
    the numbers follow from given data without a random draw. archived, archive : callable or None
    Folder of runs → a row for each run with the numbers behind ``measured``, if these are
    statistics of many runs; and → the file that counts as the runs in it. A page stores the file
    beside itself, so that its numbers can be computed again.
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
    """A paper, its studies, and how its numbers are judged.

    Attributes
    ----------
    name, title : str
        "p5", and the citation.
    folder : Path
        Folder of ``published.csv``, ``claims.csv`` and ``reasons.csv``.
    studies : sequence of Study
        Sources of its numbers.
    better : mapping
        Published metric → better direction. A metric without one can only match.
    about : frozenset of str
        Further columns of ``published.csv`` that do not identify a number.
    items : tuple of str or None
        Chosen items; None for all.
    parents : mapping
        Published method → method that is its parent, if that is published too.
    no_effect : mapping
        Published metric → its value without any effect, 0 by default: 50 for an AUROC in percent.
    bounds : frozenset of str
        Metrics whose published value is an upper bound.
    no_better : frozenset of str
        Methods of which no number is better, such as the true model.
    reading : mapping
        Item → error of reading its values off a plot.
    measurement : callable or None
        Published row → identity of the measurement in its place, if the paper prints one number in
        several tables. The first of them is judged, the others are repeats.
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
        """Return the study that makes an item, or None."""
        return next((study for study in self.studies if item in study.items), None)
