"""One seed makes a calibrator reproducible, also what it holds: nothing draws from numpy's
generator that no seed sets.
"""

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
"""It draws folds to choose how much is shared, with a seed of its own if it has one."""


@pytest.mark.parametrize("made", [BestConfidence, BestCalibrator, LinearPool])
def test_seed_reaches_calibrator_and_nested_estimators(made):
    parts = {BestCalibrator: "candidates", LinearPool: "members"}
    more = {parts[made]: {"refit": BestCalibrator(None, folds=2)}} if made in parts else {}
    more |= {} if made is LinearPool else {"folds": 2}
    before = np.random.mtrand._rand.get_state()
    first, second = (
        made(RandomForestClassifier(5, random_state=0), random_state=0, **more).fit(X, Y)
        for _ in range(2)
    )
    after = np.random.mtrand._rand.get_state()
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]
    say = "predict_confidence" if made is BestConfidence else "predict_proba"
    np.testing.assert_array_equal(getattr(first, say)(X), getattr(second, say)(X))


def test_seed_of_a_candidate_is_kept():
    parent = RandomForestClassifier(5, random_state=0)
    always = {"default": "csts", "margin": 1e9, "folds": 2, "random_state": 0}
    own = BestConfidence(
        parent, candidates={"csts": clone(POOLED).set_params(random_state=7)}, **always
    ).fit(X, Y)
    drawn = BestConfidence(parent, candidates={"csts": POOLED}, **always).fit(X, Y)
    assert own.calibrated_.random_state == 7
    assert isinstance(drawn.calibrated_.random_state, int) and POOLED.random_state is None
