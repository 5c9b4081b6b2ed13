"""Where one bin of confidence ends and the next begins: our rule, and those of other libraries bit
by bit.

On continuous confidences the rules agree, but for MAPIE's number of bins. On confidences that are
edges themselves (votes of a forest, the confidence 1 of a saturated network) the rule alone can
move an ECE by a third.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.parameters import check_value

Strategy = Literal["uniform", "mass"]
Edges = Literal["right", "left", "netcal", "torchmetrics", "torchmetrics_f64", "relplot", "mapie"]
Closed = Literal["right", "left"]


@dataclass(frozen=True)
class Intervals:
    """Bins over [0, 1] from left to right, as Guo et al. (2017), Section 2, or closed on the other
    side.

    Attributes
    ----------
    edges : Float[b + 1], not descending. An edge that comes twice, 0 or 1, is a bin of its own,
    which holds this one confidence.
    closed : "right": a bin holds ``lower < confidence <= upper``; "left": ``lower <= confidence <
        upper``. What lies on or beyond the outermost edge is in the outermost bin in any case.
    """

    edges: np.ndarray
    closed: Closed = "right"

    def __len__(self) -> int:
        return len(self.edges) - 1

    def index(self, confidence: np.ndarray) -> np.ndarray:
        """Int[n]: the bin of each of Float[n]. Edges of single precision sort confidences in it, as
        torch does.
        """
        values = np.asarray(confidence, dtype=self.edges.dtype)
        after: Closed = "left" if self.closed == "right" else "right"
        return np.clip(np.searchsorted(self.edges, values, side=after) - 1, 0, len(self) - 1)


def intervals_of(
    confidence: np.ndarray, bins: int, strategy: Strategy = "uniform", edges: Edges = "right"
) -> Intervals:
    """Bins for these confidences, Float[n].

    Parameters
    ----------
    bins : how many, from 1.
    strategy : "uniform": equal widths. "mass": equal shares of rows as far as ties allow; what
    happens to ties is ours (:func:`bin_edges`).
    edges : who has the confidence that is an edge, and what the edges are in floating point.

        - "right": the bin below it, and 0 the first bin; edges are the doubles j / bins. So Guo et
          al. (2017), Salamon et al. ("a < S <= b"), and uncertainty-calibration.
        - "left": the bin above it, and 1 the last bin; edges as above.
        - "netcal": as "left", with edges of ``numpy.linspace``, which may be a bit off j / bins.
        - "torchmetrics": as "left", in single precision, with edges of ``torch.linspace`` and 1 in
          a bin of its own: what it does to multi-class predictions. "torchmetrics_f64": the same in
          double precision, as it does to binary ones.
        - "relplot": 1 in a bin of its own, all others where ``floor(confidence / (1 / bins))`` puts
          them.
        - "mapie": as "right", but ``bins`` edges of ``numpy.linspace`` make ``bins - 1`` intervals,
          and 0 is in a bin of its own.

    Raises
    ------
    ParameterError
        A value out of its range, or a rule of another library with bins of equal mass.
    """
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ParameterError(f"bins must be an integer from 1, got {bins!r}")
    check_value("edges", edges, Edges)
    if strategy == "uniform":
        return RULES[edges](int(bins))
    if strategy != "mass":
        raise ParameterError(f"strategy must be one of uniform, mass, got {strategy!r}")
    if edges != "right":
        raise ParameterError(
            f"edges must be right with strategy mass, got {edges!r}; other rules are of bins of"
            " equal width"
        )
    last_row = np.ceil(np.arange(1, bins) * len(confidence) / bins).astype(int) - 1
    inner = np.sort(confidence)[np.maximum(last_row, 0)]
    return Intervals(np.concatenate([[0.0], np.unique(inner[(inner > 0) & (inner < 1)]), [1.0]]))


def bin_edges(confidence: np.ndarray, bins: int, strategy: Strategy) -> np.ndarray:
    """Float[b + 1] from 0 to 1: the edges of :func:`reliability_bins` for confidences Float[n];
    what happens to ties is ours.

    With "mass" they are order statistics of the confidences, rows of equal confidence stay together
    (so the order of rows does not matter), and edges that coincide are merged: there may be fewer
    bins than asked for.
    """
    return intervals_of(confidence, bins, strategy).edges


def bin_of(confidence: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Int[n]: each one's bin, ``lower < confidence <= upper`` of ``edges``, Float[b + 1]; 0 is in
    the first (Guo et al., 2017).
    """
    return Intervals(edges).index(confidence)


def _fractions(bins: int) -> np.ndarray:
    return (
        np.arange(bins + 1) / bins
    )  # not linspace, which puts 5/7 below the double 5/7: five votes of seven would leave their bin


def _torchmetrics(bins: int, dtype: type[np.floating]) -> Intervals:
    """``torch.linspace`` counts the first half of the edges from 0 and the second half back from 1.

    Each is rounded once, as by processors that multiply and add in one step (x86 from 2013 on); on
    others torch has other last bits.
    """
    step, half = Fraction(float(dtype(1) / dtype(bins))), (bins + 1) // 2
    exact = [step * j if j < half else 1 - step * (bins - j) for j in range(bins + 1)]
    return Intervals(np.array([*map(float, exact), 1.0]).astype(dtype), "left")


def _relplot(bins: int) -> Intervals:
    """The least doubles whose quotient with 1 / bins reaches j; where 1 does not reach ``bins`` so,
    it has no bin of its own.
    """
    width, j = 1 / bins, np.arange(bins + 1)
    edges = j * width
    while (low := edges / width < j).any():
        edges = np.where(low, np.nextafter(edges, 2), edges)
    while (high := np.nextafter(edges, -1) / width >= j).any():
        edges = np.where(high, np.nextafter(edges, -1), edges)
    return Intervals(np.append(edges[edges <= 1], 1.0), "left")


def _mapie(bins: int) -> Intervals:
    if bins < 2:
        raise ParameterError(
            f"bins must be at least 2 with edges mapie, got {bins}: they count edges, and make one"
            " interval fewer"
        )
    return Intervals(np.append(0.0, np.linspace(0, 1, bins)))


RULES: dict[str, Callable[[int], Intervals]] = {
    "right": lambda bins: Intervals(_fractions(bins)),
    "left": lambda bins: Intervals(_fractions(bins), "left"),
    "netcal": lambda bins: Intervals(np.linspace(0, 1, bins + 1), "left"),
    "torchmetrics": lambda bins: _torchmetrics(bins, np.float32),
    "torchmetrics_f64": lambda bins: _torchmetrics(bins, np.float64),
    "relplot": _relplot,
    "mapie": _mapie,
}
"""Rule by the name of :data:`Edges`: a number of bins → bins of equal width."""
