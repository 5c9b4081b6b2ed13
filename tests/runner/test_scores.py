"""A run on a file of scores: nothing is trained, top-label methods and others stand side by side,
and test rows are seen only on demand.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.errors import ConfigError, DataError
from kdgraph.runner.run import run
from tests.runner.conftest import write_overconfident_scores
from tests.variations import others_slow


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_overconfident_scores(900)

    def record_of(*overrides: str):
        config = compose(
            [
                "dataset=scores",
                "dataset.path=softmax.npz",
                f"out={tmp_path}",
                "figures.formats=[svg]",
                *overrides,
            ]
        )
        return config, run(config)

    return record_of


def values(record, of: str) -> dict[str, float]:
    return {
        entry["metric"]: entry["value"]
        for entry in record["metrics"]
        if entry["of"] == of and entry["on"] == "test"
    }


@pytest.mark.parametrize("method", others_slow(["histogram", "temperature", "isotonic"]))
def test_methods_on_scores(records, method):
    config, record = records(f"method={method}")
    before, after = values(record, "parent"), values(record, "calibrated")
    assert after["ece"] < before["ece"] and after["nll_top"] < before["nll_top"]
    assert (record["dataset"]["n_train"], record["dataset"]["n_calibration"]) == (0, 630)
    assert record["files"]["figures"] == [
        f"figures/{name}.svg"
        for name in ("confidence_by_class", "joint_distribution", "reliability_diagram")
    ]
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    own = (
        {"calibrated_predicted", "calibrated_confidence"}
        if method == "histogram"
        else {"calibrated_0", "calibrated_1", "calibrated_2"}
    )
    assert set(frame.filter(like="calibrated")) == own


def test_in_sample_numbers_need_a_setting_and_are_marked(records):
    _, held_out = records()
    config, in_sample = records("protocol=paper")
    assert (
        config.method == "scores-histogram-as_in_paper"
        and in_sample["protocol"] == "paper"
        and held_out["protocol"] == "strict"
    )
    assert values(in_sample, "calibrated")["ece"] < values(held_out, "calibrated")["ece"]
    assert values(in_sample, "parent") == values(held_out, "parent")


def test_in_sample_all_rows_may_test(records):
    _, record = records("protocol=paper", "dataset.n_test=1.0")
    assert (record["dataset"]["n_calibration"], record["dataset"]["n_test"]) == (0, 900)
    assert values(record, "calibrated")["nll_top"] < values(record, "parent")["nll_top"]
    _, alone = records("method=none", "dataset.n_test=1.0", "metrics=top_label")
    assert values(alone, "parent") == values(record, "parent")
    assert np.isclose(sum(record["dataset"]["prior"]), 1)


@pytest.mark.parametrize(
    ("method", "name"), [("histogram", "HistogramBinning"), ("temperature", "ScoreMap")]
)
def test_held_out_needs_rows_to_calibrate(records, method, name):
    with pytest.raises(DataError) as raised:
        records(f"method={method}", "dataset.n_test=1.0")
    rule = (
        "lower dataset.n_test, or give protocol=paper to a method that its paper fits on test rows"
    )
    assert (
        str(raised.value)
        == f"all 900 rows of softmax test, and {name} has none to be fitted on; {rule}"
    )


@pytest.mark.parametrize("method", ["temperature", "none"])
def test_scores_of_a_file_may_be_marked_as_fitted_on_test_rows(records, method):
    """Nothing is fitted otherwise, but a map that is a column of the file may have been."""
    _, record = records(f"method={method}", "protocol=paper")
    assert record["protocol"] == "paper"


def test_outputs_that_a_method_lacks_have_parent_values_only(records):
    _, record = records("metrics=default")
    before, after = values(record, "parent"), values(record, "calibrated")
    assert (
        before["nll"] > 0
        and after["nll"] is None
        and after["brier"] is None
        and 0 < after["ece"] < before["ece"]
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["parent=random_forest"],
            "dataset=softmax has class scores and nothing to train on; choose parent=scores",
        ),
        (
            ["metrics=regression"],
            (
                "metrics.test: rmse needs predictive distributions, which the method does not give;"
                " use one for regression"
            ),
        ),
    ],
)
def test_what_scores_cannot_do(records, overrides, message):
    with pytest.raises(ConfigError) as raised:
        records(*overrides)
    assert str(raised.value) == message


def test_curves_are_lines_and_functions_of_whole_rows_are_dots(records):
    for method, drawn in (("kde", "curve KDE"), ("temperature", "cloud Temperature")):
        config, _ = records(
            f"method={method}",
            "~figures.draw.joint_distribution",
            "~figures.draw.reliability_diagram",
        )
        picture = (config.run_dir / "figures" / "confidence_by_class.svg").read_text()
        assert all(
            f'id="{gid}"' in picture
            for gid in (drawn, "steps calibration rows", "steps test rows", "identity")
        )


def test_true_and_predicted_classes_are_counted(records):
    config, _ = records("method=histogram")
    frame = pd.read_parquet(config.run_dir / "predictions.parquet").query("set == 'test'")
    picture = (config.run_dir / "figures" / "joint_distribution.svg").read_text()
    for cell in pd.crosstab(frame.y, frame.calibrated_predicted).to_numpy().ravel():
        assert f">{cell}</text>" in picture
