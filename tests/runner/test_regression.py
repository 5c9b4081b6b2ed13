"""A regression from its config to its record, its figures and its predictions of new rows; and what
does not go together.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.errors import ConfigError
from kdgraph.metrics import METRICS
from kdgraph.runner.run import run
from kdgraph.runner.stages import calibrate, fit, split

SIZES = ["dataset.n_train=300", "dataset.n_calibration=200", "dataset.n_test=150"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("outputs")
    config = compose(["dataset=heteroscedastic", *SIZES, "figures.formats=[svg]", f"out={out}"])
    return config, run(config)


def test_the_data_set_chooses_what_is_for_regression(done):
    config, record = done
    parts = [
        record[part]
        for part in ("method", "parent", "calibrator", "gate", "detector", "recalibrator")
    ]
    assert parts == ["global_pit", "linear", "none", "none", "none", "global_pit"]
    assert (record["dataset"]["classes"], record["dataset"]["prior"]) == ([], None)
    assert record["warnings"] == []
    numbers = {name for name in config.metrics["test"] if not METRICS[name].is_table}
    assert {(m["metric"], m["of"]) for m in record["metrics"]} == {
        (name, of) for name in numbers for of in ("parent", "calibrated")
    }
    assert record["learnt"]["recalibrator"]["n_pits"] == 200
    assert sorted(record["files"]["figures"]) == [
        "figures/coverage_against_level.svg",
        "figures/pit_histogram.svg",
    ]


def test_the_numbers_are_those_of_the_stages(done):
    """Made again without the store: the parent's coverage counted by hand from the quantiles that
    were written down.
    """
    config, record = done
    splits = split(config.dataset, 0)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    model = calibrate(config.after, parent, splits, seed=0, n_jobs=1)
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    for of, distribution in (
        ("parent", parent.predict_dist(splits.test.X)),
        ("calibrated", model.predict_outputs(["distribution"], splits.test.X)["distribution"]),
    ):
        np.testing.assert_array_equal(frame[f"{of}_mean"], distribution.mean())
        low, high = frame[f"{of}_q0.025"], frame[f"{of}_q0.975"]
        entry = next(m for m in record["metrics"] if (m["metric"], m["of"]) == ("coverage", of))
        assert entry["value"] == pytest.approx(((low <= frame["y"]) & (frame["y"] <= high)).mean())
        truth = 10 + 5 * splits.test.X[:, 0] ** 2
        entry = next(m for m in record["metrics"] if (m["metric"], m["of"]) == ("mse_mean", of))
        assert (
            entry["value"] == pytest.approx(np.mean((frame[f"{of}_mean"] - truth) ** 2))
            and entry["stderr"] > 0
        )
    table = pd.read_csv(config.run_dir / record["files"]["tables"]["pit_histogram"])
    assert table.groupby("of")["count"].agg(["size", "sum"]).to_numpy().tolist() == [[20, 150]] * 2


def test_another_method_on_the_same_parent_fits_it_no_more(done):
    config, record = done
    alone = run(
        compose(
            [
                "dataset=heteroscedastic",
                *SIZES,
                "method=linear",
                "figures=none",
                f"out={config.out}",
            ]
        )
    )
    assert "fit" in alone["from_store"]
    of_parent = [m for m in record["metrics"] if m["of"] == "parent"]
    assert [m for m in alone["metrics"] if m["of"] == "parent"] == of_parent
    assert [m | {"of": "parent"} for m in alone["metrics"] if m["of"] == "calibrated"] == of_parent


def test_out_of_distribution_rows_are_predicted_too(done):
    """Nothing is measured of them, since no metric needs a score."""
    config, _ = done
    more = ["ood=sphere", "ood.n=5", "ood.radii=[30]", "figures=none"]
    record = run(compose(["dataset=heteroscedastic", *SIZES, *more, f"out={config.out}"]))
    assert record["warnings"] == [] and {m["on"] for m in record["metrics"]} == {"test"}


def test_new_rows_are_predicted_as_test_rows_were(done, kdg):
    config, _ = done
    splits = split(config.dataset, 0)
    np.savez("new.npz", X=splits.test.X)
    code, out, err = kdg(
        "predict", "--run", str(config.run_dir), "--input", "new.npz", "--output", "new.parquet"
    )
    assert (code, out, err) == (0, "new.parquet   150 rows\n", "")
    predicted, known = (
        pd.read_parquet("new.parquet"),
        pd.read_parquet(config.run_dir / "predictions.parquet"),
    )
    assert list(predicted) == ["row", "mean", "q0.025", "q0.25", "q0.5", "q0.75", "q0.975"]
    for name in list(predicted)[1:]:
        np.testing.assert_array_equal(predicted[name], known[f"calibrated_{name}"])
    schema = json.loads((config.run_dir / "model" / "schema.json").read_text())
    assert (schema["classes"], schema["ood_score"]) == ([], "none")


def test_columns_that_need_encoding(tmp_path, kdg):
    """Categories and missing cells, and a parent that stands behind their encoder: predict_dist
    comes through.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "town": rng.choice(["Ulm", "Bonn"], 300),
            "age": rng.normal(size=300),
            "day": rng.permutation(300),
        }
    )
    frame["price"] = (
        np.where(frame["town"] == "Ulm", 5.0, 0.0) + frame["age"] + rng.normal(size=300)
    )
    frame.loc[::9, "age"] = np.nan
    frame.to_csv("my.csv", index=False)
    chosen = ["method=global_pit", "metrics=regression", "figures=none", "ood=none"]
    code, out, err = kdg(
        "run", "dataset=table", "dataset.path=my.csv", "dataset.target=price", *chosen, "--json"
    )
    assert (code, err) == (0, "")
    rmse = next(
        m["value"]
        for m in json.loads(out)["metrics"]
        if (m["metric"], m["of"]) == ("rmse", "parent")
    )
    assert rmse < 1.5  # 2.9 without the town, 1.1 with all features
    (folder,) = (tmp_path / "outputs" / "my" / "global_pit").iterdir()
    assert kdg("predict", "--run", str(folder), "--input", "my.csv", "--output", "new.csv")[0] == 0


@pytest.mark.parametrize(
    "name", ["friedman1", "friedman2", "friedman3", "made_regression", "diabetes_progression"]
)
def test_tables_of_a_regression_run_as_they_are(name, kdg):
    code, out, err = kdg("run", f"dataset={name}", "figures=none", "--json")
    assert (code, err) == (0, "")
    values = {
        m["metric"]: m["value"] for m in json.loads(out)["metrics"] if m["of"] == "calibrated"
    }
    assert {"rmse", "crps", "coverage", "interval_score", "pit_ks"} == set(values)
    assert 0.85 < values["coverage"] <= 1  # 133 to 600 test rows


def test_classifier_on_a_regression_is_refused_before_fit():
    train = split(compose(["dataset=friedman1"]).dataset, 0).train
    with pytest.raises(
        ConfigError,
        match=r"^dataset=friedman1 is for regression, and parent=random_forest is a classifier; ",
    ):
        fit(compose(["parent=random_forest"]).parent, train, seed=0, n_jobs=1)
