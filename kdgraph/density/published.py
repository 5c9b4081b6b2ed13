"""Where the published implementations of Dey et al. for forests and for networks differ from each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Stage = Callable[[float], np.ndarray]
"""The best exponent so far → exponents to try next, Float[k]."""


@dataclass(frozen=True)
class Published:
    """One family of parents.

    Attributes
    ----------
    stages : the exponents that the version of October 2023 ("reference") searched, in two passes.
    bins : of the expected calibration error by which it chose.
    figure1_exponent : number of training rows → exponent of the version of August 2023 ("figure1").
    """

    stages: tuple[Stage, ...]
    bins: int
    figure1_exponent: Callable[[int], float]


def _forest_exponent(n: int) -> float:
    return 1.0 + math.log10(n) // 3


def _near_forest(k: float) -> np.ndarray:
    return k + np.arange(0, 2, 0.2)


def _near_network(k: float) -> np.ndarray:
    return k + np.arange(-0.06, 0.05, 0.01)


FOREST = Published((lambda _: np.arange(1.0, 20.0, 2.0), _near_forest), bins=9, figure1_exponent=_forest_exponent)
NETWORK = Published((lambda _: np.arange(1.0, 2.0, 0.1), _near_network), bins=19, figure1_exponent=math.log2)
