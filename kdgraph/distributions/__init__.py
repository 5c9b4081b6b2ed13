"""Predictive distributions: one for each row, vectorised over rows."""

from __future__ import annotations

from kdgraph.distributions.distribution import Distribution
from kdgraph.distributions.normal import LocationScale, Normal
from kdgraph.distributions.pit_map import PitMap, WeightedEcdf
from kdgraph.distributions.recalibrated import Recalibrated
from kdgraph.distributions.scipy_families import ScipyFamily, as_distribution

__all__ = ["Distribution", "LocationScale", "Normal", "PitMap", "Recalibrated", "ScipyFamily", "WeightedEcdf", "as_distribution"]
