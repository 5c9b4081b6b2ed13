"""Dominance against its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.p1.cc18.statistics import dominating


@given(st.integers(0, 10_000))
@settings(deadline=None)
def test_dominance_agrees_with_brute_force(seed) -> None:
    rng = np.random.default_rng(seed)
    others = pd.DataFrame(
        rng.integers(0, 3, (6, 4)) / 10,
        index=list("abcdef"),
        columns=["error", "ece", "nll", "oce"],
    )
    others.iloc[0, 0] = np.nan
    chosen = pd.Series(rng.integers(0, 3, 4) / 10, index=others.columns)
    expected = [
        name
        for name, row in others.iterrows()
        if all(row[c] <= chosen[c] for c in others) and any(row[c] < chosen[c] for c in others)
    ]
    assert dominating(chosen, others) == expected
    assert dominating(chosen, pd.DataFrame([chosen], index=["itself"])) == []
