"""A run with every metric and figure of regressions: what its record holds, and what the
calibration rows have to do with it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.runner.run import run
from kdgraph.runner.stages import split

SIZES = ["dataset.n_train=300", "dataset.n_calibration=200", "dataset.n_test=150"]
CHOSEN = ["metrics=regression_local_truth", "figures=regression_local", "figures.formats=[svg]"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    config = compose(
        ["dataset=rosenbrock", *SIZES, *CHOSEN, f"out={tmp_path_factory.mktemp('outputs')}"]
    )
    return config, run(config)


def value(record, metric, of):
    return next(
        entry["value"]
        for entry in record["metrics"]
        if (entry["metric"], entry["of"]) == (metric, of)
    )


def test_smis_is_divided_by_the_calibration_rows(done):
    config, record = done
    divisor = np.abs(split(config.dataset, 0).calibration.y).mean()
    for of in ("parent", "calibrated"):
        assert value(record, "smis", of) == pytest.approx(
            value(record, "interval_score", of) / divisor, rel=1e-12
        )


def test_every_number_is_there_but_the_log_score_of_steps(done):
    _, record = done
    without = {
        (entry["metric"], entry["of"]) for entry in record["metrics"] if entry["value"] is None
    }
    assert (
        without
        == {("log_score", "calibrated")}
        | {("worst_cell_gap", of) for of in ("parent", "calibrated")} & without
    )
    assert value(record, "mse_y", "parent") == pytest.approx(
        value(record, "rmse", "parent") ** 2, rel=1e-12
    )


def test_cells_hold_every_row_once(done):
    config, record = done
    cells = pd.read_csv(config.run_dir / record["files"]["tables"]["local_coverage"])
    assert cells.groupby("of").n_eff.sum().to_dict() == {"parent": 150, "calibrated": 150}
    both = [group.set_index("cell").n_eff for _, group in cells.groupby("of")]
    pd.testing.assert_series_equal(*both)
    overall = (cells.coverage * cells.n_eff).groupby(cells.of).sum() / 150
    assert overall["calibrated"] == pytest.approx(value(record, "coverage", "calibrated"), rel=1e-9)
    assert len(pd.read_csv(config.run_dir / record["files"]["tables"]["pit_tests"])) == 6


def test_figures(done):
    _, record = done
    names = (
        "coverage_against_level interval_misses local_pit_histograms mean_and_sd pit_histogram"
        " predictive_densities"
    )
    assert sorted(record["files"]["figures"]) == [f"figures/{name}.svg" for name in names.split()]
