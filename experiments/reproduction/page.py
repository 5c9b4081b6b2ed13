"""The page: every published number beside ours with a verdict, as HTML that needs no other file, as
Markdown, and as a CSV of its cells.
"""

from __future__ import annotations

import os
import platform
import textwrap
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
from experiments.reproduction.kept import CELLS, CLAIMS, MEASURED, Kept, kept_in, told
from experiments.reproduction.papers import with_items
from experiments.reproduction.verdicts import NOT_JUDGED, REACHED, VERDICTS, Cell, Measurement
from experiments.reproduction.work import Task
from kdgraph.results.export import Section, sections_to_text
from kdgraph.runner.files import write_atomically
from kdgraph.runner.record import git_state

HERE = Path(__file__).parent
GOAL = 0.75
"""Fraction of the numbers that are judged that is to match or be better."""
LINE = 100
"""Columns of a sentence where the output is no terminal."""
CAPTIONS = ("match or better, of what is judged", "match or better, of what can be run")


def write(
    papers: Sequence[Paper],
    tasks: Sequence[Task],
    scale: Scale,
    runs: Path,
    command: str,
    to: Path,
    width: int | None = None,
) -> str:
    """Write the page and the one of claims, and return their summary for a terminal.

    Parameters
    ----------
    papers, tasks, scale : what was asked for, and what makes it.
    runs : the folder of all runs, of which claims are asked.
    command : what was called.
    to : where ``page.html``, ``page.md``, ``cells.csv``, ``claims.html``, ``claims.md`` and
        ``claims.csv`` and ``measurements.csv`` go, and the archives of studies that have one. What
        these hold already stays, with when it was made, but for what there are runs of now: so a
        page is made again in parts, and without its runs.
    width : columns of the terminal; None for tables of any width, and lines of 100 columns.

    Raises
    ------
    UsageError
        ``to`` has a page of another scale.
    """
    kept = kept_in(to, scale)
    papers = with_items(papers, kept.items)
    for task in tasks:
        task.restore(to)
    chapters = [
        chapter(paper, [task for task in tasks if task.paper.name == paper.name], scale, kept)
        for paper in papers
    ]
    asked = claims_page.asked_of(papers, runs, kept, scale)
    made = _made()
    about = [f"Scale: {scale}", f"Made by: {command}", f"On {made}"]
    shown: dict[str, Any] = {"about": about, "style": (HERE / "page.css").read_text()}
    _write_html(
        to / "page.html",
        shown
        | {
            "chapters": chapters,
            "summary": _numbers_section(chapters),
            "verdicts": VERDICTS,
            "told": _told(chapters, scale),
        },
    )
    _write_html(to / "claims.html", shown | {"chapters": asked, "standings": claims_page.STANDINGS})
    write_atomically(to / "page.md", markdown(chapters, about, scale).encode(), "--page")
    write_atomically(to / "claims.md", claims_page.markdown(asked, about).encode(), "--page")
    write_atomically(
        to / CELLS, _table(chapters, scale, made).to_csv(index=False).encode(), "--page"
    )
    write_atomically(
        to / CLAIMS, claims_page.table(asked, scale, made).to_csv(index=False).encode(), "--page"
    )
    for task in tasks:
        task.keep(to)
    by_seed = _by_seed(chapters, kept, scale, made)
    write_atomically(to / MEASURED, by_seed.to_csv(index=False).encode(), "--page")
    others = f"page.md, {CELLS}, {MEASURED}, claims.html, claims.md and {CLAIMS} beside it"
    sections = [_numbers_section(chapters), claims_page.section(asked)]
    sentences = [*_told(chapters, scale), f"{to / 'page.html'}, {others}"]
    return "\n\n".join(
        [
            sections_to_text([section for section in sections if section.rows], width),
            "\n".join(
                textwrap.fill(
                    sentence, width or LINE, break_long_words=False, break_on_hyphens=False
                )
                for sentence in sentences
            ),
        ]
    )


def _write_html(path: Path, shown: dict[str, Any]) -> None:
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        number=_number,
        found=_found,
        place=_place,
        settings=_settings,
        absent=_absent,
        shares=_shares,
        published=_published,
        verdict=_verdict,
    )
    environment.globals.update(kept_from=told, found_of=claims_page.found_of)
    write_atomically(
        path, environment.get_template(f"{path.name}.j2").render(**shown).encode(), "--page"
    )


def markdown(chapters: Sequence[Chapter], about: Sequence[str], scale: Scale) -> str:
    """The page without its style."""
    parts = [
        "# Every published number, and ours",
        "\n".join(f"{said}  " for said in about),
        "\n".join(_told(chapters, scale)),
    ]
    parts += [
        "\n".join(_summary(_numbers_section(chapters))),
        "What claims in words are worth: [claims](claims.md).",
    ]
    for each in chapters:
        parts.append(f"## {each.paper.name}: {each.paper.title}")
        for item in each.items:
            parts += [
                f"### {each.paper.name}, {item.called}",
                item.about if item.rows else "",
                told(item.kept),
            ]
            parts += ["\n".join(_lines(item)) if item.rows else "", _absent(item)]
            parts += [
                "\n".join(f"{i}. {reason}" for reason, i in item.notes.items()),
                _settings(item),
            ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _lines(item: Item) -> list[str]:
    why = ["why"] if item.notes else []
    lines = head(
        ["row", "column", "verdict", *why, "published", "ours", "difference", "±", *item.variants]
    )
    for cell, reason in item.rows:
        note = [item.notes.get(reason, "")] if why else []
        cells = [
            *_place(cell),
            _verdict(cell),
            *note,
            _published(cell),
            _found(cell.ours, cell.digits),
        ]
        cells += [_number(cell.difference, cell.digits), _number(cell.tolerance, cell.digits)]
        lines.append(
            line(
                [
                    *cells,
                    *(_found(cell.variants.get(title), cell.digits) for title in item.variants),
                ]
            )
        )
    return lines


def _verdict(cell: Cell) -> str:
    """Return the verdict, whether a match is weak evidence, and where a repeat is judged."""
    if cell.judged_in:
        return f"{cell.verdict} of {cell.judged_in}"
    return f"{cell.verdict} (weak)" if cell.weak and cell.verdict in REACHED else cell.verdict


def _published(cell: Cell) -> str:
    """Return the published number, and what it is over the same tables where that is known."""
    printed = _number(cell.published["value"], cell.digits)
    if cell.ours is None or np.isnan(cell.ours.comparable):
        return printed
    return f"{printed}; same tables {_number(cell.target, cell.digits)}"


def _absent(item: Item) -> str:
    """What is published in an item of which nothing can be run, but for what has a line, a
    sentence; or empty.
    """
    told = [
        f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}"
        for cell in item.untold
    ]
    also = " also" if item.rows else ""
    return f"Nothing of it can be run here. Published{also}: {'; '.join(told)}." if told else ""


def _settings(item: Item) -> str:
    """How it was done in the paper, and where runs have it, here; a sentence, or nothing."""
    told = [
        f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}"
        + ("" if cell.ours is None else f" (ours {_number(cell.ours.mean, cell.digits)})")
        for cell in item.settings
    ]
    return f"Settings of the paper: {'; '.join(told)}." if told else ""


def _place(cell: Cell) -> tuple[str, str]:
    """Row and column as the paper has them, else what the number is of."""
    row, column, dataset, method = (
        _text(cell.published.get(name)) for name in ("row", "column", "dataset", "method")
    )
    also = (f"{name} {_text(value)}" for name, value in cell.also.items())
    return row or ", ".join(filter(None, [dataset, method])), column or ", ".join(
        [str(cell.published["metric"]), *also]
    )


def _text(value: object) -> str:
    """As it is read; empty where a cell of the file is."""
    return (
        ""
        if value is None or value != value
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _found(found: Measurement | None, digits: int) -> str:
    if found is None:
        return "–"
    spread = "" if np.isnan(found.sd) else f" ± {_number(found.sd, digits)}"
    return f"{_number(found.mean, digits)}{spread} (n = {found.n})"


def _number(value: float, digits: int) -> str:
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _shares(of: Count) -> list[str]:
    """Return what was reached of what is judged, and of what can be run."""
    return [
        "–" if np.isnan(share) else f"{100 * share:.3g} %"
        for share in (of.share_of_judged, of.share)
    ]


def _summary(section: Section) -> list[str]:
    """Return a section as the lines of a Markdown table."""
    return head(list(section.head)) + [line(list(row)) for row in section.rows]


def _numbers_section(chapters: Sequence[Chapter]) -> Section:
    """Return the summary as a table that is narrow: a column for each paper, a row for each verdict.

    Verdicts that no number has are left out. What was reached comes first, so that a small screen
    shows it.
    """
    counts = {each.paper.name: each.count for each in chapters}
    if len(chapters) > 1:
        counts["all"] = count(cell for each in chapters for cell in each.cells)
    rows = [
        [verdict, *(f"{of.of.get(verdict, 0):,}" for of in counts.values())]
        for verdict in VERDICTS
        if any(of.of.get(verdict, 0) for of in counts.values())
    ]
    shares = [_shares(of) for of in counts.values()]
    if any(of.judged for of in counts.values()):
        rows = [
            [name, *cells] for name, cells in zip(CAPTIONS, zip(*shares, strict=True), strict=True)
        ] + rows
    rows.append(["all numbers", *(f"{of.cells:,}" for of in counts.values())])
    return Section("published numbers", ["", *counts], rows)


def _told_of_smoke(whole: Count) -> list[str]:
    """Return what scale smoke made of the published numbers, and what it is good for."""
    verdicts = [verdict for verdict in VERDICTS if verdict not in NOT_JUDGED]
    judged = ", ".join(f"{whole.of[name]:,} {name}" for name in verdicts if whole.of.get(name))
    n_one_run = whole.of.get("one run", 0)
    made = whole.judged + n_one_run
    one_run = (
        f"{n_one_run:,} have one run, which has no measure of its noise. " if n_one_run else ""
    )
    return [
        f"Scale smoke makes {made:,} of the {whole.asked:,} published numbers that can be run here;"
        f" {whole.reached:,} of the {whole.judged:,} that are judged match or are better"
        f" ({judged or 'none is judged'}). {one_run}This scale shows that the programs work; the papers"
        " are compared at --scale workstation."
    ]


def _told(chapters: Sequence[Chapter], scale: Scale) -> list[str]:
    """Return how many numbers match or are better, each apart, and what is short, in sentences."""
    cells = [cell for each in chapters for cell in each.cells]
    whole = count(cells)
    if not whole.asked:
        return ["Nothing of it can be run here."]
    if scale == "smoke":
        return _told_of_smoke(whole)
    weak = sum(cell.weak and cell.verdict in REACHED for cell in cells)
    of_judged, of_asked = _shares(whole)
    sentences = [
        f"Of the {whole.asked:,} published numbers that can be run here {whole.judged:,} are judged;"
        f" {whole.of.get('not run', 0):,} have not been run, and {whole.of.get('one run', 0):,} have"
        f" one run, which has no measure of its noise. {whole.of.get('match', 0):,} match and"
        f" {whole.of.get('better', 0):,} are better, {of_judged} of what is judged and {of_asked} of"
        f" what can be run; {whole.of.get('different parent', 0):,} stand on a different parent,"
        f" {whole.of.get('inconclusive', 0):,} are inconclusive and"
        f" {whole.of.get('differs', 0):,} differ. {whole.cells - whole.asked:,} more cannot be run,"
        " are settings, or repeat a number that is judged elsewhere."
    ]
    if weak:
        sentences.append(
            f"{weak:,} of the matches are weak: the number is printed so coarsely, or is a bound,"
            " that little could miss it."
        )
    if whole.share_of_judged < GOAL:
        sentences.append(
            f"That is below the {100 * GOAL:.0f} % that were aimed at; the reasons stand beside the"
            " numbers."
        )
    return sentences


def _table(chapters: Sequence[Chapter], scale: Scale, made: str) -> pd.DataFrame:
    """A row for each published number, with the verdict on ours, and one for each variant of
    ours.
    """
    nothing = Measurement(float("nan"), float("nan"), 0)
    rows = []
    for each in chapters:
        for cell in each.cells:
            shared = {"paper": each.paper.name, **cell.published}
            judged = {"tolerance": cell.tolerance, "verdict": cell.verdict, "weak": cell.weak}
            rows.append(shared | {"variant": ""} | _ours(cell.ours or nothing, made) | judged)
            rows += [
                shared | {"variant": title} | _ours(found, made)
                for title, found in cell.variants.items()
            ]
    frame, last = (
        pd.DataFrame(rows).assign(scale=scale),
        [
            "variant",
            "ours",
            "sd",
            "n",
            "comparable",
            "tolerance",
            "verdict",
            "weak",
            "scale",
            "made",
        ],
    )
    return frame[[*frame.columns.difference(last, sort=False), *last]]


def _by_seed(chapters: Sequence[Chapter], kept: Kept, scale: Scale, made: str) -> pd.DataFrame:
    """Return a row for each measurement and seed; of statistics of many tables, see
    :meth:`~experiments.reproduction.verdicts.Measurement.from_rows`.
    """
    frames = [
        each.measured.assign(paper=each.paper.name, scale=scale, made=made)
        for each in chapters
        if len(each.measured)
    ]
    measured = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    rest = ["variant", "seed", "value", "comparable", "scale", "made"]
    columns = dict.fromkeys(["paper", "item", *measured.columns, *kept.measured.columns])
    keys = [name for name in columns if name not in {"paper", *rest}]
    whole = kept.with_measured(measured, keys)
    return whole.reindex(columns=["paper", *keys, *rest])


def _ours(found: Measurement, made: str) -> dict[str, Any]:
    return {
        "ours": found.mean,
        "sd": found.sd,
        "n": found.n,
        "comparable": found.comparable,
        "made": (found.made or made) if found.n else "",
    }


def _made() -> str:
    """When, where and by which commit numbers are found that are found now."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    made = git_state()
    code = (
        f"commit {made['commit'][:12]}{', with changes' if made['dirty'] else ''}"
        if made
        else "an installed package"
    )
    return f"{now}, {machine}, {code}"
