"""What is calibrated: parents, and the ground that every calibrator stands on."""

from kdgraph.parents.columns import Preprocess, Untouched, column_encoder
from kdgraph.parents.linear import GaussianLinear
from kdgraph.parents.posthoc import PostHocClassifier, seeded_clone
from kdgraph.parents.rows import Rows, take
from kdgraph.parents.scores import GivenScores

__all__ = [
    "GaussianLinear",
    "GivenScores",
    "PostHocClassifier",
    "Preprocess",
    "Rows",
    "Untouched",
    "column_encoder",
    "seeded_clone",
    "take",
]
