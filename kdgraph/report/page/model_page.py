"""The page of ``kdg check``: one HTML file without a script."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdgraph.report.model_check import PageFigure
from kdgraph.report.page.page import content_policy, page_template, source_file
from kdgraph.results.export import Section


@dataclass(frozen=True)
class ModelPage:
    """Content of the page."""

    title: str
    subtitle: str
    verdict: Sequence[str]
    sections: Sequence[Section]
    figures: Mapping[str, PageFigure]  # by the title of a section
    advice: str  # which repair to apply, and when
    programs: Sequence[tuple[str, str]]  # captions, and commands or lines of Python
    guide: Sequence[str]  # paragraphs on how the numbers were measured
    warnings: Sequence[str]
    command: str  # that wrote the page


def render_model_page(page: ModelPage) -> str:
    """Return the page as HTML, which needs no network, no script and no other file."""
    style = source_file("base.css") + source_file("model.css")
    encoded = {
        section: {"title": figure.title, "data": base64.b64encode(figure.svg).decode()}
        for section, figure in page.figures.items()
    }
    return page_template("model.html.j2").render(
        **(vars(page) | {"figures": encoded}),
        style=style,
        policy=content_policy([], [style], images="data:"),
    )
