"""Common appearance of all figures.

The module contains the style sheet, print sizes in inches, the colours and markers of parents and
methods, the colour map of probabilities, placement of labels, legends, and saving. Figures are
saved without dates and versions, so the same figure always gives the same bytes. Functions draw on
:class:`matplotlib.figure.Figure` directly and never use pyplot.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from itertools import chain, cycle
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
"""Width of one column of a two-column page, in inches."""
FULL_WIDTH = 7.0
"""Width of both columns, in inches."""

BLACK, GREY = "#000000", "#6e6e6e"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442"),
)
"""Colours of Okabe and Ito, distinct with any colour vision (https://jfly.uni-koeln.de/color/)."""
ID_SHADE = "#ececec"
"""Fill of the region of the training data."""


@dataclass(frozen=True)
class PlotStyle:
    """Line and marker of one curve, the same in every figure.

    Marker and dashes identify the curve where colours cannot be seen.

    ``linestyle`` contains dashes as matplotlib defines them. Markers that are not ``filled`` are
    white inside.
    """

    color: str
    linestyle: str | tuple[float, tuple[float, ...]] = "-"
    marker: str = "o"
    filled: bool = True

    def line(self, **more: Any) -> dict[str, Any]:
        """Return keyword arguments for ``Axes.plot``; ``more`` add to them or replace them."""
        face = self.color if self.filled else "white"
        return {
            "color": self.color,
            "linestyle": self.linestyle,
            "marker": self.marker,
            "markerfacecolor": face,
            "markeredgewidth": 0.9,
            **more,
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
    """Return the style of each curve, which depends on its position.

    The first name is the parent, the others are methods. The name "truth" has its own style at any
    position. Methods 7 to 12 have the colours of methods 1 to 6 again, with dotted lines and hollow
    markers. From the 13th method on, styles repeat and cannot be distinguished.
    """
    model_names = [name for name in names if name != "truth"]
    dotted_styles = tuple(
        replace(style, linestyle=_DOTTED, filled=False) for style in METHOD_STYLES
    )
    by_position = chain([PARENT_STYLE], cycle(METHOD_STYLES + dotted_styles))
    return dict(zip(model_names, by_position, strict=False)) | (
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
        kdgraph_params = matplotlib.rc_params_from_file(path, use_default_template=False)
    default_params = {
        key: value
        for key, value in matplotlib.rcParamsDefault.items()
        if not key.startswith(("backend", "interactive"))
    }
    return default_params | dict(kdgraph_params)


@contextmanager
def style_context() -> Iterator[None]:
    """Draw with the style sheet of kdgraph inside a ``with`` block.

    The user's matplotlibrc has no effect inside. The settings of matplotlib are global, so only one
    thread draws at a time.

    Examples
    --------
    >>> with style_context():
    ...     Figure(figsize=(3.5, 2)).add_subplot().spines["top"].get_visible()
    False
    """
    with _RC_LOCK, matplotlib.rc_context(_rc_params()):
        yield


_NOTEBOOK_DPI, _NOTEBOOK_SCALE = 200, 1.25
"""Resolution of a figure in a notebook, and its size there by the size in print."""


class DisplayedFigure(Figure):
    """Figure that a notebook shows if it is the last value of a cell.

    IPython shows other figures only after pyplot has been imported, which nothing here does.
    """

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the PNG file for IPython, and the size in pixels at which it is displayed."""
        content = io.BytesIO()
        with style_context():
            self.savefig(
                content, format="png", dpi=_NOTEBOOK_DPI, metadata=_REPRODUCIBLE_METADATA["png"]
            )
        # CSS has 96 pixels in an inch. The file has more, for screens of high resolution.
        width, height = (round(96 * _NOTEBOOK_SCALE * inches) for inches in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, with a canvas that can measure text."""
    figure = DisplayedFigure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def add_axes(
    figure: Figure, left: float, bottom: float, width: float, height: float, **more: Any
) -> Axes:
    """Add axes at a position and of a size in inches; ``more`` is for ``Figure.add_axes``."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes(
        (left / total_width, bottom / total_height, width / total_width, height / total_height),
        **more,
    )


def text_size(figure: Figure, text: str, size: float) -> tuple[float, float]:
    """Return width and height in inches of ``text`` at ``size`` points."""
    artist = figure.text(0, 0, text, fontsize=size, parse_math=False)
    box = artist.get_window_extent()
    artist.remove()
    return box.width / figure.dpi, box.height / figure.dpi


def shorten_text(figure: Figure, text: str, size: float, width: float) -> str:
    """Return ``text`` without its middle if it is wider than ``width`` inches.

    The middle is removed because names of methods differ at both ends.
    """
    # Letters have different widths, so every candidate is measured.
    n_letters = len(text)
    short = text
    while n_letters > 2 and text_size(figure, short, size)[0] > width:
        n_letters -= 1
        short = f"{text[: (n_letters + 1) // 2]}…{text[len(text) - n_letters // 2 :]}"
    return short


def split_in_two_lines(figure: Figure, text: str, size: float, width: float) -> list[str]:
    """Split ``text`` at the space nearest to its middle if it is too wide.

    Text that is at most ``width`` inches wide, or has no space, stays on one line.
    """
    spaces = [i for i, letter in enumerate(text) if letter == " "]
    if not spaces or text_size(figure, text, size)[0] <= width:
        return [text]
    cut = min(spaces, key=lambda i: abs(i - len(text) / 2))
    return [text[:cut], text[cut + 1 :]]


def legend_label(name: str) -> str:
    """Return ``name`` as a label that a legend shows.

    A legend omits entries whose label begins with an underscore. A hair space is therefore put
    before such a name.
    """
    return f"\N{HAIR SPACE}{name}" if name.startswith("_") else name


class PowerOfTenFormatter(LogFormatterSciNotation):
    """Formatter of tick labels such as 10⁻³, without mathtext."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of the tick at ``x``, or "" if the tick has none."""
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
"""Metadata keys of each file format for the title and the description."""


def save_figure(
    figure: Figure,
    stem: Path | str,
    formats: Sequence[str] = ("svg", "png"),
    dpi: int = 200,
    *,
    title: str = "",
    description: str = "",
) -> list[Path]:
    """Write a figure to ``stem.svg``, ``stem.png`` or other formats.

    Sizes are exact, since nothing is cropped. Text stays text in SVG. No date and no version is
    written, so the same figure gives the same bytes.

    Parameters
    ----------
    figure : Figure
        Figure to be saved.
    stem : Path or str
        Path without the suffix; the folder must exist.
    formats : sequence of str, default=("svg", "png")
        Formats that matplotlib supports.
    dpi : int, default=200
        Dots per inch of PNG files, and of rasterised parts in other formats.
    title, description : str, default=""
        Title and description in the metadata of SVG, PDF and PNG files.

    Returns
    -------
    list of Path
        The written files, in the order of ``formats``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> figure = new_figure(COLUMN_WIDTH, 2)
    >>> with TemporaryDirectory() as folder:
    ...     paths = save_figure(figure, Path(folder) / "radius_1.5", formats=["svg", "pdf"])
    >>> [path.name for path in paths]
    ['radius_1.5.svg', 'radius_1.5.pdf']
    """
    stem = Path(stem)
    # Path.with_suffix would cut a name such as "radius_1.5".
    paths = [stem.parent / f"{stem.name}.{kind}" for kind in formats]
    for path, kind in zip(paths, formats, strict=True):
        path.write_bytes(figure_bytes(figure, kind, dpi, title=title, description=description))
    return paths


def figure_bytes(
    figure: Figure, kind: str, dpi: int = 200, *, title: str = "", description: str = ""
) -> bytes:
    """Return the content of a file of format ``kind``, with options of :func:`save_figure`."""
    texts = dict(zip(_METADATA_KEYS.get(kind, ()), (title, description), strict=False))
    metadata = _REPRODUCIBLE_METADATA.get(kind, {}) | {k: text for k, text in texts.items() if text}
    buffer = io.BytesIO()
    with style_context():
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


LOW, MIDDLE, HIGH = (0.36, -0.028, -0.118), (0.66, 0.0, 0.0), (0.92, -0.012, 0.168)
"""Ends and centre in OKLab (lightness, green-red, blue-yellow).

The lengths of the two arms differ by 4 %.
"""


@cache
def posterior_colormap(n: int = 256) -> ListedColormap:
    """Return the diverging colour map of probabilities, neutral at the middle.

    Low probabilities are blue, high ones yellow. The map consists of two straight lines in OKLab, a
    space in which equal distances look equally different (Ottosson, "A perceptual color space for
    image processing", 2020). Equal steps of probability are therefore equal steps of colour. Blue
    and yellow are distinct with any colour vision. Lightness rises from end to end, so the two
    classes and the middle are three greys in black and white; with a white middle they are two.

    Parameters
    ----------
    n : int, default=256
        Number of colours.

    Returns
    -------
    ListedColormap
        Colour map named "kdgraph_posterior".

    Examples
    --------
    >>> [round(float(channel), 1) for channel in posterior_colormap()(0.5)]
    [0.6, 0.6, 0.6, 1.0]
    """
    positions = np.linspace(0, 1, n)
    lab = np.stack(
        [np.interp(positions, (0, 0.5, 1), ends) for ends in zip(LOW, MIDDLE, HIGH, strict=True)],
        axis=1,
    )
    return ListedColormap(_oklab_to_srgb(lab), name="kdgraph_posterior")


def _oklab_to_srgb(lab: np.ndarray) -> np.ndarray:
    """Convert Float[n, 3] in OKLab to Float[n, 3] in sRGB, clipped to [0, 1]."""
    # The matrices are Ottosson's. The first leads to cube roots of cone responses (LMS), the second
    # from cone responses to linear RGB, which the last line encodes as sRGB.
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
"""Font sizes in points."""
CurveBands = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Lower and upper limit of each curve, by name."""


def spread_positions(
    targets: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf
) -> np.ndarray:
    """Return positions close to the targets that are at least ``gap`` apart.

    The positions, Float[m] in the order of the m targets, minimise the sum of squared distances to
    the targets. They are outside of ``low`` to ``high`` only if there is not enough space.
    """
    # Pool adjacent violators: neighbours that are too close are merged into a block around their
    # mean, until no two blocks touch. Blocks that leave the range are then pushed back into it.
    order = np.argsort(targets, kind="stable")
    blocks: list[list[float]] = []
    for value in np.asarray(targets, dtype=np.float64)[order]:
        blocks.append([float(value)])
        while (
            len(blocks) > 1
            and _lowest_position(blocks[-1], gap) - _highest_position(blocks[-2], gap) < gap
        ):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    positions = np.concatenate(
        [_lowest_position(block, gap) + gap * np.arange(len(block)) for block in blocks]
    )
    rank = np.arange(len(positions))
    positions = np.maximum(np.minimum(positions, high - gap * rank[::-1]), low + gap * rank)
    result = np.empty(len(order))
    result[order] = positions
    return result


def _lowest_position(block: list[float], gap: float) -> float:
    return float(np.mean(block)) - gap * (len(block) - 1) / 2


def _highest_position(block: list[float], gap: float) -> float:
    return float(np.mean(block)) + gap * (len(block) - 1) / 2


def label_line_ends(
    axes: Axes, labels: Sequence[str], ends: Sequence[float], colors: Sequence[str]
) -> None:
    """Write the name of every line at its right end without overlaps.

    The vertical scale is linear; ``ends`` are the values of the lines at their right ends.
    """
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
    """Write small grey text above the axes, at ``x`` in data units, ``points`` points higher."""
    axes.annotate(
        text,
        (x, 1),
        (0, points),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha=ha,
        fontsize=NOTE_SIZE,
        color=GREY,
    )


def confidence_axis_start(lines: Iterable[np.ndarray | float]) -> float:
    """Return the lower limit of an axis of confidence.

    It is a multiple of .05 with some space below the lowest value of all lines, Float[…].
    """
    return max(0.0, float(np.floor(20 * min(float(np.min(line)) for line in lines) - 0.5) / 20))


# In units of the font size: distance of columns, length of a line, distance of line and label.
_SPACING, _HANDLE, _PAD = 1.2, 1.9, 0.8
# Inches: height of a line of the legend, space below the last line, longest name.
_LINE, _LEGEND_MARGIN, _LONGEST = 0.135, 0.06, 2.0


def legend_handles(names: Sequence[str]) -> list[Line2D]:
    """Return legend handles for the curves, the parent's first.

    The styles are those of :func:`styles_by_name`.
    """
    blank = new_figure(1, 1)
    handles = [
        Line2D([], [], label=legend_label(shorten_text(blank, name, NOTE_SIZE, _LONGEST)))
        for name in names
    ]
    for handle, style in zip(handles, styles_by_name(names).values(), strict=True):
        handle.set(**style.line())
    return handles


def _legend_columns(handles: Sequence[Line2D], width: float) -> int:
    """Return how many columns of entries fit into ``width`` inches.

    All entries of a column have the width of the widest one.
    """
    blank, em = new_figure(width, 1), NOTE_SIZE / 72
    widths = [
        text_size(blank, str(handle.get_label()), NOTE_SIZE)[0] + (_HANDLE + _PAD + _SPACING) * em
        for handle in handles
    ]
    for columns in range(len(widths), 1, -1):
        # A legend is filled column by column; the first columns get the most entries.
        split = np.array_split(widths, columns)
        if sum(column_widths.max() for column_widths in split) < width - 0.1:
            return columns
    return 1


def legend_height(handles: Sequence[Line2D], width: float) -> float:
    """Return the height in inches of :func:`draw_legend_above`."""
    return (
        _LINE * -(-len(handles) // _legend_columns(handles, width)) + _LEGEND_MARGIN
        if handles
        else 0.0
    )


def draw_legend_above(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Draw a legend at the upper edge of the figure."""
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
    """Return mean and standard deviation, Float[b], over the runs that have a number.

    ``values`` are Float[s, b], a row for each of s runs, or Float[b] of one run; NaN where a run
    has no number. The mean is NaN if no run has a number, the standard deviation, with divisor
    s - 1, if fewer than two have one.

    >>> mean, sd = mean_and_sd_over_runs(np.array([[1.0, 5.0, np.nan], [3.0, np.nan, np.nan]]))
    >>> mean.tolist(), sd.round(3).tolist()
    ([2.0, 5.0, nan], [1.414, nan, nan])
    """
    values = np.atleast_2d(values)
    has_number = ~np.isnan(values)
    n = has_number.sum(axis=0)
    mean = np.where(has_number, values, 0.0).sum(axis=0) / np.where(n > 0, n, np.nan)
    sum_of_squares = np.square(np.where(has_number, values - mean, 0.0)).sum(axis=0)
    return mean, np.sqrt(sum_of_squares / np.where(n > 1, n - 1, np.nan))
