"""How all figures look: print sizes, colours by role, one style sheet, and saving without a trace
of when.

The colours of a posterior: blue, a neutral grey at "cannot say", yellow; lightness only rises, so
it prints in grey too.

Labels beside lines: each at its line's end, moved apart where they would overlap, and notes above
the axes.

A key above panels, in as many lines as its words need.

Means and standard deviations over runs, some of which may have no number.

Labelled rows of two features as dots, in the colours that a map of the first class's posterior has
where it is sure.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatterSciNotation

COLUMN_WIDTH = 3.5
"""Inches: one column of a two-column page."""
FULL_WIDTH = 7.0
"""Inches: both columns."""

BLACK, GREY = "#000000", "#6e6e6e"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#F0E442",
)
"""Okabe and Ito's colours, distinct with any colour vision (https://jfly.uni-koeln.de/color/)."""
ID_SHADE = "#ececec"
"""Fill of the region where the training data are."""


@dataclass(frozen=True)
class PlotStyle:
    """How one thing is drawn in every figure; the marker and the dashes carry it where there is no
    colour.
    """

    color: str
    linestyle: str | tuple[float, tuple[float, ...]] = "-"
    marker: str = "o"
    filled: bool = True

    def line(self) -> dict[str, Any]:
        """Keywords of ``Axes.plot``."""
        face = self.color if self.filled else "white"
        return {
            "color": self.color,
            "linestyle": self.linestyle,
            "marker": self.marker,
            "markerfacecolor": face,
            "markeredgewidth": 0.9,
        }


TRUTH_STYLE = PlotStyle(BLACK, marker="")
PARENT_STYLE = PlotStyle(GREY, linestyle=(0, (3.2, 1.6)), marker="s", filled=False)
METHOD_STYLES = (
    PlotStyle(BLUE),
    PlotStyle(VERMILLION, marker="^"),
    PlotStyle(GREEN, marker="D"),
    PlotStyle(PURPLE, marker="v"),
    PlotStyle(ORANGE, marker="P"),
    PlotStyle(SKY, marker="X"),
)


_DOTTED = (0, (1.0, 1.2))


def styles_by_name(names: Sequence[str]) -> dict[str, PlotStyle]:
    """Roles by position: the first name is the parent, the others are methods; "truth" is the truth
    wherever it stands.

    Beyond six methods colours come again, dotted and with hollow markers; beyond twelve methods
    looks repeat, and nothing tells the thirteenth from the first.
    """
    drawn = [name for name in names if name != "truth"]
    again = tuple(replace(role, linestyle=_DOTTED, filled=False) for role in METHOD_STYLES)
    by_position = (
        PARENT_STYLE,
        *((METHOD_STYLES + again)[i % (2 * len(METHOD_STYLES))] for i in range(len(drawn))),
    )
    return dict(zip(drawn, by_position, strict=False)) | (
        {"truth": TRUTH_STYLE} if "truth" in names else {}
    )


_REPRODUCIBLE_METADATA = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}
_RC_LOCK = threading.RLock()


@cache
def _rc_params() -> dict[Any, Any]:
    with as_file(files("kdgraph.figures") / "kdgraph.mplstyle") as path:
        ours = matplotlib.rc_params_from_file(path, use_default_template=False)
    theirs = {
        key: value
        for key, value in matplotlib.rcParamsDefault.items()
        if not key.startswith(("backend", "interactive"))
    }
    return theirs | dict(ours)


@contextmanager
def style_context() -> Iterator[None]:
    """Draw as kdgraph draws, whatever the user's matplotlibrc says; matplotlib's settings are
    global, so one thread at a time.
    """
    with _RC_LOCK, matplotlib.rc_context(_rc_params()):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure of this size in inches, with a canvas that can measure text."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def add_axes(
    figure: Figure, left: float, bottom: float, width: float, height: float, **more: Any
) -> Axes:
    """Axes at a place in inches from the figure's lower left corner."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes(
        (left / total_width, bottom / total_height, width / total_width, height / total_height),
        **more,
    )


def text_size(figure: Figure, text: str, size: float) -> tuple[float, float]:
    """Width and height in inches that ``text`` takes at ``size`` points."""
    drawn = figure.text(0, 0, text, fontsize=size, parse_math=False)
    box = drawn.get_window_extent()
    drawn.remove()
    return box.width / figure.dpi, box.height / figure.dpi


def shorten_text(figure: Figure, text: str, size: float, width: float) -> str:
    """``text``, with its middle left out if it would be wider than ``width`` inches: names of
    methods differ at both ends.
    """
    keep = len(text)
    short = text
    while keep > 2 and text_size(figure, short, size)[0] > width:
        keep -= 1
        short = f"{text[: (keep + 1) // 2]}…{text[len(text) - keep // 2 :]}"
    return short


def split_in_two_lines(figure: Figure, text: str, size: float, width: float) -> list[str]:
    """``text`` cut at the space nearest to its middle, if it is wider than ``width`` inches and has
    one.
    """
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


class PowerOfTenFormatter(LogFormatterSciNotation):
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
    axis.set_major_formatter(PowerOfTenFormatter())
    axis.set_minor_formatter(PowerOfTenFormatter())


_METADATA_KEYS = {
    "svg": ("Title", "Description"),
    "png": ("Title", "Description"),
    "pdf": ("Title", "Subject"),
}
"""What formats call a title and what is shown."""


def save_figure(
    figure: Figure,
    stem: Path | str,
    formats: Sequence[str] = ("svg", "png"),
    dpi: int = 200,
    *,
    title: str = "",
    shows: str = "",
) -> list[Path]:
    """Write ``stem.svg``, ``stem.png`` (or other formats that matplotlib knows) and return the
    paths.

    Sizes are exact (nothing is cropped), text stays text in SVG, and no date or version is written:
    the same figure gives the same bytes. ``dpi`` is dots an inch of PNG, and of what is rasterised
    in the others. ``title`` and what the figure ``shows`` go into the metadata of SVG, PDF and PNG.
    The folder must exist.
    """
    stem = Path(stem)
    paths = [
        stem.parent / f"{stem.name}.{kind}" for kind in formats
    ]  # with_suffix would cut a name such as "radius_1.5"
    with style_context():
        for path, kind in zip(paths, formats, strict=True):
            told = dict(zip(_METADATA_KEYS.get(kind, ()), (title, shows), strict=False))
            figure.savefig(
                path,
                format=kind,
                dpi=dpi,
                metadata=_REPRODUCIBLE_METADATA.get(kind, {})
                | {key: text for key, text in told.items() if text},
            )
    return paths


LOW, MIDDLE, HIGH = (0.36, -0.028, -0.118), (0.66, 0.0, 0.0), (0.92, -0.012, 0.168)
"""Ends and centre in OKLab (lightness, green-red, blue-yellow); both arms are equally long to 4
%.
"""


@cache
def posterior_colormap(n: int = 256) -> ListedColormap:
    """Make the diverging colour map of probabilities, neutral at the middle.

    Two straight lines in OKLab, a space in which equal distances look equally different (Ottosson,
    "A perceptual color space for image processing", 2020): equal steps of probability are equal
    steps of colour. Blue and yellow stay apart with any colour vision, and as lightness rises from
    end to end the two classes and the middle are three greys in black and white, which a map with a
    white middle cannot give.
    """
    at = np.linspace(0, 1, n)
    lab = np.stack(
        [np.interp(at, (0, 0.5, 1), ends) for ends in zip(LOW, MIDDLE, HIGH, strict=True)], axis=1
    )
    return ListedColormap(_oklab_to_srgb(lab), name="kdgraph_posterior")


def _oklab_to_srgb(lab: np.ndarray) -> np.ndarray:
    """Float[n, 3] in OKLab → Float[n, 3] in sRGB, clipped to [0, 1]."""
    to_lms = np.array(
        [
            [1, 0.3963377774, 0.2158037573],
            [1, -0.1055613458, -0.0638541728],
            [1, -0.0894841775, -1.2914855480],
        ]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((lab @ to_lms.T) ** 3 @ to_linear.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


LABEL_SIZE, NOTE_SIZE = 7.0, 6.5
"""Points."""
CurveBands = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Name → (lower, upper)."""


def spread_positions(
    wanted: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf
) -> np.ndarray:
    """Float[m]: positions nearest to the wanted ones (least squares) that keep their order and are
    at least ``gap`` apart.

    Neighbours that are too close are merged into a block around their mean, until no two blocks
    touch; what then leaves ``low`` to ``high`` is pushed back in, as far as there is room.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []
    for value in np.asarray(wanted, dtype=np.float64)[order]:
        blocks.append([float(value)])
        while (
            len(blocks) > 1
            and _lowest_position(blocks[-1], gap) - _highest_position(blocks[-2], gap) < gap
        ):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    placed = np.concatenate(
        [_lowest_position(block, gap) + gap * np.arange(len(block)) for block in blocks]
    )
    rank = np.arange(len(placed))
    placed = np.maximum(np.minimum(placed, high - gap * rank[::-1]), low + gap * rank)
    result = np.empty(len(order))
    result[order] = placed
    return result


def _lowest_position(block: list[float], gap: float) -> float:
    return float(np.mean(block)) - gap * (len(block) - 1) / 2


def _highest_position(block: list[float], gap: float) -> float:
    return float(np.mean(block)) + gap * (len(block) - 1) / 2


def label_line_ends(
    axes: Axes, labels: Sequence[str], ends: Sequence[float], colors: Sequence[str]
) -> None:
    """Name every line at its right end, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    height = axes.get_window_extent().height / axes.figure.dpi  # inches
    line_height = 1.25 * LABEL_SIZE / 72 / height * (high - low)
    for label, y, color in zip(
        labels,
        spread_positions(ends, line_height, low + line_height / 2, high - line_height / 2),
        colors,
        strict=True,
    ):
        axes.annotate(
            label,
            (1, y),
            (6, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            color=color,
            va="center",
            fontsize=LABEL_SIZE,
            annotation_clip=False,
        )


def note_above(
    axes: Axes, text: str, x: float, ha: Literal["left", "center"], points: float
) -> None:
    """Small grey text this many points above the axes, at ``x`` of the data."""
    where = axes.get_xaxis_transform()
    axes.annotate(
        text,
        (x, 1),
        (0, points),
        xycoords=where,
        textcoords="offset points",
        ha=ha,
        fontsize=NOTE_SIZE,
        color=GREY,
    )


def confidence_axis_start(lines: Iterable[np.ndarray | float]) -> float:
    """Where an axis of confidence begins: a multiple of .05 with some room below the lowest of
    these lines, Float[…] or numbers.
    """
    return max(0.0, float(np.floor(20 * min(float(np.min(line)) for line in lines) - 0.5) / 20))


_SPACING, _HANDLE, _PAD = (
    1.2,
    1.9,
    0.8,
)  # of the font size: between columns, a line, between a line and its words
_LINE, _ROOM, _LONGEST = 0.135, 0.06, 2.0  # inches: a line, below the last, the longest name


def legend_handles(names: Sequence[str]) -> list[Line2D]:
    """What says how curves of these names are drawn, the parent's first: of
    :func:`~kdgraph.figures.style.styles_by_name`.
    """
    blank = new_figure(1, 1)
    handles = [
        Line2D([], [], label=legend_label(shorten_text(blank, name, NOTE_SIZE, _LONGEST)))
        for name in names
    ]
    for handle, role in zip(handles, styles_by_name(names).values(), strict=True):
        handle.set(**role.line())
    return handles


def _legend_columns(handles: Sequence[Line2D], width: float) -> int:
    """How many entries fit beside each other into ``width`` inches; entries of one column have the
    width of its widest.
    """
    blank, em = new_figure(width, 1), NOTE_SIZE / 72
    each = [
        text_size(blank, str(handle.get_label()), NOTE_SIZE)[0] + (_HANDLE + _PAD + _SPACING) * em
        for handle in handles
    ]
    for columns in range(len(each), 1, -1):
        if (
            sum(part.max() for part in np.array_split(each, columns)) < width - 0.1
        ):  # a key is filled column by column, the first most
            return columns
    return 1


def legend_height(handles: Sequence[Line2D], width: float) -> float:
    """Inches that :func:`draw_legend_above` takes."""
    return _LINE * -(-len(handles) // _legend_columns(handles, width)) + _ROOM if handles else 0.0


def draw_legend_above(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Say at the upper edge what lines are."""
    if handles:
        figure.legend(
            handles=list(handles),
            ncols=_legend_columns(handles, figure.get_figwidth()),
            loc="upper center",
            borderaxespad=0.2,
            columnspacing=_SPACING,
            handlelength=_HANDLE,
            labelspacing=0.3,
            fontsize=NOTE_SIZE,
        )


def mean_and_sd_over_runs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float[b] each, of Float[s, b] or of one run's Float[b]: over the runs that have a number.

    The standard deviation is that of a sample, by s - 1. NaN where no run has a number, or, of the
    deviation, only one has.

    >>> mean, sd = mean_and_sd_over_runs(np.array([[1.0, 5.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean.tolist(), sd.round(3).tolist()
    ([2.0, 5.0, nan], [1.414, nan, nan])
    """
    values = np.atleast_2d(values)
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.where(n > 0, n, np.nan)
    square = np.square(np.where(known, values - mean, 0.0)).sum(axis=0)
    return mean, np.sqrt(square / np.where(n > 1, n - 1, np.nan))


# points; two thousand dots leave the shapes of panels three quarters of an inch wide visible
_SIZE = 1.1


def draw_class_points(axes: Axes, X: np.ndarray, y: np.ndarray) -> None:
    """Draw Float[n, 2] with labels Int[n], class 0 in the colour of probability 1 and the last
    class in that of 0, in order of rows.

    The dots are one image in SVG too: two thousand of them in each of five panels are 1.5 MB as
    paths.
    """
    last = max(int(y.max()), 1)
    axes.scatter(
        *X.T,
        s=_SIZE,
        c=posterior_colormap()(1 - y / last),
        linewidths=0,
        rasterized=True,
        gid="points",
    )


def check_class_points(name: str, X: np.ndarray, y: np.ndarray) -> None:
    """Refuse what is not two features, Float[n, 2], with a label each, Int[n].

    Raises
    ------
    ValueError
        One line that names the data.
    """
    if np.ndim(X) != 2 or np.shape(X)[1] != 2 or np.shape(y) != np.shape(X)[:1] or len(y) == 0:
        raise ValueError(
            f"the data {name!r} must be Float[n, 2] with labels Int[n], got shapes {np.shape(X)}"
            f" and {np.shape(y)}"
        )
