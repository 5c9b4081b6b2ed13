"""A row of example images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from kdgraph.figures.drawing import shorten_lines, write_text
from kdgraph.figures.run_figures import (
    RunFigureData,
    ood_set_title,
    register_figure,
    single_parameter,
)
from kdgraph.figures.style import (
    FULL_WIDTH,
    add_axes,
    draw_legend_above,
    legend_handles,
    legend_height,
    new_figure,
    shorten_text,
    style_context,
    styles_by_name,
)

if TYPE_CHECKING:
    from kdgraph.base import Predictions

_EDGE, _GAP, _LINE = 0.06, 0.08, 0.135  # inches
_MAX_IMAGE_SIZE = 1.25  # inches
_TITLE_SIZE = 7.5  # points


def plot_image_row(
    images: Sequence[np.ndarray],
    titles: Sequence[str],
    predictions: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Plot images in a row under their titles, above what models predict for them.

    Pixels are not interpolated, and all images have one scale from black to white.

    Parameters
    ----------
    images : sequence of Float[c, h, w] in [0, 1] or UInt8[c, h, w]
        Images with 1 channel (grey) or 3 channels (red, green, blue).
    titles : sequence of str
        Title of each image; a line break makes a second line.
    predictions : mapping of str to sequence of str, default=None
        Text of each model about each image, such as ``circle .98``, by model name. Each model is a
        line below the images in its own colour; the first name is the parent.

    Returns
    -------
    Figure
        Figure as wide as the page with 5 or more images, else narrower. With more images, each is
        smaller.

    Raises
    ------
    ValueError
        If there is no image, the number of titles or of predictions differs, a shape is not that of
        an image, or intensities are outside [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.figures import plot_image_row
    >>> images = np.random.default_rng(0).random((2, 1, 8, 8))
    >>> predictions = {"network": ["circle .98", "cross .97"], "kdn": ["circle .94", "cross .34"]}
    >>> figure = plot_image_row(images, ["test row", "noise"], predictions)
    >>> len(figure.axes)
    2
    """
    _check_images(images, titles)
    lines = dict(predictions or {})
    if wrong := [name for name, texts in lines.items() if len(texts) != len(images)]:
        raise ValueError(
            f"the predictions of {wrong[0]!r} must be {len(images)}, one for each image, got"
            f" {len(lines[wrong[0]])}"
        )
    n = len(images)
    side = min(_MAX_IMAGE_SIZE, (FULL_WIDTH - 2 * _EDGE - (n - 1) * _GAP) / n)
    height = max(side * image.shape[1] / image.shape[2] for image in images)
    above = 0.06 + _LINE * max(title.count("\n") + 1 for title in titles)
    with style_context():
        handles = legend_handles(list(lines))
        width = 2 * _EDGE + n * side + (n - 1) * _GAP
        below = _EDGE + _LINE * len(lines)
        figure = new_figure(width, below + height + above + legend_height(handles, width))
        draw_legend_above(figure, handles)
        for i, (image, title) in enumerate(zip(images, titles, strict=True)):
            left = _EDGE + i * (side + _GAP)
            for row, (name, style) in enumerate(styles_by_name(list(lines)).items()):
                text = shorten_text(figure, lines[name][i], _TITLE_SIZE, side)
                place = left + side / 2, below - _LINE * (row + 0.55)
                centered: dict[str, Any] = {"ha": "center", "va": "center", "color": style.color}
                write_text(figure, *place, text, fontsize=_TITLE_SIZE, **centered)
            axes = add_axes(figure, left, below, side, height)
            pixels = image.transpose(1, 2, 0) if len(image) == 3 else image[0]
            axes.imshow(
                pixels,
                cmap="gray",
                vmin=0,
                vmax=255 if image.dtype == np.uint8 else 1,
                origin="upper",
                interpolation="none",
            )
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            short = shorten_lines(figure, title, _TITLE_SIZE, side)
            axes.set_title(short, fontsize=_TITLE_SIZE, linespacing=1.1)
    return figure


def _check_images(images: Sequence[np.ndarray], titles: Sequence[str]) -> None:
    if len(images) == 0 or len(images) != len(titles):
        raise ValueError(
            f"image_row needs at least one image and a title for each, got {len(images)} images and"
            f" {len(titles)} titles"
        )
    for image, title in zip(images, titles, strict=True):
        if np.ndim(image) != 3 or len(image) not in (1, 3):
            raise ValueError(
                f"the image {title!r} must have shape (1 or 3 channels, height, width), got"
                f" {np.shape(image)}"
            )
        low, high = np.min(image), np.max(image)
        if image.dtype != np.uint8 and not (low >= 0 and high <= 1):  # NaN fails this too
            raise ValueError(f"the image {title!r} must lie in [0, 1], got {low:g} to {high:g}")


_MAX_CLASS_EXAMPLES = 4
"""Largest number of classes with a training image among the examples."""


@register_figure("example_images")
def plot_example_images_from_run(run: RunFigureData) -> Any:
    """Plot a test image of each of a few classes, and one of each OOD family.

    The image of a family is from the set that is farthest from the training data. Below each image
    are the class that each model predicts for it and its confidence.
    """
    test = run.splits.test
    if not test.are_images or test.X.shape[1] not in (1, 3):
        return None
    examples: dict[str, tuple[np.ndarray, Predictions, int]] = {}
    for k, label in enumerate(test.classes[:_MAX_CLASS_EXAMPLES].tolist()):
        if len(rows := np.flatnonzero(np.asarray(test.y) == k)):
            examples[str(label)] = test.X[rows[0]], run.test, int(rows[0])
    for family in run.families():
        farthest = max(family, key=distance_from_training)
        if farthest.example is not None:
            examples[ood_set_title(farthest)] = farthest.example, farthest, 0
    if not examples:
        return None
    texts: dict[str, list[str]] = {name: [] for name in run.names}
    for _, predictions, row in examples.values():
        for name, top_label in (run.top_labels(predictions) or {}).items():
            label = test.classes[top_label.predicted[row]]
            texts[name].append(f"{label}: {top_label.confidence[row]:.3f}")
    images = [image for image, _, _ in examples.values()]
    return plot_image_row(
        images, list(examples), {name: text for name, text in texts.items() if text}
    )


def distance_from_training(predictions: Predictions) -> float:
    """Return the distance of a set's parameter from the values of the training data.

    If the set does not define such values, the parameter itself is returned.
    """
    if len(predictions.params) != 1:
        return 0.0
    value = single_parameter(predictions)[1]
    return min((abs(value - id_value) for id_value in predictions.id_values), default=value)
