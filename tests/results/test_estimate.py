"""Estimated durations: the closest finished run, scaled by the rows of each stage."""

from __future__ import annotations

import pytest

from kdgraph.config import compose
from kdgraph.data.sizes import RoleSizes
from kdgraph.results.estimate import Estimate, RunTimes

ROWS = RoleSizes(70, 30, 50)


def record(dataset, method, from_store=(), sizes=ROWS, n_ood=0, node=None, **seconds) -> dict:
    return {
        "dataset": {
            "name": dataset,
            "n_train": sizes.train,
            "n_calibration": sizes.calibration,
            "n_test": sizes.test,
        },
        "method": method,
        "seconds": seconds,
        "from_store": list(from_store),
        "ood_sets": [{"name": "sphere", "n": n_ood}],
        "config": {"dataset": node or {"name": dataset}},
    }


RECORDS = [
    record("wine", "kdf", fit=2.0, calibrate=1.0),
    record("wine", "kdf", fit=4.0, calibrate=1.0),
    record("iris", "kdf", fit=1.0, calibrate=1.0),
    record("iris", "isotonic", ("fit",), fit=1.0, calibrate=0.5),
]


@pytest.mark.parametrize(
    ("dataset", "method", "expected"),
    [
        ("wine", "kdf", Estimate(4.0, 2, 100)),  # the mean of runs of the same setting
        ("iris", "isotonic", Estimate(0.5, 1, 100)),  # stages from the store cost nothing
        ("spiral", "kdf", Estimate(10 / 3, 3, 100, differs_in="data set")),
        ("wine", "sigmoid", Estimate(4.0, 2, 100, differs_in="method")),
        ("spiral", "sigmoid", None),
    ],
)
@pytest.mark.parametrize("sizes", [None, ROWS])
def test_the_closest_runs_are_expected(dataset, method, expected, sizes):
    estimate = RunTimes(RECORDS).estimate(dataset, method, sizes)
    assert (estimate is None) == (expected is None)
    if estimate is not None and expected is not None:
        assert estimate.seconds == pytest.approx(expected.seconds)
        assert (estimate.n_runs, estimate.rows) == (expected.n_runs, expected.rows)
        assert (estimate.scaled_to, estimate.differs_in) == (None, expected.differs_in)


def test_seconds_of_a_stage_are_proportional_to_its_rows():
    seconds = {"split": 1.0, "fit": 2.0, "calibrate": 3.0, "evaluate": 4.0, "figures": 5.0}
    times = RunTimes([record("mnist", "kdf", n_ood=50, **seconds)])
    estimate = times.estimate("mnist", "kdf", RoleSizes(700, 30, 150))
    split, calibrate, evaluate = 880 / 150, 3 * 730 / 100, 4 * 200 / 100
    assert estimate == Estimate(
        pytest.approx(split + 2 * 10 + calibrate + evaluate + 5), 1, 100, scaled_to=730
    )


def test_stages_of_other_rows_are_not_in_the_store():
    times = RunTimes([record("mnist", "kdf", ("fit",), fit=2.0, calibrate=1.0)])
    assert times.estimate("mnist", "kdf", ROWS).seconds == 1.0
    twice = RoleSizes(140, 60, 100)
    assert times.estimate("mnist", "kdf", twice).seconds == pytest.approx(6.0)


def test_the_runs_with_the_most_similar_rows_count():
    small = record("mnist", "kdf", fit=1.0)
    large = record("mnist", "kdf", sizes=RoleSizes(7000, 3000, 5000), fit=50.0)
    times = RunTimes([small, large])
    assert times.estimate("mnist", "kdf", RoleSizes(8400, 3600, 5000)) == Estimate(
        pytest.approx(60.0), 1, 10_000, scaled_to=12_000
    )


def test_rows_are_those_of_a_finished_run_of_the_same_data_set():
    node = {"name": "wine", "_target_": "custom.Wine", "fold": 0}
    times = RunTimes([record("wine", "kdf", node=node, fit=1.0)])
    assert times.sizes({**node, "fold": 3}) == ROWS
    assert times.sizes({**node, "n_test": 3}) is None


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["dataset=spiral"], RoleSizes(1000, 430, 1000)),
        (["dataset=spiral", "dataset.n_train=70"], RoleSizes(70, 30, 1000)),
        (["dataset=mnist"], RoleSizes(42_000, 18_000, 10_000)),
        (["dataset=mnist", "dataset.max_learn=5000"], RoleSizes(3500, 1500, 10_000)),
    ],
)
def test_rows_follow_from_the_config(overrides, expected, monkeypatch):
    monkeypatch.setattr("kdgraph.results.estimate.announced_row_count", lambda id: None)
    assert RunTimes([]).sizes(compose(overrides).dataset) == expected


def test_rows_of_a_table_are_announced_by_openml(monkeypatch):
    monkeypatch.setattr("kdgraph.results.estimate.announced_row_count", lambda id: 1000)
    node = {"name": "adult", "_target_": "kdgraph.data.openml.OpenmlTable", "id": 1590}
    assert RunTimes([]).sizes(node) == RoleSizes(490, 210, 300)
