"""Tables of the comparison of parents of regression."""

from __future__ import annotations

from typing import Any

from experiments.regression import comparison


def record(dataset: str, parent: str, recalibrator: str, alone: float, repaired: float) -> Any:
    """A run whose parent and recalibrated distribution have these CRPS."""
    metrics = [
        {"metric": metric, "of": of, "on": on, "value": value}
        for of, crps in (("parent", alone), ("calibrated", repaired))
        for metric, value in (("crps", crps), ("pit_ks", 0.1), ("coverage", 0.95))
        for on, value in (("test", value), ("calibration", 99.0))
    ]
    return {
        "dataset": {"name": dataset},
        "seed": 0,
        "parent": parent,
        "recalibrator": recalibrator,
        "metrics": metrics,
        "learnt": {"recalibrator": {"crps_by_k": {"25": 3.0, "50": repaired / 2}}},
    }


RECORDS = [
    record("a", "linear", "isotonic_pit", 2.0, 1.0),
    record("a", "linear", "local_pit", 2.0, 0.5),
    record("b", "linear", "local_pit", 10.0, 9.0),
    record("a", "quantile_xgboost", "local_pit", 1.0, 0.4),
    record("b", "quantile_xgboost", "local_pit", 5.0, 3.0),
]


def test_scores_are_relative_to_the_line_alone_on_the_same_rows():
    assert comparison.means(RECORDS).splitlines() == [
        "| parent | recalibrator | CRPS | PIT | coverage | held out |",
        "|---|---|---|---|---|---|",
        "| linear | none | 1.000 | .100 | .950 | – |",
        "| linear | isotonic_pit | .500 | .100 | .950 | – |",
        # (0.5/2 + 9/10)/2; of the rows held out, half of the CRPS, but at most 3 on b
        "| linear | local_pit | .575 | .100 | .950 | .212 |",
        "| quantile_xgboost | none | .500 | .100 | .950 | – |",
        "| quantile_xgboost | local_pit | .250 | .100 | .950 | .125 |",
    ]


def test_each_data_set_has_a_column_after_local_pit():
    assert comparison.by_dataset(RECORDS).splitlines() == [
        "| parent | a | b |",
        "|---|---|---|",
        "| linear | .250 | .900 |",
        "| quantile_xgboost | .200 | .300 |",
    ]
