"""What is calibrated: parents, and the ground that every calibrator stands on."""

from kdgraph.parents.columns import Preprocess, Untouched, column_encoder
from kdgraph.parents.posthoc import PostHocClassifier, seeded_clone
from kdgraph.parents.rows import Rows, take

__all__ = ["PostHocClassifier", "Preprocess", "Rows", "Untouched", "column_encoder", "seeded_clone", "take"]
