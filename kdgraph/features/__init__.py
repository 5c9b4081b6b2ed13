"""Feature maps: what rows look like to a parent, in few dimensions and in units of their own
spread; neighbours are looked for there.
"""

from kdgraph.features.feature_map import FeatureMap, FeatureSource, features_of

__all__ = ["FeatureMap", "FeatureSource", "features_of"]
