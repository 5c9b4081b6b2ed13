"""Sinewave and polynomial: each class scatters around the graph of its own function."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from kdgraph.data.simulations.normal import integral, log_normal, normal_mass
from kdgraph.data.simulations.plane import NoiseStd, ScatterSimulation, Truth
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, Positive


class CurveSimulation(ScatterSimulation):
    """x1 uniform in (-1, 1), x2 = g_c(x1) + N(0, noise_std²) for class c, cut off at the box (-1, 1)²: Dey et al. (2024), Appendix C.

    Notes
    -----
    The paper does not say how x1 is drawn, nor has it densities: uniform, as its figures were made, and ours.
    The density of class c in the box is f_c(x) = φ((x2 - g_c(x1)) / s) / (2 s Z_c), with s the noise's standard deviation and
    Z_c = ½ ∫ P(|g_c(t) + N(0, s²)| < 1) dt over (-1, 1), the share of rows that the box keeps.
    """

    noise_std: float

    @cached_property
    def kept(self) -> np.ndarray:
        """Float[K]: Z_c, the share of each class's rows that the box keeps."""

        def mass(t: np.ndarray, c: int) -> np.ndarray:
            height = self._curves(t)[..., c]
            return normal_mass(-1 - height, 1 - height, self.noise_std)

        return np.array([integral(lambda t, c=c: mass(t, c), -1, 1) / 2 for c in range(len(self.classes))])

    @abstractmethod
    def _curves(self, t: np.ndarray) -> np.ndarray:
        """Height of each class's curve at ``t``, an array of any shape: Float[..., K]."""

    def _propose(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        t = rng.uniform(-1, 1, len(labels))
        height = self._curves(t)[np.arange(len(labels)), labels]
        return np.column_stack([t, height + rng.normal(0, self.noise_std, len(labels))])

    def _log_densities_in_box(self, X: np.ndarray, n: int | None) -> np.ndarray:
        above = X[:, 1:] - self._curves(X[:, 0])
        return log_normal(above, self.noise_std) - np.log(2 * self.kept)


class Sinewave(CurveSimulation):
    """One class scatters around a sine, the other around a cosine of the same frequency: *Sinewave* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    noise_std : standard deviation of x2 around the curve.
    frequency : radians per unit of x1. The paper's figures have 4, its text has π.
    first : the curve of class 0. The paper's figures have sin(4 x) for class 0 and cos(4 x) for class 1, its text cos(π x) for class 0
        and sin(π x) for class 1.
    truth : the truth of ``posterior``.

    >>> Sinewave().posterior([[0.0, 0.0], [0.0, 0.95]]).round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    name = "sinewave"

    def __init__(
        self, noise_std: NoiseStd = 0.1, frequency: Positive = 4.0, first: Literal["sin", "cos"] = "sin", truth: Truth = "exact"
    ) -> None:
        self.noise_std = noise_std
        self.frequency = frequency
        self.first = first
        super().__init__(truth)

    def _curves(self, t: np.ndarray) -> np.ndarray:
        waves = [np.sin(self.frequency * t), np.cos(self.frequency * t)]
        return np.stack(waves if self.first == "sin" else waves[::-1], axis=-1)


class Polynomial(CurveSimulation):
    """Class c scatters around x2 = x1 ** exponents[c]: *Polynomial* of Dey et al. (2024), Appendix C.

    Parameters
    ----------
    noise_std : standard deviation of x2 around the curve.
    exponents : two integers from 1.
    truth : the truth of ``posterior``.

    >>> Polynomial().posterior([[0.0, 0.0], [0.5, 0.5]]).round(2).tolist()
    [[0.51, 0.49], [1.0, 0.0]]
    """

    name = "polynomial"

    def __init__(self, noise_std: NoiseStd = 0.1, exponents: Sequence[Count] = (1, 3), truth: Truth = "exact") -> None:
        self.noise_std = noise_std
        self.exponents = exponents
        super().__init__(truth)
        if len(self.exponents) != 2:
            raise ParameterError(f"exponents must be one for each of the 2 classes, got {list(self.exponents)}")

    def _curves(self, t: np.ndarray) -> np.ndarray:
        return np.stack([t**a for a in self.exponents], axis=-1)
