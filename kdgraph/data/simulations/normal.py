"""The normal distribution on a line, in an interval and around a circle, and the quadrature that averages it.

Textbook formulas; SciPy's ``ndtr`` and NumPy's Gauss-Legendre nodes do the work.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def log_normal(distance: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Log density of N(0, std²) at ``distance``, elementwise."""
    return -0.5 * (distance / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))


def normal_mass(low: np.ndarray | float, high: np.ndarray | float, std: float) -> np.ndarray:
    """P(low < N(0, std²) < high), elementwise."""
    from scipy.special import ndtr  # here, not above: a command line that only lists configurations must not wait for scipy

    return ndtr(np.asarray(high) / std) - ndtr(np.asarray(low) / std)


def log_wrapped_normal(angle: np.ndarray, std: np.ndarray | float) -> np.ndarray:
    """Log density, per radian, of N(0, std²) wrapped around the circle, elementwise.

    W(a) = Σ_j exp(-(a + 2πj)² / 2 std²) / (std √2π), the sum taken relative to the image nearest to 0, so that it cannot underflow.
    """
    # From std = 9 on, the wrapped density is 1/2π to the last bit (its first harmonic is exp(-std²/2) = 3e-18), and so is that of 9.
    std = np.minimum(std, 9.0)
    nearest = np.remainder(angle + np.pi, 2 * np.pi) - np.pi
    reach = int(np.ceil(9 * np.max(std, initial=0.0) / (2 * np.pi))) + 1
    relative = sum(np.exp(-2 * np.pi * j * (nearest + np.pi * j) / std**2) for j in range(-reach, reach + 1))
    return log_normal(nearest, std) + np.log(relative)


def integral(function: Callable[[np.ndarray], np.ndarray], low: float, high: float, panels: int = 256) -> float:
    """∫ function over [low, high] by 16-point Gauss-Legendre in each of ``panels`` equal panels; it takes and gives Float[panels, 16]."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(low, high, panels + 1)
    half = (high - low) / panels / 2
    points = (edges[:-1, None] + half) + half * nodes
    return float((function(points) * weights).sum() * half)
