"""One HTML file: the numbers as JSON, a style sheet and the script that shows them.

The file needs no network and no other file, and its policy allows no other script.
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

from jinja2 import Environment, Template

from kdgraph import __version__
from kdgraph.report.page.attachments import PageFigures, PageTables
from kdgraph.results.names import NOISE
from kdgraph.results.records import PAPER_PROTOCOL_NOTE, parse_filter
from kdgraph.runner.run_dir import LOCK_FILE, RunDir

UnfinishedState = Literal["failed", "running", "cut off"]
PATH_KEYS = ("dataset", "method")
"""Keys of filters that the directory of a run can be judged by."""
PAGE_SCRIPTS = (
    *("text", "data", "tips", "search", "elements", "grid", "study", "drawings"),
    *("methods", "datasets", "runs", "attachments", "details", "page"),
)
"""In the order in which they are joined: functions of the first ones are used by the later ones."""


@dataclass(frozen=True)
class UnfinishedRun:
    """A run directory without a result to show, and the reason in one line."""

    path: Path
    state: UnfinishedState
    reason: str


@dataclass(frozen=True)
class PageInfo:
    """Title of the page, the command that wrote it, and notes about what is left out."""

    title: str
    command: str
    notes: Sequence[str] = ()


def find_unfinished(out: str | Path, filters: Sequence[str] = ()) -> list[UnfinishedRun]:
    """Return runs below a folder that have failed, are running or were cut off, sorted by path.

    A failed attempt to repeat a finished run is one of them. Filters are those of
    :func:`~kdgraph.results.records.find_runs`. Unfinished runs have no record, only the path
    ``<dataset>/<method>/<id>``, so filters with other keys pass all of them.
    """
    path_filters = [f for f in map(parse_filter, filters) if f.key in PATH_KEYS]
    runs = []
    for path in _unfinished_dirs(out):
        dataset, method = path.parts[-3:-1] if len(path.parts) > 2 else ("", "")
        record = {"method": method, "config": {"dataset": dataset}}
        if all(path_filter.passes(record) for path_filter in path_filters):
            runs.append(_unfinished_run(path))
    return sorted(runs, key=lambda run: run.path)


def render_page(
    content: Mapping[str, Any],
    figures: PageFigures,
    tables: PageTables,
    unfinished: Sequence[UnfinishedRun],
    info: PageInfo,
) -> str:
    """Return the page as HTML.

    The content is that of :class:`kdgraph.report.page.content.Content`, with ``statistics`` and
    ``remarks``.
    """
    script = page_script()
    style, theme = source_file("base.css") + source_file("page.css"), source_file("theme.js")
    rows = [{**asdict(run), "path": str(run.path)} for run in unfinished]
    return page_template("page.html.j2").render(
        info=info,
        style=style,
        theme=theme,
        script=script,
        noise=f"{NOISE:g}",
        paper_protocol=PAPER_PROTOCOL_NOTE[0].upper() + PAPER_PROTOCOL_NOTE[1:],
        policy=content_policy([theme, script], [style]),
        data=script_json({**content, "unfinished": rows}),
        figures={i: script_json(of_run) for i, of_run in figures.by_run.items()},
        tables={i: script_json(of_run) for i, of_run in tables.by_run.items()},
    )


def page_script() -> str:
    """Return the script of the page: one function, so that none of its names are global."""
    sources = [source_file(f"{name}.js") for name in PAGE_SCRIPTS]
    return "\n".join(['(() => {\n"use strict";', *sources, "})();"])


def script_json(value: Any) -> str:
    r"""Return JSON for a script element, without a text that ends the element or is a comment.

    >>> script_json("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _unfinished_dirs(out: str | Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(out):
        if "error.txt" in names or (LOCK_FILE in names and "result.json" not in names):
            yield Path(folder)
        is_run_dir = bool({"result.json", "error.txt", LOCK_FILE} & set(names))
        # os.walk visits the folders that remain in the list.
        folders[:] = [] if is_run_dir else [name for name in folders if not name.startswith(".")]


def _unfinished_run(path: Path) -> UnfinishedRun:
    folder = RunDir(path)
    failure = folder.failure()
    if folder.is_running:
        return UnfinishedRun(path, "running", "it is running at the moment")
    if failure is not None:
        return UnfinishedRun(path, "failed", failure)
    return UnfinishedRun(
        path, "cut off", "it was ended before it was done; it is done again next time"
    )


def content_policy(scripts: Sequence[str], styles: Sequence[str], *, images: str = "blob:") -> str:
    """Return a policy for the browser: these scripts and styles, own pictures, no network.

    ``images`` is the scheme of the pictures.
    """
    script, style = (
        " ".join(f"'sha256-{_digest(text)}'" for text in texts) or "'none'"
        for texts in (scripts, styles)
    )
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src {images}; base-uri"
        " 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_template(name: str) -> Template:
    """Return a template among the files of the page, which knows the version of kdgraph."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source_file(name), {"version": __version__})


def source_file(name: str) -> str:
    """Return the text of a file of the page: a template, a style sheet or a script."""
    return (files("kdgraph.report.page") / "files" / name).read_text(encoding="utf-8")
