"""Claims on records by hand: how many Gaussians there are, and how time grows."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.p1 import claims


def of_kdn(n_polytopes: int, n_train: int) -> dict:
    return {"learnt": {"calibrator": {"n_polytopes": n_polytopes}}, "dataset": {"n_train": n_train}}


@pytest.mark.parametrize(("most", "holds", "tested"), [(100, True, "1.00"), (101, False, "1.01")])
def test_gaussians_are_counted_for_each_training_row(most, holds, tested) -> None:
    (claim,) = claims.claims_on_gaussians([of_kdn(20, 50), of_kdn(most, 100)])
    assert (claim.holds, claim.measured, claim.sentences) == (
        holds,
        f"at most {tested} of them; 2 runs",
        ("upper_bound",),
    )
    assert not list(claims.claims_on_gaussians([]))


@pytest.mark.parametrize(("largest", "holds"), [(1.2, True), (2.1, False)])
def test_the_largest_exponent_of_time_decides(tmp_path, largest, holds) -> None:
    (tmp_path / "computed").mkdir()
    pd.DataFrame({"value": [1.1, largest]}).to_csv(tmp_path / "computed" / "p1_section6.csv")
    (claim,) = claims.sizes(tmp_path)
    assert (claim.holds, claim.measured, claim.sentences) == (
        holds,
        f"1.10 to {largest:.2f}, 2 seeds",
        ("complexity",),
    )
