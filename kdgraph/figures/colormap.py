"""The colours of a posterior: blue, a neutral grey at "cannot say", yellow; lightness only rises, so it prints in grey too."""

from __future__ import annotations

from functools import cache

import numpy as np
from matplotlib.colors import ListedColormap

LOW, MIDDLE, HIGH = (0.36, -0.028, -0.118), (0.66, 0.0, 0.0), (0.92, -0.012, 0.168)
"""Ends and centre in OKLab (lightness, green-red, blue-yellow); both arms are equally long to 4 %."""


@cache
def posterior_colormap(n: int = 256) -> ListedColormap:
    """Make the diverging colour map of probabilities, neutral at the middle.

    Two straight lines in OKLab, a space in which equal distances look equally different (Ottosson, "A perceptual color space for
    image processing", 2020): equal steps of probability are equal steps of colour. Blue and yellow stay apart with any
    colour vision, and as lightness rises from end to end the two classes and the middle are three greys in black and white,
    which a map with a white middle cannot give.
    """
    at = np.linspace(0, 1, n)
    lab = np.stack([np.interp(at, (0, 0.5, 1), ends) for ends in zip(LOW, MIDDLE, HIGH, strict=True)], axis=1)
    return ListedColormap(_srgb(lab), name="kdgraph_posterior")


def _srgb(lab: np.ndarray) -> np.ndarray:
    """Float[n, 3] in OKLab → Float[n, 3] in sRGB, clipped to [0, 1]."""
    to_lms = np.array([[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]])
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((lab @ to_lms.T) ** 3 @ to_linear.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
