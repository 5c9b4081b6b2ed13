"""What is calibrated: parents, and the ground that every calibrator stands on."""

from kdgraph.parents.posthoc import PostHocClassifier, Rows, seeded_clone

__all__ = ["PostHocClassifier", "Rows", "seeded_clone"]
