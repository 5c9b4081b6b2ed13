"""What is calibrated: parents, and the ground that all stands on that is fitted after them."""

from kdgraph.parents.columns import Preprocess, Untouched, column_encoder
from kdgraph.parents.latent import LatentClassifier
from kdgraph.parents.linear import GaussianLinear
from kdgraph.parents.posthoc import PostHoc, seeded_clone
from kdgraph.parents.posthoc_classifier import PostHocClassifier
from kdgraph.parents.rows import Rows, take
from kdgraph.parents.scores import GivenScores
from kdgraph.parents.topics import Topics

__all__ = [
    "GaussianLinear",
    "GivenScores",
    "LatentClassifier",
    "PostHoc",
    "PostHocClassifier",
    "Preprocess",
    "Rows",
    "Topics",
    "Untouched",
    "column_encoder",
    "seeded_clone",
    "take",
]
