"""Successive elimination of settings, against scoring every setting on every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.recalibration.local_pit import successive_elimination


def noisy_scores(mean_scores: list[float], n: int, seed: int = 0) -> np.ndarray:
    """Return scores Float[s, n] with much common noise and a little separate noise."""
    rng = np.random.default_rng(seed)
    return (
        np.asarray(mean_scores)[:, None]
        + 10 * rng.normal(size=n)
        + rng.normal(size=(len(mean_scores), n))
    )


def eliminate(table: np.ndarray, budget: float = np.inf):
    n_scored: list[int] = []

    def scores(running: list[int], rows: slice) -> np.ndarray:
        result = table[[k - 1 for k in running], rows]
        n_scored.append(result.size)
        return result

    return successive_elimination(
        list(range(1, len(table) + 1)), scores, table.shape[1], budget
    ), sum(n_scored)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 0.05, 0.1]), min_size=1, max_size=5),
    st.integers(2, 1000),
    st.integers(0, 100),
)
def test_one_round_equals_scoring_everything(mean_scores, n, seed):
    table = noisy_scores(mean_scores, n, seed)
    result, _ = eliminate(table)
    np.testing.assert_allclose(list(result.mean.values()), table.mean(axis=1), rtol=1e-9, atol=1e-9)
    best = table.mean(axis=1).argmin()
    differences = table - table[best]
    assert result.best == best + 1 and result.n_rows == n
    within_one_error = (
        differences.mean(axis=1) <= differences.std(axis=1, ddof=1) / np.sqrt(n) + 1e-12
    )
    assert result.largest_within_one_error == np.flatnonzero(within_one_error)[-1] + 1


def test_clearly_worse_settings_are_eliminated():
    """One is scored on 1,000 of 5,000 rows; two that differ by 1 % of the noise on all."""
    table = noisy_scores([1.0, 0.0, 0.01], 5000)
    result, n_scored = eliminate(table)
    assert n_scored == 1000 + 2 * 5000 and result.n_rows == 5000 and result.best in (2, 3)
    assert result.mean[2] - result.mean[3] == pytest.approx(
        table[1].mean() - table[2].mean(), abs=1e-9
    )
    assert result.mean[1] - result.mean[result.best] == pytest.approx(
        (table[0] - table[result.best - 1])[:1000].mean(), abs=1e-9
    )


def test_ends_when_one_setting_remains():
    assert eliminate(noisy_scores([1.0, 0.0, 2.0], 5000))[0].n_rows == 1000


def test_cost_stays_within_the_budget_after_the_first_round():
    """A row costs the sum of the settings, here 1 + 2."""
    table = noisy_scores([0.0, 0.0], 5000)
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
    finite = noisy_scores([0.0, 0.0, 5.0], 2500)
    one_infinite, all_infinite = finite.copy(), np.full_like(finite, np.inf)
    one_infinite[1] = np.nan
    assert (
        eliminate(one_infinite)[0].largest_within_one_error == 1
        and eliminate(one_infinite)[0].mean[2] == np.inf
    )
    assert (
        eliminate(all_infinite)[0].best == eliminate(all_infinite)[0].largest_within_one_error == 3
    )
    for table in (all_infinite, np.where(np.arange(2500) == 1200, np.inf, finite)):
        result, _ = eliminate(table)
        assert set(result.error.values()) <= {0.0} or np.isfinite(list(result.error.values())).all()
