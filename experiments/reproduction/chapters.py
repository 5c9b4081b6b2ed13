"""Contents of the page of published numbers: cells with verdicts by paper and item, their reasons,
the settings of the paper, and counts of verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from experiments.common.published import read_published
from experiments.reproduction.reasons import DIFFERS, MISSING, NOT_RUN, Reason, reasons_of
from experiments.reproduction.stored_page import StoredPage
from experiments.reproduction.studies import Paper, Scale
from experiments.reproduction.verdicts import NOT_JUDGED, NOT_RUNNABLE, REACHED, Cell, cells_of
from experiments.reproduction.work import Task


@dataclass(frozen=True)
class Count:
    """Number of cells of each verdict."""

    by_verdict: Mapping[str, int]

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Count:
        """Count cells."""
        return cls(Counter(cell.verdict for cell in cells))

    @property
    def cells(self) -> int:
        """Return the number of all cells."""
        return sum(self.by_verdict.values())

    @property
    def runnable(self) -> int:
        """Return the number of cells that can be run."""
        return sum(n for verdict, n in self.by_verdict.items() if verdict not in NOT_RUNNABLE)

    @property
    def reached(self) -> int:
        """Return the number of cells that match or are better."""
        return sum(self.by_verdict.get(verdict, 0) for verdict in REACHED)

    @property
    def judged(self) -> int:
        """Return the number of cells that ran with more than one seed, or need no other."""
        return sum(n for verdict, n in self.by_verdict.items() if verdict not in NOT_JUDGED)

    @property
    def share(self) -> float:
        """Return the reached share of the runnable cells; NaN without one."""
        return self.reached / self.runnable if self.runnable else float("nan")

    @property
    def share_of_judged(self) -> float:
        """Return the reached share of the judged cells; NaN without one."""
        return self.reached / self.judged if self.judged else float("nan")


@dataclass(frozen=True)
class Item:
    """One table, figure or section."""

    paper: str
    name: str
    about: str  # differences of the runs from the paper
    cells: Sequence[Cell]  # numbers that are no settings
    reasons: Sequence[str]  # of each cell, or ""
    settings: Sequence[Cell]  # how the paper's experiment was done
    variants: Sequence[str]  # titles of methods that the paper does not have

    @property
    def anchor(self) -> str:
        """Return the fragment of a link to it."""
        title = f"{self.paper} {self.name}".lower()
        return "-".join("".join(c if c.isalnum() else " " for c in title).split())

    @property
    def page(self) -> int | None:
        """Return the page of the paper of its first number, or None."""
        page = float([*self.cells, *self.settings][0].published.get("page", np.nan))
        return None if np.isnan(page) else int(page)

    @property
    def count(self) -> Count:
        """Return the number of its cells of each verdict."""
        return Count.of([*self.cells, *self.settings])

    @property
    def stored(self) -> Mapping[str, int]:
        """Return how many measurements, variants too, are of earlier runs, by their origin."""
        measured = (m for cell in self.cells for m in (cell.measured, *cell.variants.values()))
        return Counter(each.made for each in measured if each is not None and each.made)

    @property
    def is_absent(self) -> bool:
        """Return whether none of its cells can be run."""
        return not self.count.runnable

    @property
    def rows(self) -> Sequence[tuple[Cell, str]]:
        """Return the cells with a row and their reasons: all, or variants if none runs."""
        rows = list(zip(self.cells, self.reasons, strict=True))
        return [row for row in rows if row[0].variants] if self.is_absent else rows

    @property
    def without_row(self) -> Sequence[Cell]:
        """Return the other cells."""
        return [cell for cell in self.cells if not cell.variants] if self.is_absent else []

    @cached_property
    def notes(self) -> Mapping[str, str]:
        """Return each reason and its number, in the order of the cells."""
        reasons = dict.fromkeys(filter(None, self.reasons))
        return {reason: str(i) for i, reason in enumerate(reasons, start=1)}


@dataclass(frozen=True)
class Chapter:
    """A paper with its items, and the new measurements by seed."""

    paper: Paper
    items: Sequence[Item]
    measured: pd.DataFrame

    @property
    def cells(self) -> list[Cell]:
        """Return the cells of all items."""
        return [cell for item in self.items for cell in (*item.cells, *item.settings)]

    @property
    def count(self) -> Count:
        """Return the number of its cells of each verdict."""
        return Count.of(self.cells)


def chapter(paper: Paper, tasks: Sequence[Task], scale: Scale, stored: StoredPage) -> Chapter:
    """Return the chapter of a paper, of its tasks' measurements, and stored ones."""
    published, reasons = read_published(paper.folder), reasons_of(paper.folder)
    if paper.items is not None:
        published = published[published.item.isin(paper.items)]
    frames = [frame for task in tasks if len(frame := task.measured())]
    measured = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if len(measured):
        measured = measured[measured.item.isin(set(published.item))]
    missing = {
        label: reason
        for label, row in published.iterrows()
        if (reason := _reason(reasons, MISSING, dict(row)))
    }
    cells = cells_of(paper, published, measured, missing, stored.measurements(paper, published))
    items = [_item(paper, name, cells, reasons, scale) for name in dict.fromkeys(published.item)]
    return Chapter(paper, items, measured)


def _item(
    paper: Paper, name: str, cells: Sequence[Cell], reasons: Sequence[Reason], scale: Scale
) -> Item:
    own = [cell for cell in cells if cell.published["item"] == name]
    numbers = [cell for cell in own if cell.verdict != "a setting"]
    settings = [cell for cell in own if cell.verdict == "a setting"]
    study, about = paper.study_of(name), ""
    size = study.sizes.get(scale) if study else None
    if size is None:
        about = f"Not made at scale {scale}."
    elif size.differs:
        about = f"At scale {scale}: {size.differs}."
    why = ["" if c.verdict == "match" else _reason(reasons, _kind(c), c.published) for c in numbers]
    variants = list(dict.fromkeys(title for cell in numbers for title in cell.variants))
    return Item(paper.name, name, about if numbers else "", numbers, why, settings, variants)


def _kind(cell: Cell) -> str:
    if cell.verdict in NOT_RUNNABLE:
        return MISSING
    return NOT_RUN if cell.verdict == "not run" else DIFFERS


def _reason(reasons: Iterable[Reason], kind: str, published: Mapping[str, object]) -> str:
    return " ".join(
        f"{each.reason} ({each.shown_by})" if each.shown_by else each.reason
        for each in reasons
        if each.kind == kind and each.applies_to(published)
    )
