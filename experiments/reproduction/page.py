"""Page of published numbers beside measured ones with verdicts: HTML that needs no other file,
Markdown, and a CSV of its cells.
"""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader

from experiments.common.markdown import table
from experiments.reproduction import claims_page
from experiments.reproduction.chapters import Chapter, Count, Item, chapter
from experiments.reproduction.papers import with_items
from experiments.reproduction.stored_page import (
    CELLS,
    CLAIMS,
    MEASURED,
    StoredPage,
    read_stored_page,
    stored_note,
)
from experiments.reproduction.studies import Paper, Scale
from experiments.reproduction.verdicts import NOT_JUDGED, REACHED, VERDICTS, Cell, Measurement
from experiments.reproduction.work import Task
from kdgraph.results.export import Section, sections_to_text
from kdgraph.runner.files import write_atomically
from kdgraph.runner.record import git_state

TEMPLATES = Path(__file__).parent
GOAL = 0.75  # Fraction of the judged numbers that is to match or be better
LINE = 100  # Columns of a sentence where the output is no terminal
CAPTIONS = ("match or better, of what is judged", "match or better, of what can be run")
_MEASURED = ["variant", "ours", "sd", "n", "comparable", "tolerance"]
_LAST = [*_MEASURED, "verdict", "weak", "scale", "made"]  # Last columns of ``CELLS``


def write(
    papers: Sequence[Paper],
    tasks: Sequence[Task],
    scale: Scale,
    runs: Path,
    command: str,
    to: Path,
    width: int | None = None,
) -> str:
    """Write the pages of numbers and of claims, and return their summary for a terminal.

    Claims are tested on the folder ``runs``. Numbers and claims in the folder ``to`` stay, with
    their origin, unless there are runs of them now: so a page is made again in parts, and without
    its runs. ``width`` is that of the terminal; None for tables of any width, and lines of 100
    columns.
    """
    stored = read_stored_page(to, scale)
    papers = with_items(papers, stored.items)
    for task in tasks:
        task.restore(to)
    chapters = [
        chapter(paper, [task for task in tasks if task.paper.name == paper.name], scale, stored)
        for paper in papers
    ]
    claims = claims_page.claims_of(papers, runs, stored, scale)
    made, conclusions, numbers = _made(), _conclusions(chapters, scale), _numbers_section(chapters)
    about = [f"Scale: {scale}", f"Made by: {command}", f"On {made}"]
    shared: dict[str, Any] = {"about": about, "style": (TEMPLATES / "page.css").read_text()}
    of_numbers = {"chapters": chapters, "summary": numbers, "verdicts": VERDICTS}
    of_claims = {"chapters": claims, "standings": claims_page.STANDINGS}
    texts = {
        "page.html": _html("page.html", shared | of_numbers | {"conclusions": conclusions}),
        "claims.html": _html("claims.html", shared | of_claims),
        "page.md": markdown(chapters, about, scale),
        "claims.md": claims_page.markdown(claims, about),
        CELLS: _cells_table(chapters, scale, made).to_csv(index=False),
        CLAIMS: claims_page.parts_table(claims, scale, made).to_csv(index=False),
        MEASURED: _by_seed(chapters, stored, scale, made).to_csv(index=False),
    }
    for name, text in texts.items():
        write_atomically(to / name, text.encode(), "--page")
    for task in tasks:
        task.keep(to)
    others = f"page.md, {CELLS}, {MEASURED}, claims.html, claims.md and {CLAIMS} beside it"
    sections = [section for section in (numbers, claims_page.section(claims)) if section.rows]
    sentences = (
        textwrap.fill(each, width or LINE, break_long_words=False, break_on_hyphens=False)
        for each in (*conclusions, f"{to / 'page.html'}, {others}")
    )
    return sections_to_text(sections, width) + "\n\n" + "\n".join(sentences)


def _html(name: str, values: Mapping[str, Any]) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        number=_number,
        measured=_measured,
        place=_place,
        settings=_settings,
        absent=_absent,
        shares=_shares,
        published=_published,
        verdict=_verdict,
        stored_note=stored_note,
        evidence=claims_page.evidence,
    )
    return environment.get_template(f"{name}.j2").render(**values)


def markdown(chapters: Sequence[Chapter], about: Sequence[str], scale: Scale) -> str:
    """Return the page of numbers as Markdown."""
    summary = _numbers_section(chapters)
    blocks = [
        "# Every published number, and ours",
        "\n".join(f"{each}  " for each in about),
        "\n".join(_conclusions(chapters, scale)),
        table(list(summary.head), summary.rows),
        "What claims in words are worth: [claims](claims.md).",
    ]
    for each in chapters:
        blocks.append(f"## {each.paper.name}: {each.paper.title}")
        for item in each.items:
            blocks += [
                f"### {each.paper.name}, {item.name}",
                item.about if item.rows else "",
                stored_note(item.stored),
                _item_table(item) if item.rows else "",
                _absent(item),
                "\n".join(f"{i}. {reason}" for reason, i in item.notes.items()),
                _settings(item),
            ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _item_table(item: Item) -> str:
    why = ["why"] if item.notes else []
    columns = ["row", "column", "verdict", *why, "published", "ours", "difference", "±"]
    rows = (
        [
            *_place(cell),
            _verdict(cell),
            *(item.notes.get(reason, "") for _ in why),
            _published(cell),
            _measured(cell.measured, cell.digits),
            _number(cell.difference, cell.digits),
            _number(cell.tolerance, cell.digits),
            *(_measured(cell.variants.get(title), cell.digits) for title in item.variants),
        ]
        for cell, reason in item.rows
    )
    return table([*columns, *item.variants], rows)


def _verdict(cell: Cell) -> str:
    if cell.judged_in:
        return f"{cell.verdict} of {cell.judged_in}"
    return f"{cell.verdict} (weak)" if cell.weak and cell.verdict in REACHED else cell.verdict


def _published(cell: Cell) -> str:
    printed = _number(cell.published["value"], cell.digits)
    if cell.measured is None or np.isnan(cell.measured.comparable):
        return printed
    return f"{printed}; same tables {_number(cell.target, cell.digits)}"


def _printed(cells: Iterable[Cell]) -> list[str]:
    return [
        f"{' '.join(filter(None, _place(cell)))} {_number(cell.published['value'], cell.digits)}"
        for cell in cells
    ]


def _absent(item: Item) -> str:
    """Return a sentence with the published numbers that can neither be run nor have a row."""
    numbers, also = "; ".join(_printed(item.without_row)), " also" if item.rows else ""
    return f"Nothing of it can be run here. Published{also}: {numbers}." if numbers else ""


def _settings(item: Item) -> str:
    """Return a sentence with the settings of the paper and, where runs have them, of the runs."""
    settings = "; ".join(
        printed + (f" (ours {_number(cell.measured.mean, cell.digits)})" if cell.measured else "")
        for cell, printed in zip(item.settings, _printed(item.settings), strict=True)
    )
    return f"Settings of the paper: {settings}." if settings else ""


def _place(cell: Cell) -> tuple[str, str]:
    row, column, dataset, method = (
        _text(cell.published.get(name)) for name in ("row", "column", "dataset", "method")
    )
    also = (f"{name} {_text(value)}" for name, value in cell.also.items())
    return (
        row or ", ".join(filter(None, [dataset, method])),
        column or ", ".join([str(cell.published["metric"]), *also]),
    )


def _text(value: object) -> str:
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _measured(measured: Measurement | None, digits: int) -> str:
    if measured is None:
        return "–"
    spread = "" if np.isnan(measured.sd) else f" ± {_number(measured.sd, digits)}"
    return f"{_number(measured.mean, digits)}{spread} (n = {measured.n})"


def _number(value: float, digits: int) -> str:
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "–" if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def _shares(count: Count) -> list[str]:
    return [
        "–" if np.isnan(s) else f"{100 * s:.3g} %" for s in (count.share_of_judged, count.share)
    ]


def _numbers_section(chapters: Sequence[Chapter]) -> Section:
    """Return the counts of verdicts by paper, the reached shares first, for small screens."""
    counts = {each.paper.name: each.count for each in chapters}
    if len(chapters) > 1:
        counts["all"] = Count.of(cell for each in chapters for cell in each.cells)
    rows = [
        [verdict, *(f"{count.by_verdict.get(verdict, 0):,}" for count in counts.values())]
        for verdict in VERDICTS
        if any(count.by_verdict.get(verdict, 0) for count in counts.values())
    ]
    if any(count.judged for count in counts.values()):
        shares = zip(*map(_shares, counts.values()), strict=True)
        rows = [[name, *cells] for name, cells in zip(CAPTIONS, shares, strict=True)] + rows
    rows.append(["all numbers", *(f"{count.cells:,}" for count in counts.values())])
    return Section("published numbers", ["", *counts], rows)


def _smoke_conclusions(whole: Count) -> list[str]:
    counts = whole.by_verdict
    verdicts = [verdict for verdict in VERDICTS if verdict not in NOT_JUDGED]
    judged = ", ".join(f"{counts[name]:,} {name}" for name in verdicts if counts.get(name))
    n_one_run = counts.get("one run", 0)
    one_run = (
        f"{n_one_run:,} have one run, which has no measure of its noise. " if n_one_run else ""
    )
    return [
        f"Scale smoke makes {whole.judged + n_one_run:,} of the {whole.runnable:,} published"
        f" numbers that can be run here; {whole.reached:,} of the {whole.judged:,} that are judged"
        f" match or are better ({judged or 'none is judged'}). {one_run}This scale shows that the"
        " programs work; the papers are compared at --scale workstation."
    ]


def _conclusions(chapters: Sequence[Chapter], scale: Scale) -> list[str]:
    cells = [cell for each in chapters for cell in each.cells]
    whole = Count.of(cells)
    if not whole.runnable:
        return ["Nothing of it can be run here."]
    if scale == "smoke":
        return _smoke_conclusions(whole)
    n = {verdict: f"{whole.by_verdict.get(verdict, 0):,}" for verdict in VERDICTS}
    of_judged, of_runnable = _shares(whole)
    sentences = [
        f"Of the {whole.runnable:,} published numbers that can be run here {whole.judged:,} are"
        f" judged; {n['not run']} have not been run, and {n['one run']} have one run, which has no"
        f" measure of its noise. {n['match']} match and {n['better']} are better, {of_judged} of"
        f" what is judged and {of_runnable} of what can be run; {n['different parent']} stand on a"
        f" different parent, {n['inconclusive']} are inconclusive and {n['differs']} differ."
        f" {whole.cells - whole.runnable:,} more cannot be run, are settings, or repeat a number"
        " that is judged elsewhere."
    ]
    if weak := sum(cell.weak and cell.verdict in REACHED for cell in cells):
        sentences.append(
            f"{weak:,} of the matches are weak: the number is printed so coarsely, or is a bound,"
            " that little could miss it."
        )
    if whole.share_of_judged < GOAL:
        sentences.append(
            f"That is below the {100 * GOAL:.0f} % that were aimed at;"
            " the reasons stand beside the numbers."
        )
    return sentences


def _cells_table(chapters: Sequence[Chapter], scale: Scale, made: str) -> pd.DataFrame:
    nothing = Measurement(float("nan"), float("nan"), 0)
    rows = []
    for each in chapters:
        for cell in each.cells:
            shared = {"paper": each.paper.name, **cell.published}
            judged = {"tolerance": cell.tolerance, "verdict": cell.verdict, "weak": cell.weak}
            rows.append(
                shared | {"variant": ""} | _columns(cell.measured or nothing, made) | judged
            )
            rows += [
                shared | {"variant": title} | _columns(measured, made)
                for title, measured in cell.variants.items()
            ]
    frame = pd.DataFrame(rows).assign(scale=scale)
    return frame[[*frame.columns.difference(_LAST, sort=False), *_LAST]]


def _columns(measured: Measurement, made: str) -> dict[str, Any]:
    return {
        "ours": measured.mean,
        "sd": measured.sd,
        "n": measured.n,
        "comparable": measured.comparable,
        "made": (measured.made or made) if measured.n else "",
    }


def _by_seed(
    chapters: Sequence[Chapter], stored: StoredPage, scale: Scale, made: str
) -> pd.DataFrame:
    """Return a row for each measurement and seed, as ``Measurement.from_rows`` takes them."""
    frames = [
        each.measured.assign(paper=each.paper.name, scale=scale, made=made)
        for each in chapters
        if len(each.measured)
    ]
    measured = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    rest = ["variant", "seed", "value", "comparable", "scale", "made"]
    columns = dict.fromkeys(["paper", "item", *measured.columns, *stored.measured.columns])
    keys = [name for name in columns if name not in {"paper", *rest}]
    return stored.with_measured(measured, keys).reindex(columns=["paper", *keys, *rest])


def _made() -> str:
    """Return time, machine and commit of the numbers that are measured now."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    code = "an installed package"
    if state := git_state():
        code = f"commit {state['commit'][:12]}{', with changes' if state['dirty'] else ''}"
    return f"{now}, {machine}, {code}"
