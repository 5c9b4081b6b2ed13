"""Cross-fitted calibration of the scores of PhANNs: losses by hand, and claims that can fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from experiments.p2 import cross_fitted
from experiments.p2.figures.study import Study
from kdgraph.base import FittedModel
from kdgraph.calibration.top_label import ClassPrecision
from kdgraph.parents import PrecomputedScores
from tests.experiments.sentences import all_are, held

NAMES = ("Collar", "HTJ", "Other")


@pytest.fixture(scope="module")
def study() -> Study:
    """Rows of three classes with even scores, of which those with higher ones are right more often,
    and the accuracy of the predicted class as calibrator.
    """
    rng = np.random.default_rng(0)
    predicted, score = np.repeat(np.arange(3), 40), rng.uniform(0.4, 1, 120)
    X = np.repeat((1 - score)[:, None] / 2, 3, axis=1)
    X[np.arange(120), predicted] = score
    y = np.where(rng.random(120) < score, predicted, (predicted + 1) % 3)
    parent = PrecomputedScores().fit(X)
    calibrator = ClassPrecision(FrozenEstimator(parent)).fit(X, y, X_calibration=X, y_calibration=y)
    models = {"none": FittedModel(parent), "kde": FittedModel(parent, {"calibrator": calibrator})}
    return Study(X, y, NAMES, models)


def test_all_losses_of_a_draw_are_of_the_same_rows(study) -> None:
    """By hand, with accuracies by class of either half."""
    result = cross_fitted.losses(study, 2)
    assert result.method.tolist() == ["kde", "kde"] and result.n.tolist() == [60, 60]
    for row in result.itertuples():
        assert row.in_sample < row.cross_fitted
    right, predicted = study.correct, study.top_label.predicted
    kinds = 2 * predicted + right
    halves = cross_fitted.train_test_split(
        np.arange(120), test_size=0.5, stratify=kinds, random_state=0
    )
    expected = []
    for fit, judge in (halves, halves[::-1]):
        share = np.array([right[fit][predicted[fit] == k].mean() for k in range(3)])
        confidence = share[predicted[judge]]
        expected.append(-np.log(np.where(right[judge], confidence, 1 - confidence)).mean())
    assert result.new.iloc[0] == pytest.approx(np.mean(expected))


def test_gaps_are_between_the_fits_of_the_folds(study) -> None:
    crossed = cross_fitted.fits_to_all_rows(study)["kde"]
    shares = [each.precision_ for each in crossed.calibrators_]
    assert cross_fitted.gaps(study, crossed).to_dict() == pytest.approx(
        dict(zip(NAMES, np.ptp(shares, axis=0), strict=True))
    )
    without = replace(study, y=np.where(study.y == 2, 0, study.y))
    assert list(cross_fitted.gaps(without, crossed).index) == ["Collar", "HTJ"]
    assert cross_fitted.table(study, {"kde": crossed}).endswith(f"{crossed.nll_:.4f} |".lstrip("0"))


def test_claims_on_cross_validation_hold_and_fail() -> None:
    def result(cross_fitted_nll: float) -> pd.DataFrame:
        row = {"in_sample": 0.19, "cross_fitted": cross_fitted_nll, "new": 0.2, "n": 60.0}
        return pd.DataFrame([{"draw": draw, "method": "kde", **row} for draw in range(2)])

    apart = pd.Series({"Collar": 0.2, "HTJ": 0.15, "Portal": 0.11, "Tail shaft": 0.01})
    sentences = {"cross_validation_bias", "cross_validation_unstable"}
    strong, weak = result(0.2), result(0.2).assign(in_sample=0.1985)
    assert next(cross_fitted.claims("x", strong, None)).measured.endswith("60 rows, 2 draws")
    assert next(cross_fitted.claims("x", weak, None)).measured.endswith(
        "; weak, in sample it is too"
    )
    assert all_are(cross_fitted.claims("x", result(0.2015), apart), True) == sentences
    assert all_are(cross_fitted.claims("x", result(0.203), apart - 0.02), False) == sentences
    assert held(cross_fitted.claims("x", result(0.197), None)) == {"cross_validation_bias": {False}}
