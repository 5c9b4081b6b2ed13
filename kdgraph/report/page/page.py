"""One HTML file that needs nothing else: the numbers as JSON, a style sheet and a script that shows
them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from kdgraph import __version__
from kdgraph.report.page.pictures import Pictures
from kdgraph.report.page.tables import Tables
from kdgraph.report.page.unfinished import Unfinished
from kdgraph.results.parts import AS_IN_PAPER

SCRIPTS = ("elements", "data", "grid", "methods", "datasets", "runs", "details", "tables", "page")
"""In the order in which they are joined: functions of the first ones are used by the later ones."""


@dataclass(frozen=True)
class About:
    """What the page says about itself: its title, the command that made it, and what is not in
    it.
    """

    title: str
    command: str
    notes: Sequence[str] = ()


def render(
    content: Mapping[str, Any],
    pictures: Pictures,
    tables: Tables,
    left: Sequence[Unfinished],
    about: About,
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
        as_in_paper=AS_IN_PAPER[0].upper() + AS_IN_PAPER[1:],
        policy=_policy([_file("theme.js"), script], [style]),
        data=in_script({**content, "unfinished": told}),
        figures={i: in_script(shown) for i, shown in pictures.by_run.items()},
        tables={i: in_script(shown) for i, shown in tables.by_run.items()},
    )


def in_script(value: Any) -> str:
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
