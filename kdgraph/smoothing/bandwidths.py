"""Which kernels there are, and how far "near" goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import Positive, check_value

Kernel = Literal["laplacian", "gaussian"]
"""laplacian: exp(-‖x - x'‖₁ / (d γ)), of Luo et al. (2022), section 3.2; gaussian: exp(-‖x - x'‖² / (2 d γ²)), of d features."""


def check_bandwidths(bandwidths: Sequence[float]) -> None:
    """Raise :class:`ParameterError` unless there is a bandwidth and all are above 0, as γ of Luo et al. (2022) is."""
    if len(bandwidths) == 0:
        raise ParameterError("bandwidths must hold at least one number above 0, got none")
    for bandwidth in bandwidths:
        check_value("bandwidth", bandwidth, Positive)


def rms_of(X: np.ndarray) -> float:
    """Ours: the root mean square distance from the mean, per dimension, of Float[n, d]: one number for the whole space; 1 if it is 0.

    >>> rms_of(np.array([[0.0, 1.0], [2.0, 1.0]])) == 0.5**0.5
    True
    """
    off = X - X.mean(axis=0)
    unit = 2.0 ** float(np.clip(np.frexp(np.abs(off).max(initial=0.0))[1] - 1, -1000, 1000))  # so that squares stay in float64
    off /= unit
    return unit * float(np.sqrt(np.square(off).mean())) or 1.0
