"""Pictures of a paper: each figure as SVG and PDF, which differ only where the figure does, with a
title that says which figure it is.

``figures.csv`` of a paper has a row for each of its figures. ``files`` holds the stems of what was
drawn, relative to the folder of the paper and without ending; each is there as .svg and .pdf.
``caption`` says what ours shows, ``missing`` what keeps it from being the paper's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kdgraph.figures import save_figure

AUTHORS = {
    "p1": "Dey et al.",
    "p2": "Salamon et al.",
    "p3": "Tree-based OOD detection (TOOD)",
    "p4": "Luo et al.",
    "p5": "Torres et al.",
}
"""How titles call the papers."""
COLUMNS = ("figure", "page", "shows", "drawn_by", "files", "caption", "missing")
"""That every ``figures.csv`` has."""
FORMATS = ("svg", "pdf")
DENSE = 1500
"""Points or cells of one artist, from which on it is drawn as pixels: as shapes, 20,000 of them are
megabytes of SVG.
"""
DPI = 300
"""Of those pixels: print's, also of a picture that is as wide as a page."""


def figures_of(folder: Path) -> pd.DataFrame:
    """A row for each figure of the paper in ``folder``: ``figures.csv``, all of it text, the number
    of the figure aside.

    Raises
    ------
    ValueError
        A column is missing.
    """
    listed = pd.read_csv(folder / "figures.csv", dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in listed]:
        raise ValueError(
            f"{folder}/figures.csv must have the columns {', '.join(COLUMNS)}; it lacks"
            f" {', '.join(missing)}"
        )
    return listed.assign(figure=listed.figure.astype(int))


def save_picture(figure: Figure, stem: Path, paper: Path) -> list[Path]:
    """Write ``stem.svg`` and ``stem.pdf``; the folder is made where there is none.

    The same figure gives the same bytes. Text stays text; what has more than :data:`DENSE` points
    is drawn as pixels.

    Parameters
    ----------
    figure : what was drawn.
    stem : where to, without ending.
    paper : folder of the paper, whose ``figures.csv`` says which figure a picture of this name is,
        and what it shows; any other has its name for a title.
    """
    title, shows = title_and_description(stem.name, paper)
    for artist in figure.findobj(is_dense):
        artist.set_rasterized(True)
    stem.parent.mkdir(parents=True, exist_ok=True)
    return save_figure(figure, stem, FORMATS, DPI, title=title, description=shows)


def title_and_description(name: str, paper: Path) -> tuple[str, str]:
    """The title of the picture ``name`` of a paper, and what it shows as ``figures.csv`` says."""
    listed = figures_of(paper)
    mine = listed[[name in (Path(stem).name for stem in stems.split()) for stems in listed.files]]
    if mine.empty:
        return f"{name.replace('_', ' ')}, on {AUTHORS[paper.name]}", ""
    numbers = ", ".join(str(number) for number in mine.figure)
    return f"Figure {numbers} of {AUTHORS[paper.name]}", "; ".join(dict.fromkeys(mine.shows))


def is_dense(artist: Artist) -> bool:
    """Whether as shapes it would be too much for an SVG; a line is, with many times as many points,
    since its path is simplified.
    """
    return _n_points(artist) > DENSE


def _n_points(artist: Any) -> int:
    if isinstance(artist, QuadMesh):
        return np.asarray(artist.get_array()).size
    if isinstance(artist, PathCollection):
        return len(np.asarray(artist.get_offsets()))
    if isinstance(artist, LineCollection):
        return len(artist.get_paths())
    if isinstance(artist, Collection):
        return sum(len(path) for path in artist.get_paths()) // 20
    if isinstance(artist, Line2D):
        n = np.size(artist.get_xdata())
        return n if artist.get_marker() not in (None, "", "None", "none", " ") else n // 20
    return 0
