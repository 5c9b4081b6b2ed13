"""Gaussian XOR: four Gaussian blobs, the same class on each diagonal."""

from __future__ import annotations

import numpy as np

from kdgraph.data.simulations.normal import log_normal, normal_mass
from kdgraph.data.simulations.plane import NoiseStd, PlaneSimulation, Truth, draw_in_box, posterior_from_logs

CENTRES = np.array([[-0.5, 0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, -0.5]])
"""Means of the blobs: the first two are class 0, the others class 1."""


class GaussianXor(PlaneSimulation):
    """Each class is a mixture of two Gaussians, cut off at the box (-1, 1)²: *Gaussian XOR* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    noise_std : standard deviation of each blob on both axes.
    truth : the truth of ``posterior``.

    Notes
    -----
    With φ_c the Gaussian around centre c, P(0|x) = (φ_1 + φ_2) / (φ_1 + φ_2 + φ_3 + φ_4): the box cuts the same share of each blob. The
    paper's text prints the same means for both classes; this is the arrangement of its figures, whose truth is analytic.

    >>> GaussianXor().posterior([[-0.5, 0.5], [0.0, 0.3], [9.0, 9.0]]).round(3).tolist()
    [[0.999, 0.001], [0.5, 0.5], [0.5, 0.5]]
    """

    name = "gaussian_xor"

    def __init__(self, noise_std: NoiseStd = 0.25, truth: Truth = "exact") -> None:
        self.noise_std = noise_std
        super().__init__(truth)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw ``n`` rows, each from a random blob: the classes' counts are multinomial. X: Float[n, 2], y: Int[n]."""
        blob = rng.integers(len(CENTRES), size=n)

        def propose(blobs: np.ndarray) -> np.ndarray:
            return CENTRES[blobs] + rng.normal(0, self.noise_std, (len(blobs), 2))

        return draw_in_box(propose, blob), blob // 2

    def posterior_on_paper_grid(self, X: np.ndarray) -> np.ndarray:
        """The truth of the paper's Hellinger distances, which for this simulation is the exact posterior: Float[m, 2]."""
        return posterior_from_logs(self.log_densities(X))

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        distance = X[:, None, :] - CENTRES
        blobs = log_normal(distance, self.noise_std).sum(axis=2)
        by_class = np.logaddexp(blobs[:, ::2], blobs[:, 1::2]) - np.log(2)
        kept = normal_mass(-1 - 0.5, 1 - 0.5, self.noise_std) ** 2
        return by_class - np.log(kept)
