"""Tests of set tests with a detector of single rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kdgraph.detection import SetTest, TreeHamming
from kdgraph.errors import ParameterError
from kdgraph.metrics import power_curve, set_p_values
from tests.detection.conftest import normal_rows


@dataclass
class Norm:
    """Detector without a fit, by the distance to the origin."""

    def ood_score(self, X):
        return np.linalg.norm(X, axis=1)


def fit_set_test(**more) -> SetTest:
    return SetTest(Norm(), random_state=0, **more).fit(normal_rows(120, 1))


def test_p_value_is_that_of_the_scores():
    test, X = fit_set_test(n_permutations=99, statistic="ks"), normal_rows(10, 2, 1.0)
    rng = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    expected = set_p_values(
        Norm().ood_score(X),
        Norm().ood_score(normal_rows(120, 1)),
        statistic="ks",
        n_permutations=99,
        rng=rng,
    )
    assert test.p_value(X) == expected[0] == test.p_value(X)


def test_shifted_sets_are_out_of_distribution():
    test = fit_set_test()
    assert test.p_value(normal_rows(10, 3, 2.0)) == 0.001 and test.is_ood(normal_rows(10, 3, 2.0))
    # 999 permutations cannot reach a p-value of .0005.
    assert not fit_set_test(false_alarm=0.0005).is_ood(normal_rows(10, 3, 2.0))
    flagged = [
        SetTest(Norm(), random_state=i)
        .fit(normal_rows(120, 1000 + i))
        .is_ood(normal_rows(10, 5000 + i))
        for i in range(200)
    ]
    # The rate is .05 within 3 standard errors of 200 sets, each with its own reference.
    assert 0.01 < np.mean(flagged) < 0.1


def test_power_increases_with_contamination():
    test = fit_set_test(n_permutations=99)
    curve = test.power(normal_rows(80, 4, 2.0), shares=[0, 0.2, 1], set_size=20, n_sets=60)
    assert curve["fraction"].tolist() == [0, 0.2, 1]
    assert curve["power"][0] < 0.2 and curve["power"][1] > 0.3 and curve["power"][2] == 1
    rng = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    scores = (Norm().ood_score(normal_rows(80, 4, 2.0)), test.reference_)
    expected = power_curve(
        *scores, shares=[0, 0.2, 1], set_size=20, n_sets=60, n_permutations=99, rng=rng
    )
    np.testing.assert_array_equal(curve["power"], expected["power"])


def test_few_outliers_decrease_the_p_value():
    """A few outliers raise the mean score, unlike the score of TreeHamming."""
    test, mixed = fit_set_test(), normal_rows(100, 5)
    mixed[:5] += 6
    assert test.p_value(mixed) < 0.05 < fit_set_test().p_value(normal_rows(100, 5))


def test_set_test_refuses_other_detectors_and_needs_a_fit():
    with pytest.raises(
        TypeError,
        match=(r"^TreeHamming scores sets of rows; a set test needs a detector of single rows$"),
    ):
        SetTest(TreeHamming()).fit(normal_rows(9, 0))
    with pytest.raises(TypeError, match=r"^int has no ood_score; use a detector$"):
        SetTest(3).fit(normal_rows(9, 0))
    with pytest.raises(NotFittedError):
        SetTest(Norm()).p_value(normal_rows(9, 0))
    with pytest.raises(ParameterError, match=r"^false_alarm must be in \(0, 1\), got 1$"):
        SetTest(Norm(), false_alarm=1).fit(normal_rows(9, 0))
