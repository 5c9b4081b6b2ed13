"""PIT values of calibration rows, ready for a map (Torres et al. 2024, Algorithm 1, step 4)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kdgraph.distributions import Distribution
from kdgraph.metrics.regression import distance_to_uniform

_STEP = 1e-9
"""Where F rises by more from just below an outcome to the outcome itself, it has a step there; rounding makes less than 1e-15."""
_AT_AN_END = 1e-12


@dataclass(frozen=True)
class Pits:
    """PIT values of n rows, and what is unusual about them; ours.

    Attributes
    ----------
    values : Float[n], none of them 0 or 1; beyond (0, 1) as :meth:`Distribution.levels <kdgraph.distributions.Distribution.levels>` has
        them.
    n_clipped : how many rows are so far out that the predicted family cannot tell how far.
    n_at_steps : how many outcomes are where the predicted distribution function has a step.
    """

    values: np.ndarray
    n_clipped: int
    n_at_steps: int

    def describe(self) -> dict[str, int | float]:
        """For the record: how many, how far from uniform (largest distance), how many clipped; and two shares of rows, where not 0.

        ``pit_beyond``: of PIT values at 0 or 1 and beyond, which the parent holds impossible. Of a right ensemble of m values it is
        2/(m + 1); more says that the ensemble is too narrow. ``pit_at_steps``: of outcomes that are values of an ensemble, as counts are.
        """
        beyond = float(((self.values < _AT_AN_END) | (self.values > 1 - _AT_AN_END)).mean())
        found = {"n_pits": len(self.values), "pit_ks": distance_to_uniform(np.clip(self.values, 0, 1)), "n_clipped": self.n_clipped}
        found |= {"pit_beyond": beyond} if beyond else {}
        return found | ({"pit_at_steps": self.n_at_steps / len(self.values)} if self.n_at_steps else {})


def pits_of(base: Distribution, y: np.ndarray, random_state: Any = None, *, stacklevel: int = 4) -> Pits:
    """PIT values F(y_i | x_i) of n rows, of which ``base`` is predicted and y, Float[n], came; ``random_state`` seeds draws at steps.

    Notes
    -----
    Those so far out that the predicted family cannot tell how far have the level that :meth:`Distribution.unknown_levels
    <kdgraph.distributions.Distribution.unknown_levels>` gives, by default the nearest number inside (0, 1), with a warning.

    Where F has a step at y, as an ensemble has where several members say the same number, such as no rain, the PIT value is drawn
    uniformly between the lower and the upper end of the step: then PIT values of a forecaster that is right are uniform, and recalibration
    leaves it as it is. Taken at the upper end they are not, and rows with steps of different heights spoil each other's map.

    References
    ----------
    Czado, Gneiting and Held, "Predictive model assessment for count data", Biometrics 65, 2009, Section 2.1, for the draw (Brockwell,
    Statistics and Probability Letters 77, 2007).
    """
    upper, lower = base.levels(y), base.levels(np.nextafter(y, -np.inf))
    bottom, top = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    at_step = top - bottom > _STEP
    pits = upper
    if at_step.any():
        drawn = check_random_state(random_state).uniform(size=len(y))
        pits = np.where(at_step, bottom + drawn * (top - bottom), upper)
    lowest, highest = base.unknown_levels()
    known = np.where((pits == 0) | (pits == -np.inf), lowest, np.where((pits == 1) | (pits == np.inf), highest, pits))
    clipped = int((known != pits).sum())
    if clipped:
        warnings.warn(
            f"{clipped} of {len(pits)} calibration rows lie where the predicted distribution function is 0 or 1 to the last "
            "bit: its tails are much too light, and how far out these rows are is lost",
            stacklevel=stacklevel,
        )
    return Pits(known, clipped, int(at_step.sum()))
