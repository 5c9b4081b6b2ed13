"""Wins, the paired test, Holm's adjustment and dominance against their definitions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.lists(st.integers(0, 4), min_size=1, max_size=7)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_holm_agrees_with_its_definition(seed, m) -> None:
    from cc18_statistics import holm

    p = np.random.default_rng(seed).choice([0.001, 0.01, 0.02, 0.04, 0.2, 0.9], size=m)
    naive = np.empty(m)
    order = sorted(range(m), key=lambda i: p[i])
    for rank, i in enumerate(order):
        naive[i] = min(1, max((m - j) * p[order[j]] for j in range(rank + 1)))
    np.testing.assert_allclose(holm(p), naive, rtol=1e-12)
    for level in (0.01, 0.05):  # the step-down procedure: refuse in order of p until one is too large
        refused = set()
        for rank, i in enumerate(order):
            if p[i] > level / (m - rank):
                break
            refused.add(i)
        assert refused == set(np.flatnonzero(holm(p) <= level))


@given(NUMBERS, st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_wins_ties_and_losses_turn_round_with_the_two(first, seed) -> None:
    from cc18_statistics import compare

    a = pd.Series(first, dtype=float) / 10
    b = pd.Series(np.random.default_rng(seed).integers(0, 5, len(a)) / 10)
    one, other = compare(a, b), compare(b, a)
    assert (one.wins, one.ties, one.losses) == (sum(a < b), sum(a == b), sum(a > b))
    assert (other.wins, other.ties, other.losses) == (one.losses, one.ties, one.wins)
    assert one.p == pytest.approx(other.p) and 0 < one.p <= 1
    assert compare(a, a).p == 1


def test_the_test_is_paired_and_exact_where_it_can_be() -> None:
    from cc18_statistics import compare

    parent = pd.Series(np.linspace(0.1, 0.9, 8))
    better = parent - 0.01 * np.arange(1, 9)
    assert compare(better, parent).p == pytest.approx(2 / 2**8)  # of 2^8 signs, the two most extreme
    assert compare(better, parent.sample(frac=1, random_state=0)).p == compare(better, parent).p  # by table, not by place


def test_numbers_are_compared_as_they_are_printed() -> None:
    from cc18_statistics import compare

    assert str(compare(pd.Series([1e-9, 0.10001, 0.2, np.nan]), pd.Series([3e-7, 0.1, 0.1999, 1]))) == "0/2/1"


@given(st.integers(0, 10_000))
@settings(deadline=None)
def test_dominance_agrees_with_brute_force(seed) -> None:
    from cc18_statistics import dominating

    rng = np.random.default_rng(seed)
    others = pd.DataFrame(rng.integers(0, 3, (6, 4)) / 10, index=list("abcdef"), columns=["error", "ece", "nll", "oce"])
    others.iloc[0, 0] = np.nan
    chosen = pd.Series(rng.integers(0, 3, 4) / 10, index=others.columns)
    expected = [
        name for name, row in others.iterrows() if all(row[c] <= chosen[c] for c in others) and any(row[c] < chosen[c] for c in others)
    ]
    assert dominating(chosen, others) == expected
    assert dominating(chosen, pd.DataFrame([chosen], index=["itself"])) == []
