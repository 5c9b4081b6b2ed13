"""One seed makes a calibrator and its members reproducible, without numpy's global generator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

from kdgraph.calibration import BestCalibrator, LinearPool
from kdgraph.calibration.top_label import BestConfidence, TemperatureScaling

X, Y = make_moons(200, noise=0.3, random_state=0)
POOLED = TemperatureScaling(None, by_class=True, pool="cv")
"""It draws folds to choose the shrinkage, with its own seed if it has one."""


@pytest.mark.parametrize("calibrator", [BestConfidence, BestCalibrator, LinearPool])
def test_seed_reaches_members_and_global_state_is_untouched(calibrator):
    member_parameters = {BestCalibrator: "candidates", LinearPool: "members"}
    options = (
        {member_parameters[calibrator]: {"refit": BestCalibrator(None, folds=2)}}
        if calibrator in member_parameters
        else {}
    )
    options |= {} if calibrator is LinearPool else {"folds": 2}
    before = np.random.mtrand._rand.get_state()
    first, second = (
        calibrator(RandomForestClassifier(5, random_state=0), random_state=0, **options).fit(X, Y)
        for _ in range(2)
    )
    after = np.random.mtrand._rand.get_state()
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]
    method = "predict_confidence" if calibrator is BestConfidence else "predict_proba"
    np.testing.assert_array_equal(getattr(first, method)(X), getattr(second, method)(X))


def test_seed_of_a_candidate_is_kept():
    parent = RandomForestClassifier(5, random_state=0)
    options = {"default": "csts", "margin": 1e9, "folds": 2, "random_state": 0}
    with_seed = BestConfidence(
        parent, candidates={"csts": clone(POOLED).set_params(random_state=7)}, **options
    ).fit(X, Y)
    without_seed = BestConfidence(parent, candidates={"csts": POOLED}, **options).fit(X, Y)
    assert with_seed.calibrated_.random_state == 7
    assert isinstance(without_seed.calibrated_.random_state, int) and POOLED.random_state is None
