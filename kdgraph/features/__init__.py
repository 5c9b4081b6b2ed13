"""Feature maps, the spaces in which neighbours of rows are searched.

A feature map takes the representation of rows inside a parent (:func:`features_of`), reduces it to
few dimensions, and divides it by its spread (Luo et al. 2022, Section 3.2).
"""

from kdgraph.features.feature_map import FeatureMap, FeatureSource, features_of

__all__ = ["FeatureMap", "FeatureSource", "features_of"]
