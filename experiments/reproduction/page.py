"""The page: every published number beside ours with a verdict, as HTML that needs no other file, as Markdown, and as a CSV of its cells."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
from jinja2 import Environment

from experiments.common.markdown import head, line
from experiments.common.published import read_published
from experiments.reproduction.declared import Paper, Scale
from experiments.reproduction.reasons import DIFFERS, MISSING, Reason, reasons_of
from experiments.reproduction.verdicts import NOT_ASKED, REACHED, VERDICTS, Cell, Found, cells_of
from experiments.reproduction.work import Task
from kdgraph.runner.files import write_atomically
from kdgraph.runner.provenance import git

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Item:
    """One table, figure or section.

    Attributes
    ----------
    called : "Table 1"; ``about``: how it was done here, and what is not as in the paper.
    cells : its numbers but for settings; ``reasons``: a sentence for each, or an empty one.
    settings : numbers that say how it was done in the paper.
    variants : titles of methods of ours that stand beside.
    """

    called: str
    about: str
    cells: Sequence[Cell]
    reasons: Sequence[str]
    settings: Sequence[Cell]
    variants: Sequence[str]

    @property
    def page(self) -> int | None:
        """Of the paper, where its first number is printed; None where the paper has no pages."""
        page = float([*self.cells, *self.settings][0].published.get("page", np.nan))
        return None if np.isnan(page) else int(page)


@dataclass(frozen=True)
class Chapter:
    """One paper: its items, and how many cells have which verdict."""

    paper: Paper
    items: Sequence[Item]

    @property
    def cells(self) -> list[Cell]:
        """Of all items."""
        return [cell for item in self.items for cell in (*item.cells, *item.settings)]

    @property
    def counts(self) -> Mapping[str, int]:
        """By verdict."""
        return Counter(cell.verdict for cell in self.cells)

    @property
    def asked(self) -> int:
        """Cells that can be run."""
        return sum(cell.verdict not in NOT_ASKED for cell in self.cells)

    @property
    def share(self) -> float:
        """Of those, what matches or is bettered; NaN of none."""
        return sum(self.counts[name] for name in REACHED) / self.asked if self.asked else float("nan")


def write(papers: Sequence[Paper], tasks: Sequence[Task], scale: Scale, out: Path, command: str) -> str:
    """Write ``page.html``, ``page.md`` and ``cells.csv`` into ``out``; returns what to tell."""
    chapters = [_chapter(paper, [task for task in tasks if task.paper is paper], scale) for paper in papers]
    about = _about(scale, command)
    out.mkdir(parents=True, exist_ok=True)
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string((HERE / "page.html.j2").read_text())
    style = (HERE / "page.css").read_text()
    html = template.render(
        chapters=chapters, about=about, verdicts=VERDICTS, style=style, number=_number, found=_found, place=_place, settings=_settings
    )
    write_atomically(out / "page.html", html.encode())
    write_atomically(out / "page.md", markdown(chapters, about).encode())
    _table(chapters).to_csv(out / "cells.csv", index=False)
    return "\n".join([*_summary(chapters), "", f"{out / 'page.html'}, page.md and cells.csv beside it"])


def markdown(chapters: Sequence[Chapter], about: Sequence[str]) -> str:
    """The page without its style."""
    parts = ["# Every published number, and ours", "\n".join(f"{said}  " for said in about), "\n".join(_summary(chapters))]
    for chapter in chapters:
        parts.append(f"## {chapter.paper.name}: {chapter.paper.title}")
        for item in chapter.items:
            parts += [f"### {item.called}", item.about, "\n".join(_lines(item)) if item.cells else "", _settings(item)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _chapter(paper: Paper, tasks: Sequence[Task], scale: Scale) -> Chapter:
    published, reasons = read_published(paper.folder), reasons_of(paper.folder)
    if paper.items is not None:
        published = published[published.item.isin(paper.items)]
    frames = [frame for task in tasks if len(frame := task.measured())]
    measured = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if len(measured):
        measured = measured[measured.item.isin(set(published.item))]
    missing = {label: said for label, row in published.iterrows() if (said := _said(reasons, MISSING, dict(row)))}
    cells = cells_of(paper, published, measured, missing)
    return Chapter(paper, [_item(name, cells, reasons, tasks, scale) for name in dict.fromkeys(published.item)])


def _item(name: str, cells: Sequence[Cell], reasons: Sequence[Reason], tasks: Sequence[Task], scale: Scale) -> Item:
    own = [cell for cell in cells if cell.published["item"] == name]
    mine, settings = ([cell for cell in own if (cell.verdict == "a setting") == wanted] for wanted in (False, True))
    task = next((task for task in tasks if name in task.study.items), None)
    about = f"Not made at scale {scale}." if task is None else f"At scale {scale}: {task.size.differs}." if task.size.differs else ""
    told = [_said(reasons, MISSING if cell.verdict in NOT_ASKED else DIFFERS, cell.published) for cell in mine]
    return Item(name, about if mine else "", mine, told, settings, list(dict.fromkeys(title for cell in mine for title in cell.variants)))


def _said(reasons: Iterable[Reason], kind: str, published: Mapping[str, object]) -> str:
    return " ".join(
        f"{each.reason} ({each.shown_by})" if each.shown_by else each.reason
        for each in reasons
        if each.kind == kind and each.is_of(published)
    )


def _lines(item: Item) -> list[str]:
    lines = head(["row", "column", "published", "ours", "difference", "±", "verdict", *item.variants, "why"])
    for cell, why in zip(item.cells, item.reasons, strict=True):
        cells = [*_place(cell), _number(cell.published["value"], cell.digits), _found(cell.ours, cell.digits)]
        cells += [_number(cell.difference, cell.digits), _number(cell.tolerance, cell.digits), cell.verdict]
        lines.append(line([*cells, *(_found(cell.variants.get(title), cell.digits) for title in item.variants), why]))
    return lines


def _settings(item: Item) -> str:
    """How it was done in the paper, a sentence; empty where nothing is said."""
    told = [f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}" for cell in item.settings]
    return f"Settings of the paper: {'; '.join(told)}." if told else ""


def _place(cell: Cell) -> tuple[str, str]:
    """Row and column as the paper has them, else what the number is of."""
    of = cell.published
    row, column = (str(of[name]) if isinstance(of.get(name), str) else "" for name in ("row", "column"))
    method = of.get("method")
    return row or (method if isinstance(method, str) else ""), column or str(of["metric"])


def _found(found: Found | None, digits: int) -> str:
    if found is None:
        return "–"
    spread = "" if np.isnan(found.sd) else f" ± {_number(found.sd, digits)}"
    return f"{_number(found.mean, digits)}{spread} (n = {found.n})"


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _summary(chapters: Sequence[Chapter]) -> list[str]:
    lines = head(["paper", "cells", *VERDICTS, "match or better, of what can be run"])
    for chapter in chapters:
        share = "–" if np.isnan(chapter.share) else f"{100 * chapter.share:.0f} %"
        lines.append(line([chapter.paper.name, str(len(chapter.cells)), *(str(chapter.counts[name]) for name in VERDICTS), share]))
    return lines


def _table(chapters: Sequence[Chapter]) -> pd.DataFrame:
    rows = []
    for chapter in chapters:
        for cell in chapter.cells:
            ours = cell.ours or Found(float("nan"), float("nan"), 0)
            row = {"paper": chapter.paper.name, **cell.published, "ours": ours.mean, "sd": ours.sd, "n": ours.n}
            variants = {f"ours: {title}": found.mean for title, found in cell.variants.items()}
            rows.append(row | {"tolerance": cell.tolerance, "verdict": cell.verdict} | variants)
    return pd.DataFrame(rows)


def _about(scale: Scale, command: str) -> list[str]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    made = git()
    code = f"commit {made['commit'][:12]}{', with changes' if made['dirty'] else ''}" if made else "an installed package"
    return [f"Scale: {scale}", f"Made by: {command}", f"On {now}, {machine}, {code}"]
