"""Spiral: two arms that turn around each other."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from kdgraph.data.simulations.normal import log_wrapped_normal
from kdgraph.data.simulations.plane import PlaneSimulation, Truth
from kdgraph.parameters import Positive, Range

SMALLEST_RADIUS = 1e-300
"""The density grows like 1/r and is infinite at the origin; nearer points are taken to lie here."""
FAINT = 1e-9
"""Below this density per radian a Fourier sum, whose absolute error is near 1e-16, loses its digits and a normal density stands in."""


class Spiral(PlaneSimulation):
    """Radii in increasing order, angles evenly spaced along each arm plus noise; class 1 is class 0 turned by half a turn.

    *Spiral* of Dey et al. (2024), Appendix C, with two classes.

    Parameters
    ----------
    noise_std : standard deviation of the angle, in radians. The paper's figures and truth have 0.8, its text 0.3 (variance 0.09).
    turns : how often an arm goes around.
    mirrored : class 1 is the exact negative of the rows of class 0, as in the paper's figures; False draws its rows independently.
    truth : the truth of ``posterior``.

    Notes
    -----
    The paper has no densities; these are ours. An arm of m rows pairs the sorted radii r_(1) < … < r_(m) of m uniform draws with the angles
    δ (i - 1) + N(0, s²), where δ = 2π turns / (m - 1). So P(y|x) depends on m:

    - Population, m → ∞: the angle at radius r is a normal around 2π turns r, wrapped around the circle.
    - m rows: a row drawn at random that has radius r is number J + 1 in order, J ~ Binomial(m - 1, r), so its angle is δJ + N(0, s²).
      The characteristic function is z_k^(m-1) exp(-s²k²/2) with z_k = 1 - r + r exp(ikδ), which gives the exact wrapped density

          f(θ|r) = 1/(2π) [1 + 2 Σ_{k≥1} exp(-s²k²/2) Re(conj(z_k)^(m-1) exp(ikθ))].

      For large m it is the wrapped normal of variance s² + (2π turns)² r (1 - r) / (m - 1), which stands in where f is below 1e-9.

    In both, the density in the plane is f(θ|r) / r in the disc r ≤ 1. The blur is not small: among 1000 rows the Brier score of the
    population's posterior is a tenth worse than what it claims for itself, and that of ``posterior(X, n=1000)`` is not.

    >>> x = [[0.1, 0.5]]
    >>> Spiral().posterior(x).round(3).tolist(), Spiral().posterior(x, n=1000).round(3).tolist()
    ([[0.829, 0.171]], [[0.803, 0.197]])
    """

    name = "spiral"

    def __init__(
        self,
        noise_std: Annotated[float, Range(0.05)] = 0.8,
        turns: Positive = 2.0,
        mirrored: bool = True,
        truth: Truth = "exact",
    ) -> None:
        self.noise_std = noise_std
        self.turns = turns
        self.mirrored = mirrored
        super().__init__(truth)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows in random order: two arms of ceil(n / 2) rows, of which a random one is dropped if ``n`` is odd.

        Returns
        -------
        X : Float[n, 2]
        y : Int[n]
        """
        m = (n + 1) // 2
        first = self._arm(m, rng)
        second = -first if self.mirrored else -self._arm(m, rng)
        rows = rng.permutation(2 * m)[:n]
        return np.concatenate([first, second])[rows], rows // max(m, 1)

    def _arm(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """``m`` rows of class 0: Float[m, 2]."""
        r = np.sort(rng.uniform(0, 1, m))
        angle = np.linspace(0, 2 * np.pi * self.turns, m) + rng.normal(0, self.noise_std, m)
        return r[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        r = np.hypot(X[:, 0], X[:, 1])
        angle = np.arctan2(X[:, 1], X[:, 0])
        in_disc = r <= 1
        logs = np.full((len(X), 2), -np.inf)
        logs[in_disc] = self._log_angular(angle[in_disc], r[in_disc], n) - np.log(np.maximum(r[in_disc], SMALLEST_RADIUS))[:, None]
        logs[r == 0] = -np.log(2 * np.pi * SMALLEST_RADIUS)  # no direction there, so neither arm
        return logs

    def _log_angular(self, angle: np.ndarray, r: np.ndarray, n: int | None) -> np.ndarray:
        """Log density of the angle given the radius, per radian, for both classes: Float[m, 2]."""
        sweep = 2 * np.pi * self.turns
        from_arm = (angle - sweep * r)[:, None] - np.array([0, np.pi])
        if n is None:
            return log_wrapped_normal(from_arm, self.noise_std)
        m = (n + 1) // 2
        spread = sweep**2 * r * (1 - r) / max(m - 1, 1)
        normal = log_wrapped_normal(from_arm, np.sqrt(self.noise_std**2 + spread)[:, None])
        exact = self._angular_of_sample(angle, r, m)
        return np.where(exact > FAINT, np.log(np.maximum(exact, FAINT)), np.minimum(normal, np.log(FAINT)))

    def _angular_of_sample(self, angle: np.ndarray, r: np.ndarray, m: int) -> np.ndarray:
        """Density of the angle given the radius in an arm of ``m`` rows, for both classes: Float[rows, 2]; see Notes."""
        delta = 2 * np.pi * self.turns / max(m - 1, 1)
        total = np.ones((len(r), 2))
        for k in range(1, int(np.ceil(8.6 / self.noise_std)) + 1):  # exp(-8.6²/2) is below 2^-53
            z = 1 - r + r * np.exp(1j * k * delta)
            term = 2 * np.exp(-0.5 * (self.noise_std * k) ** 2) * np.abs(z) ** (m - 1) * np.cos(k * angle - (m - 1) * np.angle(z))
            total += term[:, None] * np.array([1, (-1) ** k])
        return total / (2 * np.pi)
