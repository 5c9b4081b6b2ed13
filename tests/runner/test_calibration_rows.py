"""Numbers on the rows that a calibrator was fitted on: only where a metric needs them; and what a
look at its curves warns of.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph.base import FittedModel, Predictions
from kdgraph.calibration.top_label import IsotonicConfidence
from kdgraph.config import compose
from kdgraph.metrics import TopLabel, ece, nll_top
from kdgraph.parents import PrecomputedScores
from kdgraph.report.run_table import run_table
from kdgraph.runner import evaluate
from kdgraph.runner.run import run
from kdgraph.runner.stages import split
from kdgraph.runner.stored_stages import stage_keys
from tests.runner.conftest import write_overconfident_scores


@pytest.fixture
def make_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_overconfident_scores(3000)

    def with_overrides(*overrides: str):
        return compose(
            [
                "dataset=scores",
                "dataset.path=softmax.npz",
                f"out={tmp_path}",
                "figures=none",
                *overrides,
            ]
        )

    return with_overrides


def on_calibration(record) -> dict[tuple[str, str], float]:
    return {
        (entry["metric"], entry["of"]): entry["value"]
        for entry in record["metrics"]
        if entry["on"] == "calibration"
    }


def test_both_models_are_measured_on_fitted_rows(make_config):
    config = make_config("method=histogram", "calibrator.bins=15")
    record = run(config)
    actual = on_calibration(record)
    assert set(actual) == {
        (metric, of)
        for metric in ("error", "nll_top", "brier_top", "ece")
        for of in ("parent", "calibrated")
    }
    rows = split(config.dataset, 0).calibration
    rows = rows.rows(np.argsort(rows.source_rows))  # the order of the file of predictions
    assert {entry["n"] for entry in record["metrics"] if entry["on"] == "calibration"} == {
        len(rows.y)
    }
    assert actual["ece", "parent"] == pytest.approx(ece(rows.y, rows.X, bins=15))
    assert actual["nll_top", "parent"] == pytest.approx(
        nll_top(rows.y, TopLabel.from_proba(rows.X))
    )
    frame = pd.read_parquet(config.run_dir / "predictions.parquet").query("set == 'calibration'")
    top_label = TopLabel(
        np.searchsorted(["0", "1", "2"], frame.calibrated_predicted.astype(str)),
        frame.calibrated_confidence.to_numpy(),
    )
    assert (
        actual["ece", "calibrated"] == pytest.approx(ece(rows.y, top_label, bins=15), abs=1e-12)
        and frame.y.astype(int).tolist() == rows.y.tolist()
    )


def test_calibration_rows_are_predicted_only_where_measured(make_config):
    config = make_config("method=histogram", "metrics=default")
    record = run(config)
    assert on_calibration(record) == {} and "calibration" not in record["config"]["metrics"]
    assert set(pd.read_parquet(config.run_dir / "predictions.parquet").set) == {"test"}


def test_the_key_of_parent_outputs_depends_on_the_predicted_rows(make_config):
    configs = [
        make_config("method=histogram", *more)
        for more in ([], ["~metrics.calibration"], ["~metrics.calibration.ece"])
    ]
    keys = [stage_keys(config, split(config.dataset, 0))["parent_outputs"] for config in configs]
    assert keys[0] != keys[1] and keys[0] == keys[2]


@pytest.mark.filterwarnings("always:the confidence of")
def test_curve_findings_are_recorded_and_printed(make_config):
    record = run(make_config("method=cum", "calibrator.diagnostics=true"))
    message = (
        "the confidence of 0, 2 contradicts the accuracy of the calibration rows in some bins"
        " of scores: plot it"
    )
    assert {"stage": "calibrate", "message": message} in record["warnings"]
    assert set(record["learnt"]["calibrator"]["diagnostics"]["leaves_data"]) == {"0", "2"}
    assert f"  warning (calibrate): {message}" in run_table(record, "x").splitlines()
    again = run(
        make_config("method=cum", "calibrator.diagnostics=true", "metrics=default")
    )  # fitted before
    assert (
        again["learnt"] == record["learnt"]
        and "calibrate" in again["from_store"]
        and again["warnings"] == record["warnings"]
    )


@pytest.mark.filterwarnings("always:the confidence of")
def test_a_warning_calls_classes_as_the_data_do(make_config, tmp_path):
    arrays, names = np.load(tmp_path / "softmax.npz"), np.array(["ant", "bee", "cat"])
    pd.DataFrame(arrays["scores"], columns=names).assign(label=names[arrays["label"]]).to_parquet(
        tmp_path / "scores.parquet"
    )
    (warning,) = run(
        make_config(
            "method=cum",
            "calibrator.diagnostics=true",
            "dataset.path=scores.parquet",
            "dataset.target=label",
        )
    )["warnings"]
    assert warning["message"].startswith("the confidence of ant, cat contradicts")


def test_a_healthy_method_warns_of_nothing(make_config):
    record = run(make_config("method=kde", "calibrator.diagnostics=true"))
    assert record["warnings"] == [] and "diagnostics" not in record["learnt"]["calibrator"]


def test_scores_outside_the_calibration_range_warn():
    rng = np.random.default_rng(0)
    score = rng.uniform(0.7, 1, 400)
    X, y = np.stack([score, 1 - score], axis=1), (rng.random(400) > score).astype(int)
    X[:200] = X[:200, ::-1]
    y[:200] = 1 - y[:200]
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    model = FittedModel(
        parent,
        {
            "calibrator": IsotonicConfidence(parent, diagnostics=True).fit(
                X, y, X_calibration=X, y_calibration=y
            )
        },
    )
    low = np.array([[0.6, 0.4]] * 30 + [[0.2, 0.8]] * 30)
    with pytest.warns(
        UserWarning,
        match=r"^more than 5 % of the rows predicted as 0 have scores outside the range of the calibration",
    ):
        evaluate._warn_of_unseen_scores(model, [Predictions("test", 60, {"proba": low}, {})])
    evaluate._warn_of_unseen_scores(model, [Predictions("test", 60, {"proba": X[:60]}, {})])
