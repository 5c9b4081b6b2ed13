"""Runs that have no result to show: failed, still running, or cut off.

One HTML file that needs nothing else: the numbers as JSON, a style sheet and a script that shows
them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment

from kdgraph import __version__
from kdgraph.report.page.attachments import PageFigures, PageTables
from kdgraph.results.records import PAPER_PROTOCOL_NOTE, parse_filter
from kdgraph.runner.rundir import CLAIM, RunDir

UnfinishedState = Literal["failed", "running", "cut off"]
JUDGED_BY_PATH = ("dataset", "method")


@dataclass(frozen=True)
class UnfinishedRun:
    """A run directory below ``out``, what became of the run, and why in one line where that is
    known.
    """

    path: Path
    state: UnfinishedState
    reason: str


def find_unfinished(out: str | Path, filters: Sequence[str] = ()) -> list[UnfinishedRun]:
    """Every such run below ``out``, in the order of their paths; a failed attempt to repeat a run
    that is done is one of them.

    There is no record to filter by, only ``<dataset>/<method>/<id>``: filters of data set and
    method count, others let all pass.
    """
    wanted = [each for each in map(parse_filter, filters) if each.key in JUDGED_BY_PATH]
    found = []
    for path in _directories(out):
        dataset, method = path.parts[-3:-1] if len(path.parts) > 2 else ("", "")
        if all(each.passes({"method": method, "config": {"dataset": dataset}}) for each in wanted):
            found.append(_state_of(path))
    return sorted(found, key=lambda one: one.path)


def _directories(out: str | Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(out):
        if "error.txt" in names or (CLAIM in names and "result.json" not in names):
            yield Path(folder)
        is_run_dir = bool({"result.json", "error.txt", CLAIM} & set(names))
        folders[:] = [] if is_run_dir else [name for name in folders if not name.startswith(".")]


def _state_of(path: Path) -> UnfinishedRun:
    folder = RunDir(path)
    failure = folder.failure()
    if folder.is_running:
        return UnfinishedRun(path, "running", "it is running at the moment")
    if failure is not None:
        return UnfinishedRun(path, "failed", failure)
    return UnfinishedRun(
        path, "cut off", "it was ended before it was done; it is done again next time"
    )


SCRIPTS = ("elements", "data", "grid", "methods", "datasets", "runs", "details", "tables", "page")
"""In the order in which they are joined: functions of the first ones are used by the later ones."""


@dataclass(frozen=True)
class PageInfo:
    """What the page says about itself: its title, the command that made it, and what is not in
    it.
    """

    title: str
    command: str
    notes: Sequence[str] = ()


def render_page(
    content: Mapping[str, Any],
    pictures: PageFigures,
    tables: PageTables,
    left: Sequence[UnfinishedRun],
    about: PageInfo,
) -> str:
    """The page.

    Parameters
    ----------
    content : of :class:`kdgraph.report.page.content.Content`.
    pictures, tables : figures and tables of runs.
    left : runs without a result.
    about : what the page says about itself.
    """
    script = "(() => {\n" + "\n".join(_file(f"{name}.js") for name in SCRIPTS) + "})();"
    style = _file("page.css")
    told = [{**asdict(one), "path": str(one.path)} for one in left]
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        _file("page.html.j2")
    )
    return page.render(
        about=about,
        version=__version__,
        style=style,
        theme=_file("theme.js"),
        script=script,
        as_in_paper=PAPER_PROTOCOL_NOTE[0].upper() + PAPER_PROTOCOL_NOTE[1:],
        policy=_policy([_file("theme.js"), script], [style]),
        data=script_json({**content, "unfinished": told}),
        figures={i: script_json(shown) for i, shown in pictures.by_run.items()},
        tables={i: script_json(shown) for i, shown in tables.by_run.items()},
    )


def script_json(value: Any) -> str:
    r"""JSON that can stand in a script element: nothing in it looks like the end of one, or like a
    comment.

    >>> in_script("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """What the browser may do: these scripts and styles, pictures of the page's own; no network at
    all.
    """
    script, style = (
        " ".join(f"'sha256-{_digest(text)}'" for text in texts) for texts in (scripts, styles)
    )
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src blob:; base-uri"
        " 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (files("kdgraph.report.page") / "files" / name).read_text(encoding="utf-8")
