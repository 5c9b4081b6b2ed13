"""Parents, the models whose certainty is repaired, and the preprocessing in front of them.

Neural networks are in :mod:`kdgraph.parents.networks`. What is fitted after a parent derives from
the base classes in :mod:`kdgraph.base`.
"""

from kdgraph.parents.boosted_regressors import (
    BoostedTreesRegressor,
    NaturalGradientBoosting,
    QuantileBoosting,
)
from kdgraph.parents.boosting import BoostedTreesClassifier
from kdgraph.parents.classifiers import PrecomputedScores
from kdgraph.parents.forest_regressors import ExtraTreesOutcomes, RandomForestOutcomes
from kdgraph.parents.predictive import ProbabilisticRegressor, distribution_from_predictions
from kdgraph.parents.preprocessing import (
    Design,
    LatentSemanticAnalysis,
    NoPreprocessing,
    Preprocess,
    column_encoder,
)
from kdgraph.parents.regressors import GammaGlm, GaussianLinear, NearestNeighbourRegressor

__all__ = [
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "Design",
    "ExtraTreesOutcomes",
    "GammaGlm",
    "GaussianLinear",
    "LatentSemanticAnalysis",
    "NaturalGradientBoosting",
    "NearestNeighbourRegressor",
    "NoPreprocessing",
    "PrecomputedScores",
    "Preprocess",
    "ProbabilisticRegressor",
    "QuantileBoosting",
    "RandomForestOutcomes",
    "column_encoder",
    "distribution_from_predictions",
]
