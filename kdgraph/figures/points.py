"""Labelled rows of two features as dots, in the colours that a map of the first class's posterior has where it is sure."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from kdgraph.figures.colormap import posterior_colormap

_SIZE = 1.1  # points; two thousand dots leave the shapes of panels three quarters of an inch wide visible


def class_points(axes: Axes, X: np.ndarray, y: np.ndarray) -> None:
    """Draw Float[n, 2] with labels Int[n], class 0 in the colour of probability 1 and the last class in that of 0, in order of rows.

    The dots are one image in SVG too: two thousand of them in each of five panels are 1.5 MB as paths.
    """
    last = max(int(y.max()), 1)
    axes.scatter(*X.T, s=_SIZE, c=posterior_colormap()(1 - y / last), linewidths=0, rasterized=True, gid="points")


def check_points(name: str, X: np.ndarray, y: np.ndarray) -> None:
    """Refuse what is not two features, Float[n, 2], with a label each, Int[n].

    Raises
    ------
    ValueError
        One line that names the data.
    """
    if np.ndim(X) != 2 or np.shape(X)[1] != 2 or np.shape(y) != np.shape(X)[:1] or len(y) == 0:
        raise ValueError(f"the data {name!r} must be Float[n, 2] with labels Int[n], got shapes {np.shape(X)} and {np.shape(y)}")
