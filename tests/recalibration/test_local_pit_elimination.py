"""Successive elimination of settings, against scoring every setting on every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.recalibration.local_pit import successive_elimination


def scores_of(quality: list[float], n: int, seed: int = 0) -> np.ndarray:
    """Return scores Float[s, n] with much common noise and a little separate noise."""
    rng = np.random.default_rng(seed)
    return (
        np.asarray(quality)[:, None] + 10 * rng.normal(size=n) + rng.normal(size=(len(quality), n))
    )


def eliminate(table: np.ndarray, budget: float = np.inf):
    asked: list[int] = []

    def scores(some: list[int], rows: slice) -> np.ndarray:
        result = table[[k - 1 for k in some], rows]
        asked.append(result.size)
        return result

    return successive_elimination(
        list(range(1, len(table) + 1)), scores, table.shape[1], budget
    ), sum(asked)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.05, 0.1]), min_size=1, max_size=5),
    st.integers(2, 1000),
    st.integers(0, 100),
)
def test_one_round_equals_scoring_everything(quality, n, seed):
    table = scores_of(quality, n, seed)
    found, _ = eliminate(table)
    np.testing.assert_allclose(list(found.mean.values()), table.mean(axis=1), rtol=1e-9, atol=1e-9)
    best = table.mean(axis=1).argmin()
    behind = table - table[best]
    assert found.best == best + 1 and found.n_rows == n
    as_good = behind.mean(axis=1) <= behind.std(axis=1, ddof=1) / np.sqrt(n) + 1e-12
    assert found.largest_within_one_error == np.flatnonzero(as_good)[-1] + 1


def test_clearly_worse_settings_are_eliminated():
    """One is scored on 1,000 of 5,000 rows; two that differ by 1 % of the noise on all."""
    table = scores_of([1.0, 0.0, 0.01], 5000)
    found, asked = eliminate(table)
    assert asked == 1000 + 2 * 5000 and found.n_rows == 5000 and found.best in (2, 3)
    assert found.mean[2] - found.mean[3] == pytest.approx(
        table[1].mean() - table[2].mean(), abs=1e-9
    )
    assert found.mean[1] - found.mean[found.best] == pytest.approx(
        (table[0] - table[found.best - 1])[:1000].mean(), abs=1e-9
    )


def test_ends_when_one_setting_remains():
    assert eliminate(scores_of([1.0, 0.0, 2.0], 5000))[0].n_rows == 1000


def test_cost_stays_within_the_budget_after_the_first_round():
    """A row costs the sum of the settings, here 1 + 2."""
    table = scores_of([0.0, 0.0], 5000)
    assert [eliminate(table, budget)[0].n_rows for budget in (0, 5999, 6000, 9000)] == [
        1000,
        1000,
        2000,
        3000,
    ]


def test_equal_scores_select_the_largest_setting():
    assert (
        eliminate(np.zeros((4, 10)))[0].largest_within_one_error
        == 4
        == eliminate(np.zeros((4, 1)))[0].best
    )


def test_infinite_scores_are_the_worst_and_equal_to_each_other():
    """Distributions without a mean have an infinite CRPS, which must not raise."""
    numbers = scores_of([0.0, 0.0, 5.0], 2500)
    some, every = numbers.copy(), np.full_like(numbers, np.inf)
    some[1] = np.nan
    assert eliminate(some)[0].largest_within_one_error == 1 and eliminate(some)[0].mean[2] == np.inf
    assert eliminate(every)[0].best == eliminate(every)[0].largest_within_one_error == 3
    for table in (every, np.where(np.arange(2500) == 1200, np.inf, numbers)):
        found, _ = eliminate(table)
        assert set(found.error.values()) <= {0.0} or np.isfinite(list(found.error.values())).all()
