"""The page: every published number beside ours with a verdict, as HTML that needs no other file, as Markdown, and as a CSV of its cells."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader

from experiments.common.markdown import head, line
from experiments.reproduction import claims_page
from experiments.reproduction.chapters import Chapter, Count, Item, chapter, count
from experiments.reproduction.declared import Paper, Scale
from experiments.reproduction.verdicts import VERDICTS, Cell, Found
from experiments.reproduction.work import Task
from kdgraph.runner.files import write_atomically
from kdgraph.runner.provenance import git

HERE = Path(__file__).parent
GOAL, LEAST = 0.7, 0.5
"""Share of what can be run that is to match or be bettered: of all papers together, and of each."""
CAPTION = "match or better, of what can be run"


def write(papers: Sequence[Paper], tasks: Sequence[Task], scale: Scale, runs: Path, command: str, to: Path) -> str:
    """Write the page and the one of claims; returns what to tell.

    Parameters
    ----------
    papers, tasks, scale : what was asked for, and what makes it.
    runs : the folder of all runs, of which claims are asked.
    command : what was called.
    to : where ``page.html``, ``page.md``, ``cells.csv``, ``claims.html`` and ``claims.md`` go.
    """
    chapters = [chapter(paper, [task for task in tasks if task.paper is paper], scale) for paper in papers]
    asked = claims_page.asked_of(papers, runs)
    about = _about(scale, command)
    to.mkdir(parents=True, exist_ok=True)
    shown: dict[str, Any] = {"about": about, "style": (HERE / "page.css").read_text()}
    _write_html(to / "page.html", shown | {"chapters": chapters, "verdicts": VERDICTS, "told": _told(chapters)})
    _write_html(to / "claims.html", shown | {"chapters": asked, "standings": claims_page.STANDINGS})
    write_atomically(to / "page.md", markdown(chapters, about).encode())
    write_atomically(to / "claims.md", claims_page.markdown(asked, about).encode())
    _table(chapters).to_csv(to / "cells.csv", index=False)
    others = "page.md, cells.csv, claims.html and claims.md beside it"
    return "\n".join([*_summary(chapters), "", *claims_page.summary(asked), "", *_told(chapters), f"{to / 'page.html'}, {others}"])


def _write_html(path: Path, shown: dict[str, Any]) -> None:
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(number=_number, found=_found, place=_place, settings=_settings, absent=_absent, share=_share)
    write_atomically(path, environment.get_template(f"{path.name}.j2").render(**shown).encode())


def markdown(chapters: Sequence[Chapter], about: Sequence[str]) -> str:
    """The page without its style."""
    parts = ["# Every published number, and ours", "\n".join(f"{said}  " for said in about), "\n".join(_told(chapters))]
    parts += ["\n".join(_summary(chapters)), "What claims in words are worth: [claims](claims.md)."]
    for each in chapters:
        parts.append(f"## {each.paper.name}: {each.paper.title}")
        for item in each.items:
            parts += [f"### {each.paper.name}, {item.called}", "" if item.is_absent else item.about]
            parts += [_absent(item) if item.is_absent else "\n".join(_lines(item))]
            parts += ["\n".join(f"{i}. {reason}" for reason, i in item.notes.items()), _settings(item)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _lines(item: Item) -> list[str]:
    why = ["why"] if item.notes else []
    lines = head(["row", "column", "published", "ours", "difference", "±", "verdict", *why, *item.variants])
    for cell, reason in zip(item.cells, item.reasons, strict=True):
        cells = [*_place(cell), _number(cell.published["value"], cell.digits), _found(cell.ours, cell.digits)]
        cells += [_number(cell.difference, cell.digits), _number(cell.tolerance, cell.digits), cell.verdict]
        note = [item.notes.get(reason, "")] if why else []
        lines.append(line([*cells, *note, *(_found(cell.variants.get(title), cell.digits) for title in item.variants)]))
    return lines


def _absent(item: Item) -> str:
    """What is printed of an item of which nothing can be run, a sentence; empty where that is settings alone."""
    told = [f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}" for cell in item.cells]
    return f"Nothing of it can be run here. Published: {'; '.join(told)}." if told else ""


def _settings(item: Item) -> str:
    """How it was done in the paper, a sentence; empty where nothing is said."""
    told = [f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}" for cell in item.settings]
    return f"Settings of the paper: {'; '.join(told)}." if told else ""


def _place(cell: Cell) -> tuple[str, str]:
    """Row and column as the paper has them, else what the number is of."""
    row, column, dataset, method = (_text(cell.published.get(name)) for name in ("row", "column", "dataset", "method"))
    also = (f"{name} {_text(value)}" for name, value in cell.also.items())
    return row or ", ".join(filter(None, [dataset, method])), column or ", ".join([str(cell.published["metric"]), *also])


def _text(value: object) -> str:
    """As it is read; empty where a cell of the file is."""
    return "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)


def _found(found: Found | None, digits: int) -> str:
    if found is None:
        return "–"
    spread = "" if np.isnan(found.sd) else f" ± {_number(found.sd, digits)}"
    return f"{_number(found.mean, digits)}{spread} (n = {found.n})"


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _share(of: Count) -> str:
    return "–" if np.isnan(of.share) else f"{100 * of.share:.0f} %"


def _summary(chapters: Sequence[Chapter]) -> list[str]:
    """A table: a row for each paper, and one for all where there are several."""
    rows = {each.paper.name: each.count for each in chapters}
    if len(chapters) > 1:
        rows["all"] = count(cell for each in chapters for cell in each.cells)
    lines = head(["paper", "cells", *VERDICTS, CAPTION])
    return lines + [line([name, f"{of.cells:,}", *(f"{of.of.get(v, 0):,}" for v in VERDICTS), _share(of)]) for name, of in rows.items()]


def _told(chapters: Sequence[Chapter]) -> list[str]:
    """How many were reached, and where that is less than it is to be, in sentences."""
    whole = count(cell for each in chapters for cell in each.cells)
    of = f"{whole.reached:,} of the {whole.asked:,} published numbers that can be run here"
    told = [f"{of} match or are bettered ({_share(whole)}); {whole.cells - whole.asked:,} more cannot be, or are settings."]
    low = [f"{each.paper.name} has {_share(each.count)}" for each in chapters if each.count.share < LEAST]
    short = [f"all together {_share(whole)} where {100 * GOAL:.0f} % were to be reached"] if whole.share < GOAL else []
    short += [f"{', '.join(low)} where no paper was to have less than {100 * LEAST:.0f} %"] if low else []
    reached = f"That is at least {100 * GOAL:.0f} % of all, and {100 * LEAST:.0f} % of each paper, as was aimed at."
    return [*told, f"Below what was aimed at: {'; '.join(short)}." if short else reached]


def _table(chapters: Sequence[Chapter]) -> pd.DataFrame:
    rows = []
    for each in chapters:
        for cell in each.cells:
            ours = cell.ours or Found(float("nan"), float("nan"), 0)
            row = {"paper": each.paper.name, **cell.published, "ours": ours.mean, "sd": ours.sd, "n": ours.n}
            variants = {f"ours: {title}": found.mean for title, found in cell.variants.items()}
            rows.append(row | {"tolerance": cell.tolerance, "verdict": cell.verdict} | variants)
    return pd.DataFrame(rows)


def _about(scale: Scale, command: str) -> list[str]:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    made = git()
    code = f"commit {made['commit'][:12]}{', with changes' if made['dirty'] else ''}" if made else "an installed package"
    return [f"Scale: {scale}", f"Made by: {command}", f"On {now}, {machine}, {code}"]
