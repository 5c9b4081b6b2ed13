"""Predictive distributions, one for each row and vectorised over rows."""

from __future__ import annotations

from kdgraph.distributions.base import Distribution, StandardForm
from kdgraph.distributions.concatenated import ConcatenatedDistribution
from kdgraph.distributions.conformal import (
    ConformalIntervals,
    CorrectedIntervals,
    LocalisedIntervals,
)
from kdgraph.distributions.parametric import LocationScale, Normal, ScipyFamily, as_distribution
from kdgraph.distributions.quantile_grid import QuantileGrid
from kdgraph.distributions.recalibrated import LinearMap, PitMap, Recalibrated, WeightedEcdf
from kdgraph.distributions.row_pit_maps import RankedEcdf, RowEcdf, ScoredEcdf
from kdgraph.distributions.samples import WeightedSamples

__all__ = [
    "ConcatenatedDistribution",
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
    "StandardForm",
    "WeightedEcdf",
    "WeightedSamples",
    "as_distribution",
]
