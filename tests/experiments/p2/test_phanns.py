"""Counts from precisions: of score lists that are known, all comes back that precisions can say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.p2.phanns import counted, counts, rows

THRESHOLDS = np.arange(11) / 10 * 10


def table(right: dict[str, list[float]], wrong: dict[str, list[float]]) -> pd.DataFrame:
    """What the authors' file has, of scores from 0 to 10 by class."""
    parts = []
    for name in right:
        tp, fp = (
            np.array([(np.array(scores) >= t).sum() for t in THRESHOLDS])
            for scores in (right[name], wrong[name])
        )
        recall = np.ones(len(THRESHOLDS))
        recall[-2:] = tp[-1] / tp[-2], 0
        parts.append(
            pd.DataFrame(
                {
                    "class": name,
                    "threshold": THRESHOLDS,
                    "precision": tp / (tp + fp),
                    "recall": recall,
                }
            )
        )
    return pd.concat(parts)


def test_rows_are_those_of_the_counts():
    """Two classes among five, whose scores are over 1/5, as the largest of five is."""
    right = {
        "a": [2.5, 3.5, 4.5, 9.5, 10.0, 10.0, 10.0],
        "b": [5.5, 9.5, 10.0],
        **{c: [10.0, 9.0] for c in "cde"},
    }
    wrong = {"a": [2.5, 3.5, 10.0], "b": [4.5, 5.5, 10.0], **{c: [9.0, 10.0, 9.0] for c in "cde"}}
    result = rows(counted(table(right, wrong)))
    names = list("abcde")
    np.testing.assert_allclose(result[names].sum(axis=1), 1)
    predicted, score = result[names].idxmax(axis=1), result[names].max(axis=1)
    for name in "ab":
        mine = predicted == name
        for scores, is_right in ((right, True), (wrong, False)):
            middles = [min(np.floor(s) + 0.5, 10) / 10 for s in scores[name]]
            np.testing.assert_allclose(
                np.sort(score[mine & ((result.label == name) == is_right)]), np.sort(middles)
            )


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=60))
def test_counts_are_the_least_with_these_precisions(drawn):
    scores, is_right = (
        np.array([s for s, _ in drawn] + [9, 9]),
        np.array([r for _, r in drawn] + [True, False]),
    )
    true = np.array(
        [[(is_right & (scores >= t)).sum(), (~is_right & (scores >= t)).sum()] for t in range(10)]
    )
    right, wrong = counts(true[:, 0] / true.sum(axis=1))
    assert (np.diff(right) <= 0).all()
    assert (np.diff(wrong) <= 0).all()
    np.testing.assert_array_equal(right / (right + wrong), true[:, 0] / true.sum(axis=1))
    assert (right <= true[:, 0]).all()
    assert (wrong <= true[:, 1]).all()


def test_a_precision_of_one_below_a_lower_one_is_refused():
    with pytest.raises(
        ValueError,
        match=r"^a precision of 1 stands below one of 1/2: this is no cumulative precision$",
    ):
        counts(np.array([1.0, 0.5]))


def test_a_score_may_be_anywhere_in_its_bin():
    right, wrong = {c: [2.5, 9.5, 10.0, 10.0] for c in "abcde"}, {c: [3.5, 9.5] for c in "abcde"}
    result = counted(table(right, wrong))
    middle, spread = rows(result), rows(result, np.random.default_rng(0))
    names = list("abcde")
    np.testing.assert_allclose(spread[names].sum(axis=1), 1)
    before, after = (
        np.sort(each.loc[each[names].idxmax(axis=1) == "a", "a"]) for each in (middle, spread)
    )
    assert (np.floor(10 * before + 1e-9) == np.floor(10 * after + 1e-9)).all()
    assert (before[before == 1] == after[before == 1]).all() and (before != after)[before < 1].all()
