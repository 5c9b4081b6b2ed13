"""Circle: two noisy circles, one inside the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.normal import integral, normal_mass
from kdgraph.data.simulations.plane import NoiseStd, ScatterSimulation, Truth
from kdgraph.errors import ParameterError
from kdgraph.parameters import Range

AXIS = 1e-15
"""Points nearer to an axis than this are taken to lie here, because the density is infinite on the axes themselves."""
ROWS_AT_A_TIME = 256


class Circle(ScatterSimulation):
    """Class c lies around a circle of radius radii[c], cut off at the box (-1, 1)²: *Circle* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    radii : radius of each of the two classes. The paper's figures have the larger one for class 0, its text for class 1.
    noise_std : standard deviation of the radius.
    noise : "per_axis" draws the radius for each axis independently, x = (a cos t, b sin t), as in the paper's figures; "radial" draws one,
        x = (a cos t, a sin t), as its text says.
    truth : the truth of ``posterior``.

    Notes
    -----
    The paper has no densities; these are ours. With t uniform on the circle, w the radius and s the noise's standard deviation, that of a
    class before the cut is

        per axis: f(x) = 1/(2π) ∫ φ((x1/cos t - w)/s) φ((x2/sin t - w)/s) / (s² |cos t sin t|) dt over a full turn,
        radial:   f(x) = [φ((r - w)/s) + φ((-r - w)/s)] / (2π r s), r = |x|.

    The integrand of the first has peaks in t that narrow like |x1| near the axes. In v = log|tan t| it is smooth, with no width below s/w:
    dt/|cos t sin t| = dv, |x1/cos t| = |x1| √(1 + e^2v) =: A, |x2/sin t| = |x2| √(1 + e^-2v) =: B, and the four quadrants of t give

        f(x) = 1/(2π s)² ∫ [e^-(A-w)²/2s² + e^-(A+w)²/2s²] [e^-(B-w)²/2s² + e^-(B+w)²/2s²] dv,

    to which the trapezoidal rule converges exponentially. The box keeps the share Z of a class, so its density there is f / Z.

    A radius can come out as 0, so the density is infinite on the axes (per_axis; it grows like log(1/|x1|)) or at the origin (radial; like
    1/r), with a weight of exp(-w²/2s²), which is 6e-13 for the defaults. Points nearer than 1e-15 are taken to lie at 1e-15.

    >>> Circle().posterior([[0.0, 0.75], [0.7, 0.7], [0.0, 2.0]]).round(2).tolist()
    [[0.04, 0.96], [1.0, 0.0], [0.5, 0.5]]
    """

    name = "circle"

    def __init__(
        self,
        radii: Sequence[Annotated[float, Range(0, 1.25, "right")]] = (1.0, 0.75),
        noise_std: NoiseStd = 0.1,
        noise: Literal["per_axis", "radial"] = "per_axis",
        truth: Truth = "exact",
    ) -> None:
        self.radii = radii
        self.noise_std = noise_std
        self.noise = noise
        super().__init__(truth)
        if len(self.radii) != 2:
            raise ParameterError(f"radii must be one for each of the 2 classes, got {list(self.radii)}")

    @cached_property
    def kept(self) -> np.ndarray:
        """Float[2]: Z, the share of each class's rows that the box keeps."""

        def mass(limit: np.ndarray, w: float) -> np.ndarray:
            return normal_mass(-limit - w, limit - w, self.noise_std)

        def within(t: np.ndarray, w: float) -> np.ndarray:
            cos, sin = np.cos(t), np.sin(t)
            if self.noise == "radial":
                return mass(1 / np.maximum(cos, sin), w)
            return mass(1 / cos, w) * mass(1 / sin, w)

        # All four quadrants are alike, and both halves of one; below π/4 the maximum is smooth.
        return np.array([integral(lambda t, w=w: within(t, w), 0, np.pi / 4) / (np.pi / 4) for w in self.radii])

    def _propose(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        t = rng.uniform(0, 2 * np.pi, len(labels))
        axes = 2 if self.noise == "per_axis" else 1
        radius = np.take(self.radii, labels)[:, None] + rng.normal(0, self.noise_std, (len(labels), axes))
        return radius * np.column_stack([np.cos(t), np.sin(t)])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        before_cut = self._log_radial if self.noise == "radial" else self._log_per_axis
        return before_cut(X) - np.log(self.kept)

    def _log_radial(self, X: np.ndarray) -> np.ndarray:
        """Log density of each class before the cut: Float[m, 2]."""
        r, w, s = np.maximum(np.hypot(X[:, :1], X[:, 1:]), AXIS), np.asarray(self.radii), self.noise_std
        both_signs = np.logaddexp(-0.5 * ((r - w) / s) ** 2, -0.5 * ((r + w) / s) ** 2)
        return both_signs - np.log((2 * np.pi) ** 1.5 * s * r)

    def _log_per_axis(self, X: np.ndarray) -> np.ndarray:
        """Log density of each class before the cut: Float[m, 2].

        Points are taken in order of their distance from the nearer axis, because the nearer it is, the longer is the range of v.
        """
        distance = np.maximum(np.abs(X), AXIS)
        logs = np.empty((len(X), 2))
        order = np.argsort(distance.min(axis=1))
        for start in range(0, len(order), ROWS_AT_A_TIME):
            rows = order[start : start + ROWS_AT_A_TIME]
            v, step = self._nodes(*distance[rows].min(axis=0))
            a = np.hypot(distance[rows, :1], distance[rows, :1] * np.exp(v))
            b = np.hypot(distance[rows, 1:], distance[rows, 1:] * np.exp(-v))
            logs[rows] = np.column_stack([self._log_sum(a, b, w) for w in self.radii]) + np.log(step)
        return logs - 2 * np.log(2 * np.pi * self.noise_std)

    def _nodes(self, x1: float, x2: float) -> tuple[np.ndarray, float]:
        """Nodes v of the trapezoidal rule, and their distance, for points at least ``x1`` and ``x2`` from the axes.

        The integrand's exponent is at least -max(w, √2 - w)²/s² at v = 0; the range ends where A or B makes it smaller by 37, which is
        2^-53. The integrand's peaks are no narrower than s/w, and half of that leaves a relative error of exp(-8π²).
        """
        s, w = self.noise_std, max(self.radii)
        far = w + np.sqrt(2 * max(w, np.sqrt(2) - min(self.radii)) ** 2 + 2 * 37 * s**2)
        low, high = -np.log(far / x2), np.log(far / x1)
        v = np.linspace(low, high, int(np.ceil((high - low) / (0.5 * s / w))) + 1)
        return v, v[1] - v[0]

    def _log_sum(self, a: np.ndarray, b: np.ndarray, w: float) -> np.ndarray:
        """Log of the sum over v of both factors' product, for ``a`` and ``b`` of shape (m, nodes): Float[m]."""
        s = self.noise_std
        exponent = -((a - w) ** 2 + (b - w) ** 2) / (2 * s**2)
        top = exponent.max(axis=1, keepdims=True)
        other_signs = (1 + np.exp(-2 * a * w / s**2)) * (1 + np.exp(-2 * b * w / s**2))
        return top[:, 0] + np.log((np.exp(exponent - top) * other_signs).sum(axis=1))
