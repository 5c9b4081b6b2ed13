"""Small arrays to draw, and checks of every figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from kdgraph.metrics import ReliabilityBins, reliability_bins


@pytest.fixture
def maps() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "truth": rng.random((20, 20)),
        "random forest": rng.random((20, 20)),
        "kdf": np.full((20, 20), 0.5),
    }


@pytest.fixture
def bins() -> dict[str, ReliabilityBins]:
    rng = np.random.default_rng(0)
    confidence = {"random forest": rng.uniform(0.55, 0.9, 300), "kdf": rng.uniform(0.5, 1, 300)}
    return {name: reliability_bins(c, rng.random(300) < c) for name, c in confidence.items()}


@pytest.fixture
def curves() -> dict[str, np.ndarray]:
    return {
        "random forest": np.array([0.9, 0.88, 0.85, 0.86]),
        "kdf": np.array([0.9, 0.8, 0.5, 0.5]),
    }


@pytest.fixture
def texts_of() -> Callable[[Figure], list[str]]:
    """Return a function that returns all visible text of a figure."""
    return lambda figure: [
        artist.get_text()
        for artist in figure.findobj(Text)
        if artist.get_text() and artist.get_visible()
    ]


@pytest.fixture
def assert_legible() -> Callable[[Figure], None]:
    """Return a check that no text leaves the figure and no two texts overlap."""

    def check(figure: Figure) -> None:
        figure.draw_without_rendering()  # sets all positions without computing pixels
        width, height = figure.bbox.size
        text_boxes = [(t.get_text(), t.get_window_extent()) for t in _visible_texts(figure)]
        for text, box in text_boxes:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            assert inside, f"{text!r} leaves the figure"
        for i, (text, box) in enumerate(text_boxes):
            for second_text, second_box in text_boxes[i + 1 :]:
                assert not box.padded(-0.5).overlaps(second_box.padded(-0.5)), (
                    f"{text!r} overlaps {second_text!r}"
                )

    return check


def _visible_texts(figure: Figure) -> list[Text]:
    """Return the texts that are drawn, without the labels of ticks outside of the limits."""
    hidden_labels = set()
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low - 1e-9 <= tick.get_loc() <= high + 1e-9 or not tick.label1.get_visible():
                    hidden_labels |= {tick.label1}
                hidden_labels |= {tick.label2}
    return [
        artist
        for artist in figure.findobj(Text)
        if artist.get_text().strip() and artist.get_visible() and artist not in hidden_labels
    ]
