"""Predictive distributions: one for each row, vectorised over rows."""

from __future__ import annotations

from kdgraph.distributions.by_row import RankedEcdf, RowEcdf, ScoredEcdf
from kdgraph.distributions.conformal import ConformalIntervals, CorrectedIntervals
from kdgraph.distributions.distribution import Distribution, Standard
from kdgraph.distributions.linear_map import LinearMap
from kdgraph.distributions.localised import LocalisedIntervals
from kdgraph.distributions.normal import LocationScale, Normal
from kdgraph.distributions.pit_map import PitMap, WeightedEcdf
from kdgraph.distributions.quantile_grid import QuantileGrid
from kdgraph.distributions.recalibrated import Recalibrated
from kdgraph.distributions.samples import WeightedSamples
from kdgraph.distributions.scipy_families import ScipyFamily, as_distribution

__all__ = [
    "ConformalIntervals",
    "CorrectedIntervals",
    "Distribution",
    "LinearMap",
    "LocalisedIntervals",
    "LocationScale",
    "Normal",
    "PitMap",
    "QuantileGrid",
    "RankedEcdf",
    "Recalibrated",
    "RowEcdf",
    "ScipyFamily",
    "ScoredEcdf",
    "Standard",
    "WeightedEcdf",
    "WeightedSamples",
    "as_distribution",
]
