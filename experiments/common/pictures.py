"""Pictures of a paper: figures as SVG and PDF, the same bytes for the same figure, with titles.

``figures.csv`` of a paper has a row for every figure. ``files`` holds the stems of the drawn files,
relative to the folder of the paper; both .svg and .pdf exist. ``caption`` describes the picture,
``missing`` its differences from the published figure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.collections import Collection, LineCollection, PathCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kdgraph.figures import save_figure

AUTHORS = {  # Names of the papers in titles
    "p1": "Dey et al.",
    "p2": "Salamon et al.",
    "p3": "Tree-based OOD detection (TOOD)",
    "p4": "Luo et al.",
    "p5": "Torres et al.",
}
# Columns of every ``figures.csv``.
COLUMNS = ("figure", "page", "shows", "drawn_by", "files", "caption", "missing")
FORMATS = ("svg", "pdf")
# Number of points or cells above which an artist is drawn as pixels: 20,000 shapes are megabytes of
# SVG.
DENSE = 1500
DPI = 300  # Resolution of these pixels, sufficient for print


def figures_of(folder: Path) -> pd.DataFrame:
    """Return the rows of ``figures.csv`` of the paper in ``folder``, as text except the number."""
    listed = pd.read_csv(folder / "figures.csv", dtype=str, keep_default_na=False)
    if missing := [name for name in COLUMNS if name not in listed]:
        raise ValueError(
            f"{folder}/figures.csv must have the columns"
            f" {', '.join(COLUMNS)}; it lacks {', '.join(missing)}"
        )
    return listed.assign(figure=listed.figure.astype(int))


def save_picture(figure: Figure, stem: Path, paper: Path) -> list[Path]:
    """Write ``stem.svg`` and ``stem.pdf``, the same bytes for the same figure.

    Text stays text; artists with more than :data:`DENSE` points are drawn as pixels. Title and
    description are those of ``figures.csv``, or else the name.
    """
    title, shows = title_and_description(stem.name, paper)
    for artist in figure.findobj(is_dense):
        artist.set_rasterized(True)
    stem.parent.mkdir(parents=True, exist_ok=True)
    return save_figure(figure, stem, FORMATS, DPI, title=title, description=shows)


def save_and_report(figure: Figure, stem: Path, paper: Path) -> None:
    """Write a picture as :func:`save_picture`, and print its files to stderr."""
    for path in save_picture(figure, stem, paper):
        print(path, file=sys.stderr)


def title_and_description(name: str, paper: Path) -> tuple[str, str]:
    """Return title and description of the picture ``name`` of a paper, from ``figures.csv``."""
    listed = figures_of(paper)
    rows = listed[[name in (Path(stem).name for stem in stems.split()) for stems in listed.files]]
    if rows.empty:
        return f"{name.replace('_', ' ')}, on {AUTHORS[paper.name]}", ""
    numbers = ", ".join(str(number) for number in rows.figure)
    return f"Figure {numbers} of {AUTHORS[paper.name]}", "; ".join(dict.fromkeys(rows.shows))


def is_dense(artist: Artist) -> bool:
    """Return whether an artist has too many points for an SVG; a line's path is simplified."""
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
