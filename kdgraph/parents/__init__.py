"""What is calibrated: parents, and the ground that all stands on that is fitted after them."""

from kdgraph.parents.columns import Preprocess, Untouched, column_encoder
from kdgraph.parents.design import Design
from kdgraph.parents.gamma_glm import GammaGlm
from kdgraph.parents.latent import LatentClassifier
from kdgraph.parents.linear import GaussianLinear
from kdgraph.parents.nearest_outcomes import NearestOutcomes
from kdgraph.parents.posthoc import PostHoc, seeded_clone
from kdgraph.parents.posthoc_classifier import PostHocClassifier
from kdgraph.parents.predicted import PredictiveRegressor, distribution_of
from kdgraph.parents.rows import Rows, take
from kdgraph.parents.scores import GivenScores
from kdgraph.parents.topics import Topics

__all__ = [
    "Design",
    "GammaGlm",
    "GaussianLinear",
    "GivenScores",
    "LatentClassifier",
    "NearestOutcomes",
    "PostHoc",
    "PostHocClassifier",
    "PredictiveRegressor",
    "Preprocess",
    "Rows",
    "Topics",
    "Untouched",
    "column_encoder",
    "distribution_of",
    "seeded_clone",
    "take",
]
