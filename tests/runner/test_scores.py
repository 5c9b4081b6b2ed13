"""A run on a file of scores: nothing is trained, top-label methods and others stand side by side, and test rows are seen only on demand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.errors import ConfigError
from kdgraph.runner.run import run


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.full(3, 0.5), size=900)
    y = np.array([rng.choice(3, p=row) for row in proba**0.5 / (proba**0.5).sum(axis=1, keepdims=True)])  # overconfident
    np.savez("softmax.npz", scores=proba, label=y)

    def of(*overrides: str):
        config = compose(["dataset=scores", "dataset.path=softmax.npz", f"out={tmp_path}", "figures.formats=[svg]", *overrides])
        return config, run(config)

    return of


def values(record, of: str) -> dict[str, float]:
    return {entry["metric"]: entry["value"] for entry in record["metrics"] if entry["of"] == of}


@pytest.mark.parametrize("method", ["histogram", "temperature", "isotonic"])
def test_methods_on_scores(records, method):
    config, record = records(f"method={method}")
    before, after = values(record, "parent"), values(record, "calibrated")
    assert after["ece"] < before["ece"] and after["nll_top"] < before["nll_top"]
    assert (record["dataset"]["n_train"], record["dataset"]["n_calibration"]) == (0, 630)
    assert record["files"]["figures"] == ["figures/confidence_by_class.svg", "figures/reliability_diagram.svg"]
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    own = {"calibrated_predicted", "calibrated_confidence"} if method == "histogram" else {"calibrated_0", "calibrated_1", "calibrated_2"}
    assert set(frame.filter(like="calibrated")) == own


def test_in_sample_as_the_paper_draws_it_is_asked_for_and_told(records):
    _, held_out = records()
    config, in_sample = records("protocol=paper")
    assert config.method == "scores-histogram-as_in_paper" and in_sample["protocol"] == "paper" and held_out["protocol"] == "held_out"
    assert values(in_sample, "calibrated")["ece"] < values(held_out, "calibrated")["ece"]
    assert values(in_sample, "parent") == values(held_out, "parent")


def test_a_method_without_such_a_protocol_does_the_same_under_both(records):
    _, held_out = records("method=temperature")
    _, other = records("method=temperature", "protocol=paper")
    assert held_out["metrics"] == other["metrics"]


def test_of_what_a_method_does_not_give_only_the_parent_has_a_value(records):
    _, record = records("metrics=default")
    before, after = values(record, "parent"), values(record, "calibrated")
    assert before["nll"] > 0 and after["nll"] is None and after["brier"] is None and 0 < after["ece"] < before["ece"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["parent=random_forest"], "dataset=softmax has class scores and nothing to train on; choose parent=scores"),
        (
            ["metrics=regression"],
            "metrics.test: rmse needs predictive distributions, which the method does not give; use one for regression",
        ),
    ],
)
def test_what_scores_cannot_do(records, overrides, message):
    with pytest.raises(ConfigError) as raised:
        records(*overrides)
    assert str(raised.value) == message
