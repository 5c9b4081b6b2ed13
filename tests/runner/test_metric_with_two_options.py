"""One metric with two options in one run: two numbers, two columns, two names on a command line."""

from __future__ import annotations

import shlex

import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.metrics import ece
from kdgraph.results.measures import read_measures
from kdgraph.runner.run import run

COMMAND = """dataset=spiral method=isotonic dataset.n_train=300 dataset.n_test=200 parent.n_estimators=10 ood=none figures=none
"+metrics.test.ece_4={metric: ece, bins: 4}" "+metrics.test.curve={metric: lce_by_bandwidth}" """


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    config = compose([*shlex.split(COMMAND), f"out={tmp_path_factory.mktemp('outputs')}"])
    return config, run(config)


def test_each_has_its_number_and_its_label(done):
    config, record = done
    predictions = pd.read_parquet(config.run_dir / "predictions.parquet").query("set == 'test'")
    y, proba = (
        predictions["y"].astype(int).to_numpy(),
        predictions[["calibrated_0", "calibrated_1"]].to_numpy(),
    )
    values = {
        m.label: entry["value"]
        for m, entry in read_measures(record)
        if m.metric_name == "ece" and entry["of"] == "calibrated"
    }
    assert values == {
        f"ECE, {bins} bins": pytest.approx(ece(y, proba, bins=bins), abs=1e-12) for bins in (15, 4)
    }


def test_the_record_names_the_metric(done):
    _, record = done
    assert record["about_metrics"]["ece_4"] == record["about_metrics"]["ece"] | {"metric": "ece"}
    assert record["files"]["tables"] == {"curve": "tables/curve.csv"}


def test_it_is_typed_by_the_name_that_it_was_given(done, kdg):
    config, _ = done
    code, out, _ = kdg("table", "--out", config.out, "--metric", "ece_4")
    assert code == 0
    assert "ece_4" in out.splitlines()[0]
