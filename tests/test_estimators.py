"""scikit-learn's own contract, for every estimator of the library."""

from __future__ import annotations

from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.calibration import Refit, ScoreMap, Uncalibrated

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight two is drawn once, two equal rows twice: by the split that holds rows"
    " out and by the bootstrap of the forest, for which scikit-learn lists the same failure"
}
PAPER = EXPECTED_FAILURES | {
    "check_classifiers_train": "the floor printed in the paper takes most rows to the prior, the training rows of this check among them"
}


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(20, random_state=0)


ESTIMATORS = [
    *(KernelDensityForest(forest(), variant=variant, random_state=0) for variant in ("kdgraph", "paper", "reference", "figure1")),
    DensityGate(forest(), random_state=0),
    Uncalibrated(forest(), random_state=0),
    Refit(forest(), random_state=0),
    ScoreMap(forest(), method="isotonic", random_state=0),
    ScoreMap(forest(), method="sigmoid", random_state=0),
]


@parametrize_with_checks(
    ESTIMATORS, expected_failed_checks=lambda e: PAPER if getattr(e, "variant", None) == "paper" else EXPECTED_FAILURES
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
