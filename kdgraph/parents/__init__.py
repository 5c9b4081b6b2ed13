"""What is calibrated: parents, and the ground that all stands on that is fitted after them."""

from kdgraph.parents.classifiers import GivenScores, LatentClassifier
from kdgraph.parents.predictive import PredictiveRegressor, distribution_of
from kdgraph.parents.preprocessing import Design, Preprocess, Topics, Untouched, column_encoder
from kdgraph.parents.regressors import GammaGlm, GaussianLinear, NearestOutcomes

__all__ = [
    "Design",
    "GammaGlm",
    "GaussianLinear",
    "GivenScores",
    "LatentClassifier",
    "NearestOutcomes",
    "PredictiveRegressor",
    "Preprocess",
    "Topics",
    "Untouched",
    "column_encoder",
    "distribution_of",
]
