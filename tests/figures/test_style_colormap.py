"""Tests of the colour map of posteriors: neutral middle, even steps, any colour vision."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import posterior_colormap

# Machado, Oliveira, Fernandes 2009, severity 1.0, for linear RGB
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
TRITANOPIA = [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.303900],
]


def to_cielab(linear: np.ndarray) -> np.ndarray:
    """Convert linear RGB to CIELAB under D65, a space independent of that of the map."""
    xyz = (
        linear
        @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
        / [0.9505, 1, 1.089]
    )
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack(
        [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1
    )


def cie94(lab: np.ndarray) -> np.ndarray:
    """Return the CIE 1994 colour differences of neighbours."""
    chroma = np.hypot(lab[:, 1], lab[:, 2])
    lightness, saturation = np.diff(lab[:, 0]), np.diff(chroma)
    hue2 = np.clip((np.diff(lab[:, 1:], axis=0) ** 2).sum(axis=1) - saturation**2, 0, None)
    weight = 1 + 0.045 * chroma[:-1]
    return np.sqrt(
        lightness**2 + (saturation / weight) ** 2 + hue2 / (1 + 0.015 * chroma[:-1]) ** 2
    )


def linear_colors(n: int = 257) -> np.ndarray:
    srgb = posterior_colormap(n)(np.arange(n))[:, :3]
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def test_middle_is_neutral() -> None:
    red, green, blue, _ = posterior_colormap(257)(128)
    assert max(red, green, blue) - min(red, green, blue) < 0.005  # half a step of 8-bit colour


def test_lightness_increases_with_three_distinct_greys() -> None:
    lightness = to_cielab(linear_colors())[:, 0]
    assert (np.diff(lightness) > 0).all()
    assert lightness[128] - lightness[0] > 25  # of 100
    assert lightness[-1] - lightness[128] > 25


def test_equal_steps_have_similar_colour_differences() -> None:
    steps = cie94(to_cielab(linear_colors()))
    assert steps[:128].sum() == pytest.approx(steps[128:].sum(), rel=0.1)
    # CIE94 weights chroma near grey more than OKLab does, in which the steps are equal.
    assert steps.max() / steps.min() < 2.5


def test_ends_and_middle_are_distinct_for_any_colour_vision() -> None:
    for simulation in (PROTANOPIA, DEUTERANOPIA, TRITANOPIA):
        low, middle, high = to_cielab(np.clip(linear_colors(3) @ np.array(simulation).T, 0, 1))
        # A difference of 2.3 is just noticeable.
        assert min(np.linalg.norm(low - middle), np.linalg.norm(middle - high)) > 25
