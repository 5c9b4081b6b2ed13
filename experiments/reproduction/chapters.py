"""What the page of published numbers shows, by paper and table: cells with verdicts, reasons,
settings, and how many were reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from experiments.common.published import read_published
from experiments.reproduction.declared import Paper, Scale
from experiments.reproduction.kept import Kept
from experiments.reproduction.reasons import DIFFERS, MISSING, NOT_RUN, Reason, reasons_of
from experiments.reproduction.verdicts import NOT_ASKED, NOT_JUDGED, REACHED, Cell, cells_of
from experiments.reproduction.work import Task


@dataclass(frozen=True)
class Count:
    """Cells by verdict.

    Attributes
    ----------
    of : verdict → how many.
    """

    of: Mapping[str, int]

    @property
    def cells(self) -> int:
        """All of them."""
        return sum(self.of.values())

    @property
    def asked(self) -> int:
        """Those that can be run."""
        return sum(n for verdict, n in self.of.items() if verdict not in NOT_ASKED)

    @property
    def reached(self) -> int:
        """Of those, what matches or is bettered."""
        return sum(self.of.get(verdict, 0) for verdict in REACHED)

    @property
    def judged(self) -> int:
        """Of those that can be run, what has run with more than one seed, or needs no other."""
        return sum(n for verdict, n in self.of.items() if verdict not in NOT_JUDGED)

    @property
    def share(self) -> float:
        """Reached of those that can be run; NaN of none."""
        return self.reached / self.asked if self.asked else float("nan")

    @property
    def share_of_judged(self) -> float:
        """Reached of those that are judged; NaN of none."""
        return self.reached / self.judged if self.judged else float("nan")


def count(cells: Iterable[Cell]) -> Count:
    """Of cells."""
    return Count(Counter(cell.verdict for cell in cells))


@dataclass(frozen=True)
class Item:
    """One table, figure or section.

    Attributes
    ----------
    of, called : "p5", "Table 1"; ``about``: how it was done here, and what is not as in the paper.
    cells : its numbers but for settings; ``reasons``: a sentence for each, or an empty one.
    settings : numbers that say how it was done in the paper.
    variants : titles of methods of ours that stand beside.
    """

    of: str
    called: str
    about: str
    cells: Sequence[Cell]
    reasons: Sequence[str]
    settings: Sequence[Cell]
    variants: Sequence[str]

    @property
    def anchor(self) -> str:
        """What a link to it has after the #."""
        return "-".join(
            "".join(c if c.isalnum() else " " for c in f"{self.of} {self.called}".lower()).split()
        )

    @property
    def page(self) -> int | None:
        """Of the paper, where its first number is printed; None where the paper has no pages."""
        page = float([*self.cells, *self.settings][0].published.get("page", np.nan))
        return None if np.isnan(page) else int(page)

    @property
    def count(self) -> Count:
        """Its cells by verdict."""
        return count([*self.cells, *self.settings])

    @property
    def kept(self) -> Mapping[str, int]:
        """When, where and by which commit numbers of ours were made that are not of now, variants
        too → how many.
        """
        found = [
            one
            for cell in self.cells
            for one in (cell.ours, *cell.variants.values())
            if one is not None and one.made
        ]
        return Counter(one.made for one in found)

    @property
    def is_absent(self) -> bool:
        """Whether none of its cells can be run."""
        return not self.count.asked

    @property
    def rows(self) -> Sequence[tuple[Cell, str]]:
        """Cells that have a line of their own, with their reasons: all; where none can be run,
        those with something of ours beside.
        """
        told = list(zip(self.cells, self.reasons, strict=True))
        return (
            [(cell, reason) for cell, reason in told if cell.variants] if self.is_absent else told
        )

    @property
    def untold(self) -> Sequence[Cell]:
        """Its other cells."""
        return [cell for cell in self.cells if not cell.variants] if self.is_absent else []

    @cached_property
    def notes(self) -> Mapping[str, str]:
        """Each reason once → its number, in the order of the cells."""
        return {
            reason: str(i)
            for i, reason in enumerate(dict.fromkeys(filter(None, self.reasons)), start=1)
        }


@dataclass(frozen=True)
class Chapter:
    """One paper: its items, and the measurements by seed that its numbers are of."""

    paper: Paper
    items: Sequence[Item]
    measured: pd.DataFrame

    @property
    def cells(self) -> list[Cell]:
        """Of all items."""
        return [cell for item in self.items for cell in (*item.cells, *item.settings)]

    @property
    def count(self) -> Count:
        """Its cells by verdict."""
        return count(self.cells)


def chapter(paper: Paper, tasks: Sequence[Task], scale: Scale, kept: Kept) -> Chapter:
    """One paper, of what the runs of its tasks found, and of what is kept where they found
    nothing.
    """
    published, reasons = read_published(paper.folder), reasons_of(paper.folder)
    if paper.items is not None:
        published = published[published.item.isin(paper.items)]
    frames = [frame for task in tasks if len(frame := task.measured())]
    measured = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if len(measured):
        measured = measured[measured.item.isin(set(published.item))]
    missing = {
        label: said
        for label, row in published.iterrows()
        if (said := _said(reasons, MISSING, dict(row)))
    }
    cells = cells_of(paper, published, measured, missing, kept.found(paper, published))
    items = [_item(paper, name, cells, reasons, scale) for name in dict.fromkeys(published.item)]
    return Chapter(paper, items, measured)


def _item(
    paper: Paper, name: str, cells: Sequence[Cell], reasons: Sequence[Reason], scale: Scale
) -> Item:
    own = [cell for cell in cells if cell.published["item"] == name]
    mine, settings = (
        [cell for cell in own if (cell.verdict == "a setting") == wanted]
        for wanted in (False, True)
    )
    study = paper.study_of(name)
    size = study.sizes.get(scale) if study else None
    about = (
        f"Not made at scale {scale}."
        if size is None
        else f"At scale {scale}: {size.differs}."
        if size.differs
        else ""
    )
    told = [
        "" if cell.verdict == "match" else _said(reasons, _kind(cell), cell.published)
        for cell in mine
    ]
    variants = list(dict.fromkeys(title for cell in mine for title in cell.variants))
    return Item(paper.name, name, about if mine else "", mine, told, settings, variants)


def _kind(cell: Cell) -> str:
    return (
        MISSING if cell.verdict in NOT_ASKED else NOT_RUN if cell.verdict == "not run" else DIFFERS
    )


def _said(reasons: Iterable[Reason], kind: str, published: Mapping[str, object]) -> str:
    return " ".join(
        f"{each.reason} ({each.shown_by})" if each.shown_by else each.reason
        for each in reasons
        if each.kind == kind and each.is_of(published)
    )
