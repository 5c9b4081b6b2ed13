"""Sets of rows against a reference, by a detector of single rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kdgraph.detection import SetTest, TreeHamming
from kdgraph.errors import ParameterError
from kdgraph.metrics import power_curve, set_p_values


@dataclass
class Norm:
    """A detector that needs no fit: how far a row is from the origin."""

    def ood_score(self, X):
        return np.linalg.norm(X, axis=1)


def rows(n: int, seed: int, shift: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, (n, 3))


def fitted(**more) -> SetTest:
    return SetTest(Norm(), random_state=0, **more).fit(rows(120, 1))


def test_it_is_the_test_of_the_scores():
    test, X = fitted(n_permutations=99, statistic="ks"), rows(10, 2, 1.0)
    rng = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    expected = set_p_values(
        Norm().ood_score(X),
        Norm().ood_score(rows(120, 1)),
        statistic="ks",
        n_permutations=99,
        rng=rng,
    )
    assert test.p_value(X) == expected[0] == test.p_value(X)


def test_far_sets_are_out_and_others_are_not():
    test = fitted()
    assert test.p_value(rows(10, 3, 2.0)) == 0.001 and test.is_ood(rows(10, 3, 2.0))
    assert not fitted(false_alarm=0.0005).is_ood(
        rows(10, 3, 2.0)
    )  # which 999 permutations cannot show
    flagged = [
        SetTest(Norm(), random_state=i).fit(rows(120, 1000 + i)).is_ood(rows(10, 5000 + i))
        for i in range(200)
    ]
    assert (
        0.01 < np.mean(flagged) < 0.1
    )  # .05, and 3 standard errors of 200 sets, each with a reference of its own


def test_power_by_contamination():
    test = fitted(n_permutations=99)
    found = test.power(rows(80, 4, 2.0), shares=[0, 0.2, 1], set_size=20, n_sets=60)
    assert found["share"].tolist() == [0, 0.2, 1]
    assert found["power"][0] < 0.2 and found["power"][1] > 0.3 and found["power"][2] == 1
    rng = np.random.default_rng(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    given = (Norm().ood_score(rows(80, 4, 2.0)), test.reference_)
    same = power_curve(
        *given, shares=[0, 0.2, 1], set_size=20, n_sets=60, n_permutations=99, rng=rng
    )
    np.testing.assert_array_equal(found["power"], same["power"])


def test_a_few_outliers_raise_it():
    """As they do not raise, but lower, how much the rows of a set share the leaves of a forest."""
    test, mixed = fitted(), rows(100, 5)
    mixed[:5] += 6
    assert test.p_value(mixed) < 0.05 < fitted().p_value(rows(100, 5))


def test_what_has_no_score_of_a_row():
    with pytest.raises(
        TypeError,
        match=(
            r"^TreeHamming scores sets of rows; a set test needs a detector of single rows$"
        ),
    ):
        SetTest(TreeHamming()).fit(rows(9, 0))
    with pytest.raises(TypeError, match=r"^int has no ood_score; use a detector$"):
        SetTest(3).fit(rows(9, 0))
    with pytest.raises(NotFittedError):
        SetTest(Norm()).p_value(rows(9, 0))
    with pytest.raises(ParameterError, match=r"^false_alarm must be in \(0, 1\), got 1$"):
        SetTest(Norm(), false_alarm=1).fit(rows(9, 0))
