"""Simulations in the plane of Dey et al. (2024), Appendix C, with their true posteriors.

The default parameters are those of the paper's figures. Where its text differs, an option selects
the text's variant. The paper has no densities for the spiral, the circle and the curves; their
derivations in the Notes are original to kdgraph.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from kdgraph.data.simulations.plane import (
    NoiseStd,
    PlaneSimulation,
    ScatterSimulation,
    draw_in_box,
    integrate,
    log_normal,
    log_wrapped_normal,
    normal_interval_probability,
    posterior_from_log_densities,
)
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive, Range

_CENTRES = np.array([[-0.5, 0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, -0.5]])
"""Means of the blobs. The first two are class 0, the others class 1."""


@dataclass(eq=False, repr=False)
class GaussianXor(PlaneSimulation):
    """Two classes, each a mixture of two Gaussians, cut off at the box (-1, 1)².

    This is *Gaussian XOR* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    noise_std : float, default=0.25
        Standard deviation of each blob on both axes.

    Notes
    -----
    With φ_c the Gaussian around centre c, P(0|x) = (φ_1 + φ_2) / (φ_1 + φ_2 + φ_3 + φ_4), because
    the box cuts the same fraction from each blob. The paper's text prints the same means for both
    classes. The means here are those of its figures.

    Examples
    --------
    >>> GaussianXor().posterior([[-0.5, 0.5], [0.0, 0.3], [9.0, 9.0]]).round(3).tolist()
    [[0.999, 0.001], [0.5, 0.5], [0.5, 0.5]]
    """

    noise_std: NoiseStd = 0.25

    name = "gaussian_xor"

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows [n, 2], each from a random blob, so that the class counts are multinomial."""
        blob = rng.integers(len(_CENTRES), size=n)

        def propose(blobs: np.ndarray) -> np.ndarray:
            return _CENTRES[blobs] + rng.normal(0, self.noise_std, (len(blobs), 2))

        return draw_in_box(propose, blob), blob // 2

    def posterior_on_paper_grid(self, X: np.ndarray) -> np.ndarray:
        """Return the exact posterior, Float[m, 2], which the paper has for this simulation."""
        return posterior_from_log_densities(self.log_densities(X))

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        distance = X[:, None, :] - _CENTRES
        blobs = log_normal(distance, self.noise_std).sum(axis=2)
        by_class = np.logaddexp(blobs[:, ::2], blobs[:, 1::2]) - np.log(2)
        box_fraction = normal_interval_probability(-1 - 0.5, 1 - 0.5, self.noise_std) ** 2
        return by_class - np.log(box_fraction)


_MIN_RADIUS = 1e-300
"""Smallest radius at which the density is computed.

The density grows like 1/r and is infinite at the origin. Nearer points are moved to this radius.
"""
_MIN_FOURIER_DENSITY = 1e-9
"""Density per radian below which a normal density replaces the Fourier sum.

The absolute error of the Fourier sum is near 1e-16, so small densities lose their digits.
"""


@dataclass(eq=False, repr=False)
class Spiral(PlaneSimulation):
    """Two spiral arms, of which the second is the first turned by half a turn.

    The sorted radii of an arm are paired with evenly spaced angles plus noise. This is *Spiral* of
    Dey et al. (2024), Appendix C, with two classes.

    Parameters
    ----------
    noise_std : float, default=0.8
        Standard deviation of the angle, in radians. The paper's figures and truth have 0.8, its
        text 0.3 (variance 0.09).
    turns : float, default=2.0
        Number of turns of an arm.
    mirrored : bool, default=True
        If True, class 1 is the exact negative of the rows of class 0, as in the paper's figures. If
        False, the rows of class 1 are drawn independently.

    Notes
    -----
    The paper has no densities. The following ones are original to kdgraph. An arm of m rows pairs
    the sorted radii r_(1) < … < r_(m) of m uniform draws with the angles δ (i - 1) + N(0, s²),
    where δ = 2π turns / (m - 1). So P(y|x) depends on m:

    - Population, m → ∞: the angle at radius r is a normal around 2π turns r, wrapped around the
      circle.
    - m rows: a random row with radius r has position J + 1 in the order, J ~ Binomial(m - 1, r), so
      its angle is δJ + N(0, s²). The characteristic function is z_k^(m-1) exp(-s²k²/2) with z_k = 1
      - r + r exp(ikδ). It gives the exact wrapped density

          f(θ|r) = 1/(2π) [1 + 2 Σ_{k≥1} exp(-s²k²/2) Re(conj(z_k)^(m-1) exp(ikθ))].

      For large m it tends to the wrapped normal of variance s² + (2π turns)² r (1 - r) / (m - 1).
      This normal replaces f where f is below 1e-9.

    In both cases the density in the plane is f(θ|r) / r in the disc r ≤ 1. The difference between
    the two is not small. For samples of 1000 rows, the Brier score of the population posterior is a
    tenth worse than the posterior itself predicts. ``posterior(X, n=1000)`` does not have this
    error.

    Examples
    --------
    >>> x = [[0.1, 0.5]]
    >>> Spiral().posterior(x).round(3).tolist(), Spiral().posterior(x, n=1000).round(3).tolist()
    ([[0.829, 0.171]], [[0.803, 0.197]])
    """

    noise_std: Annotated[float, Range(0.05)] = 0.8
    turns: Positive = 2.0
    mirrored: bool = True

    name = "spiral"

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows [n, 2] in random order: two arms, less a random row if ``n`` is odd."""
        m = (n + 1) // 2
        first = self._arm(m, rng)
        second = -first if self.mirrored else -self._arm(m, rng)
        rows = rng.permutation(2 * m)[:n]
        return np.concatenate([first, second])[rows], rows // max(m, 1)

    def _arm(self, m: int, rng: np.random.Generator) -> np.ndarray:
        r = np.sort(rng.uniform(0, 1, m))
        angle = np.linspace(0, 2 * np.pi * self.turns, m) + rng.normal(0, self.noise_std, m)
        return r[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        r = np.hypot(X[:, 0], X[:, 1])
        angle = np.arctan2(X[:, 1], X[:, 0])
        in_disc = r <= 1
        logs = np.full((len(X), 2), -np.inf)
        logs[in_disc] = (
            self._log_angular_density(angle[in_disc], r[in_disc], n)
            - np.log(np.maximum(r[in_disc], _MIN_RADIUS))[:, None]
        )
        # The origin has no direction, so both arms get the same density there.
        logs[r == 0] = -np.log(2 * np.pi * _MIN_RADIUS)
        return logs

    def _log_angular_density(self, angle: np.ndarray, r: np.ndarray, n: int | None) -> np.ndarray:
        """Return the log density, per radian, of the angle given the radius: Float[m, 2]."""
        sweep = 2 * np.pi * self.turns
        from_arm = (angle - sweep * r)[:, None] - np.array([0, np.pi])
        if n is None:
            return log_wrapped_normal(from_arm, self.noise_std)
        m = (n + 1) // 2
        spread = sweep**2 * r * (1 - r) / max(m - 1, 1)
        normal = log_wrapped_normal(from_arm, np.sqrt(self.noise_std**2 + spread)[:, None])
        exact = self._sample_angular_density(angle, r, m)
        return np.where(
            exact > _MIN_FOURIER_DENSITY,
            np.log(np.maximum(exact, _MIN_FOURIER_DENSITY)),
            np.minimum(normal, np.log(_MIN_FOURIER_DENSITY)),
        )

    def _sample_angular_density(self, angle: np.ndarray, r: np.ndarray, m: int) -> np.ndarray:
        """Return the density of the angle by the formula in the Notes of the class, [rows, 2]."""
        delta = 2 * np.pi * self.turns / max(m - 1, 1)
        total = np.ones((len(r), 2))
        # Terms from k = 8.6 / s on are below exp(-8.6²/2) < 2^-53 and cannot change the sum.
        for k in range(1, int(np.ceil(8.6 / self.noise_std)) + 1):
            z = 1 - r + r * np.exp(1j * k * delta)
            term = (
                2
                * np.exp(-0.5 * (self.noise_std * k) ** 2)
                * np.abs(z) ** (m - 1)
                * np.cos(k * angle - (m - 1) * np.angle(z))
            )
            total += term[:, None] * np.array([1, (-1) ** k])
        return total / (2 * np.pi)


_MIN_AXIS_DISTANCE = 1e-15
"""Smallest distance from an axis at which the density is computed.

The density is infinite on the axes. Nearer points are moved to this distance.
"""
_BLOCK_ROWS = 256


@dataclass(eq=False, repr=False)
class Circle(ScatterSimulation):
    """Two classes around circles of different radius, cut off at the box (-1, 1)².

    This is *Circle* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    radii : sequence of 2 floats, default=(1.0, 0.75)
        Radius of each class. The paper's figures have the larger one for class 0, its text for
        class 1.
    noise_std : float, default=0.1
        Standard deviation of the radius.
    noise : {"per_axis", "radial"}, default="per_axis"
        "per_axis" draws the radius for each axis independently, x = (a cos t, b sin t), as in the
        paper's figures. "radial" draws one radius, x = (a cos t, a sin t), as in its text.

    Notes
    -----
    The paper has no densities. The following ones are original to kdgraph. Let t be uniform on the
    circle, w the radius and s the standard deviation of the noise. The density of a class before
    the cut is

        per axis: f(x) = 1/(2π) ∫ φ((x1/cos t - w)/s) φ((x2/sin t - w)/s) / (s² |cos t sin t|) dt
        over a full turn,
        radial:   f(x) = [φ((r - w)/s) + φ((-r - w)/s)] / (2π r s), r = |x|.

    The integrand of the first has peaks in t that become as narrow as |x1| near the axes. In v =
    log|tan t| it is smooth, with no width below s/w: dt/|cos t sin t| = dv, |x1/cos t| = |x1| √(1 +
    e^2v) =: A, |x2/sin t| = |x2| √(1 + e^-2v) =: B, and the four quadrants of t give

        f(x) = 1/(2π s)² ∫ [e^-(A-w)²/2s² + e^-(A+w)²/2s²] [e^-(B-w)²/2s² + e^-(B+w)²/2s²] dv.

    The trapezoidal rule converges exponentially to this integral. The box keeps the fraction Z of a
    class, so the density in the box is f / Z.

    A radius can be 0. So the density is infinite on the axes (per_axis; it grows like log(1/|x1|))
    or at the origin (radial; like 1/r). The weight of this part is exp(-w²/2s²), which is 6e-13 for
    the defaults. Points nearer than 1e-15 are moved to 1e-15.

    Examples
    --------
    >>> Circle().posterior([[0.0, 0.75], [0.7, 0.7], [0.0, 2.0]]).round(2).tolist()
    [[0.04, 0.96], [1.0, 0.0], [0.5, 0.5]]
    """

    radii: Sequence[Annotated[float, Range(0, 1.25, "right")]] = (1.0, 0.75)
    noise_std: NoiseStd = 0.1
    noise: Literal["per_axis", "radial"] = "per_axis"

    name = "circle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.radii) != 2:
            raise ParameterError(
                f"radii must be one for each of the 2 classes, got {list(self.radii)}"
            )

    @cached_property
    def box_fractions(self) -> np.ndarray:
        """Fraction Z of the rows of each class that the box keeps, Float[2]."""

        def mass(limit: np.ndarray, w: float) -> np.ndarray:
            return normal_interval_probability(-limit - w, limit - w, self.noise_std)

        def within(t: np.ndarray, w: float) -> np.ndarray:
            cos, sin = np.cos(t), np.sin(t)
            if self.noise == "radial":
                return mass(1 / np.maximum(cos, sin), w)
            return mass(1 / cos, w) * mass(1 / sin, w)

        # By symmetry one eighth of the circle suffices. The integrand is smooth below π/4.
        return np.array(
            [integrate(lambda t, w=w: within(t, w), 0, np.pi / 4) / (np.pi / 4) for w in self.radii]
        )

    def _draw_candidates(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        t = rng.uniform(0, 2 * np.pi, len(labels))
        axes = 2 if self.noise == "per_axis" else 1
        radius = np.take(self.radii, labels)[:, None] + rng.normal(
            0, self.noise_std, (len(labels), axes)
        )
        return radius * np.column_stack([np.cos(t), np.sin(t)])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        before_cut = (
            self._log_radial_density if self.noise == "radial" else self._log_per_axis_density
        )
        return before_cut(X) - np.log(self.box_fractions)

    def _log_radial_density(self, X: np.ndarray) -> np.ndarray:
        r, w, s = (
            np.maximum(np.hypot(X[:, :1], X[:, 1:]), _MIN_AXIS_DISTANCE),
            np.asarray(self.radii),
            self.noise_std,
        )
        both_signs = np.logaddexp(-0.5 * ((r - w) / s) ** 2, -0.5 * ((r + w) / s) ** 2)
        return both_signs - np.log((2 * np.pi) ** 1.5 * s * r)

    def _log_per_axis_density(self, X: np.ndarray) -> np.ndarray:
        distance = np.maximum(np.abs(X), _MIN_AXIS_DISTANCE)
        logs = np.empty((len(X), 2))
        # Points nearer to an axis need a longer range of v. Sorting by that distance keeps the
        # range of most blocks short.
        order = np.argsort(distance.min(axis=1))
        for start in range(0, len(order), _BLOCK_ROWS):
            rows = order[start : start + _BLOCK_ROWS]
            v, step = self._trapezoidal_nodes(*distance[rows].min(axis=0))
            a = np.hypot(distance[rows, :1], distance[rows, :1] * np.exp(v))
            b = np.hypot(distance[rows, 1:], distance[rows, 1:] * np.exp(-v))
            logs[rows] = np.column_stack([self._log_sum(a, b, w) for w in self.radii]) + np.log(
                step
            )
        return logs - 2 * np.log(2 * np.pi * self.noise_std)

    def _trapezoidal_nodes(self, x1: float, x2: float) -> tuple[np.ndarray, float]:
        """Return nodes v and their distance, for points at least x1 and x2 away from the axes."""
        # The integrand's exponent is at least -max(w, √2 - w)²/s² at v = 0. The range ends where A
        # or B makes it smaller by 37, a factor of 2^-53. The peaks of the integrand are at least
        # s/w wide; a step of half of that leaves a relative error of exp(-8π²).
        s, w = self.noise_std, max(self.radii)
        largest_distance = w + np.sqrt(
            2 * max(w, np.sqrt(2) - min(self.radii)) ** 2 + 2 * 37 * s**2
        )
        low, high = -np.log(largest_distance / x2), np.log(largest_distance / x1)
        v = np.linspace(low, high, int(np.ceil((high - low) / (0.5 * s / w))) + 1)
        return v, v[1] - v[0]

    def _log_sum(self, a: np.ndarray, b: np.ndarray, w: float) -> np.ndarray:
        """Return the log of the sum over v of both factors' product, Float[m], of [m, nodes]."""
        s = self.noise_std
        exponent = -((a - w) ** 2 + (b - w) ** 2) / (2 * s**2)
        top = exponent.max(axis=1, keepdims=True)
        other_signs = (1 + np.exp(-2 * a * w / s**2)) * (1 + np.exp(-2 * b * w / s**2))
        return top[:, 0] + np.log((np.exp(exponent - top) * other_signs).sum(axis=1))


@dataclass(eq=False, repr=False)
class CurveSimulation(ScatterSimulation):
    """Classes that scatter around the graphs of functions, cut off at the box (-1, 1)².

    x1 is uniform in (-1, 1), and x2 = g_c(x1) + N(0, noise_std²) for class c (Dey et al. 2024,
    Appendix C).

    Parameters
    ----------
    noise_std : float, default=0.1
        Standard deviation of x2 around the curve.

    Notes
    -----
    The paper does not state how x1 is drawn. It is uniform here, as in the code of its figures. The
    paper has no densities; this one is original to kdgraph. The density of class c in the box is
    f_c(x) = φ((x2 - g_c(x1)) / s) / (2 s Z_c). Here s is the standard deviation of the noise, and
    Z_c = ½ ∫ P(|g_c(t) + N(0, s²)| < 1) dt over (-1, 1) is the fraction of rows that the box keeps.
    """

    noise_std: NoiseStd = 0.1

    @cached_property
    def box_fractions(self) -> np.ndarray:
        """Fraction Z_c of the rows of each class that the box keeps, Float[K]."""

        def mass(t: np.ndarray, c: int) -> np.ndarray:
            height = self._curve_heights(t)[..., c]
            return normal_interval_probability(-1 - height, 1 - height, self.noise_std)

        return np.array(
            [integrate(lambda t, c=c: mass(t, c), -1, 1) / 2 for c in range(len(self.classes))]
        )

    @abstractmethod
    def _curve_heights(self, t: np.ndarray) -> np.ndarray:
        """Return the height of each class's curve at ``t`` of any shape: Float[..., K]."""

    def _draw_candidates(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        t = rng.uniform(-1, 1, len(labels))
        height = self._curve_heights(t)[np.arange(len(labels)), labels]
        return np.column_stack([t, height + rng.normal(0, self.noise_std, len(labels))])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        above = X[:, 1:] - self._curve_heights(X[:, 0])
        return log_normal(above, self.noise_std) - np.log(2 * self.box_fractions)


@dataclass(eq=False, repr=False)
class Sinewave(CurveSimulation):
    """One class around a sine, the other around a cosine of the same frequency.

    This is *Sinewave* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    frequency : float, default=4.0
        Radians per unit of x1. The paper's figures have 4, its text has π.
    first : {"sin", "cos"}, default="sin"
        Curve of class 0. The paper's figures have sin(4 x) for class 0 and cos(4 x) for class 1.
        Its text has cos(π x) for class 0 and sin(π x) for class 1.

    Examples
    --------
    >>> Sinewave().posterior([[0.0, 0.0], [0.0, 0.95]]).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    frequency: Positive = 4.0
    first: Literal["sin", "cos"] = "sin"

    name = "sinewave"

    def _curve_heights(self, t: np.ndarray) -> np.ndarray:
        waves = [np.sin(self.frequency * t), np.cos(self.frequency * t)]
        return np.stack(waves if self.first == "sin" else waves[::-1], axis=-1)


@dataclass(eq=False, repr=False)
class Polynomial(CurveSimulation):
    """Two classes, each around a power of x1: x2 = x1 ** exponents[c].

    This is *Polynomial* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    exponents : sequence of 2 ints, default=(1, 3)
        Exponents, at least 1.

    Examples
    --------
    >>> Polynomial().posterior([[0.0, 0.0], [0.5, 0.5]]).round(2).tolist()
    [[0.51, 0.49], [1.0, 0.0]]
    """

    exponents: Sequence[Count] = (1, 3)

    name = "polynomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.exponents) != 2:
            raise ParameterError(
                f"exponents must be one for each of the 2 classes, got {list(self.exponents)}"
            )

    def _curve_heights(self, t: np.ndarray) -> np.ndarray:
        return np.stack([t**a for a in self.exponents], axis=-1)
