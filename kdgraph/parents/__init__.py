"""What is calibrated: parents, and the ground that all stands on that is fitted after them."""

from kdgraph.parents.classifiers import LatentClassifier, PrecomputedScores
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
    "Design",
    "GammaGlm",
    "GaussianLinear",
    "LatentClassifier",
    "LatentSemanticAnalysis",
    "NearestNeighbourRegressor",
    "NoPreprocessing",
    "PrecomputedScores",
    "Preprocess",
    "ProbabilisticRegressor",
    "column_encoder",
    "distribution_from_predictions",
]
