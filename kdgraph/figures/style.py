"""How all figures look: print sizes, colours by role, one style sheet, and saving without a trace of when."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

COLUMN_WIDTH = 3.5
"""Inches: one column of a two-column page."""
FULL_WIDTH = 7.0
"""Inches: both columns."""

BLACK, GREY = "#000000", "#6e6e6e"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442"
"""Okabe and Ito's colours, distinct with any colour vision (https://jfly.uni-koeln.de/color/)."""
ID_SHADE = "#ececec"
"""Fill of the region where the training data are."""


@dataclass(frozen=True)
class Role:
    """How one thing is drawn in every figure; the marker and the dashes carry it where there is no colour."""

    color: str
    linestyle: str | tuple[float, tuple[float, ...]] = "-"
    marker: str = "o"
    filled: bool = True

    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        face = self.color if self.filled else "white"
        return {"color": self.color, "linestyle": self.linestyle, "marker": self.marker, "markerfacecolor": face, "markeredgewidth": 0.9}


TRUTH = Role(BLACK, marker="")
PARENT = Role(GREY, linestyle=(0, (3.2, 1.6)), marker="s", filled=False)
METHODS = (
    Role(BLUE),
    Role(VERMILLION, marker="^"),
    Role(GREEN, marker="D"),
    Role(PURPLE, marker="v"),
    Role(ORANGE, marker="P"),
    Role(SKY, marker="X"),
)


_DOTTED = (0, (1.0, 1.2))


def roles(names: Sequence[str]) -> dict[str, Role]:
    """Roles by position: the first name is the parent, the others are methods; "truth" is the truth wherever it stands.

    Beyond six methods colours come again, dotted and with hollow markers; beyond twelve methods looks repeat, and nothing tells the
    thirteenth from the first.
    """
    drawn = [name for name in names if name != "truth"]
    again = tuple(replace(role, linestyle=_DOTTED, filled=False) for role in METHODS)
    by_position = (PARENT, *((METHODS + again)[i % (2 * len(METHODS))] for i in range(len(drawn))))
    return dict(zip(drawn, by_position, strict=False)) | ({"truth": TRUTH} if "truth" in names else {})


_NO_TRACE = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
_lock = threading.RLock()


@cache
def _settings() -> dict[Any, Any]:
    with as_file(files("kdgraph.figures") / "kdgraph.mplstyle") as path:
        ours = matplotlib.rc_params_from_file(path, use_default_template=False)
    theirs = {key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith(("backend", "interactive"))}
    return theirs | dict(ours)


@contextmanager
def styled() -> Iterator[None]:
    """Draw as kdgraph draws, whatever the user's matplotlibrc says; matplotlib's settings are global, so one thread at a time."""
    with _lock, matplotlib.rc_context(_settings()):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure of this size in inches, with a canvas that can measure text."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float, **more: Any) -> Axes:
    """Axes at a place in inches from the figure's lower left corner."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes((left / total_width, bottom / total_height, width / total_width, height / total_height), **more)


def text_size(figure: Figure, text: str, size: float) -> tuple[float, float]:
    """Width and height in inches that ``text`` takes at ``size`` points."""
    drawn = figure.text(0, 0, text, fontsize=size, parse_math=False)
    box = drawn.get_window_extent()
    drawn.remove()
    return box.width / figure.dpi, box.height / figure.dpi


def fitted(figure: Figure, text: str, size: float, width: float) -> str:
    """``text``, with its middle left out if it would be wider than ``width`` inches: names of methods differ at both ends."""
    keep = len(text)
    short = text
    while keep > 2 and text_size(figure, short, size)[0] > width:
        keep -= 1
        short = f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :]}"
    return short


def two_lines(figure: Figure, text: str, size: float, width: float) -> list[str]:
    """``text`` cut at the space nearest to its middle, if it is wider than ``width`` inches and has one."""
    spaces = [i for i, letter in enumerate(text) if letter == " "]
    if not spaces or text_size(figure, text, size)[0] <= width:
        return [text]
    cut = min(spaces, key=lambda i: abs(i - len(text) / 2))
    return [text[:cut], text[cut + 1 :]]


def legend_label(name: str) -> str:
    """Return ``name`` as a label that a legend shows.

    A legend that collects its entries leaves out those whose label begins with an underscore. A
    hair space in front keeps the name in it.
    """
    return f"\N{HAIR SPACE}{name}" if name.startswith("_") else name


class PowersOfTen(LogFormatterSciNotation):
    """Tick labels such as 10⁻³, chosen as matplotlib chooses them, without its mathtext."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of the tick at ``x``, "" where it has none."""
        mathtext = super().__call__(x, pos)
        text = mathtext.removeprefix(r"$\mathdefault{").removesuffix("}$").replace(r"\times", "×")
        return re.sub(r"\^\{(-?\d+)\}", lambda power: power[1].translate(_SUPERSCRIPT), text)


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def set_log_scale(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, with powers of ten at its ticks."""
    axes.set(**{f"{which}scale": "log"})
    axis = {"x": axes.xaxis, "y": axes.yaxis}[which]
    axis.set_major_formatter(PowersOfTen())
    axis.set_minor_formatter(PowersOfTen())


_TOLD = {"svg": ("Title", "Description"), "png": ("Title", "Description"), "pdf": ("Title", "Subject")}
"""What formats call a title and what is shown."""


def save(
    figure: Figure, stem: Path | str, formats: Sequence[str] = ("svg", "png"), dpi: int = 200, *, title: str = "", shows: str = ""
) -> list[Path]:
    """Write ``stem.svg``, ``stem.png`` (or other formats that matplotlib knows) and return the paths.

    Sizes are exact (nothing is cropped), text stays text in SVG, and no date or version is written: the same figure gives the
    same bytes. ``dpi`` is dots an inch of PNG, and of what is rasterised in the others. ``title`` and what the figure ``shows`` go into
    the metadata of SVG, PDF and PNG. The folder must exist.
    """
    stem = Path(stem)
    paths = [stem.parent / f"{stem.name}.{kind}" for kind in formats]  # with_suffix would cut a name such as "radius_1.5"
    with styled():
        for path, kind in zip(paths, formats, strict=True):
            told = dict(zip(_TOLD.get(kind, ()), (title, shows), strict=False))
            figure.savefig(path, format=kind, dpi=dpi, metadata=_NO_TRACE.get(kind, {}) | {key: text for key, text in told.items() if text})
    return paths
