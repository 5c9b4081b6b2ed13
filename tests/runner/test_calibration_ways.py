"""Runs that hold no row out: same test rows, calibrated on all others, predicted from their model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.errors import ConfigError, DataError
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import run
from kdgraph.runner.run_dir import RunDir
from kdgraph.runner.stages import cross_fit, split
from kdgraph.runner.stored_stages import StoredStages
from tests.variations import others_slow

WAYS = ("held_out", "oob", "cross_fit")
SMALL = [
    "parent.n_estimators=15",
    "ood=none",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
    "cv=3",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with numbers, categories, missing values and two groups."""
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=150), rng.integers(0, 2, 150)
    color = np.where(rng.random(150) < 0.5, "red", "blue")
    label = np.where(x + 0.5 * (color == "red") + 0.4 * rng.normal(size=150) > 0, "yes", "no")
    frame = pd.DataFrame(
        {
            "x": x,
            "z": rng.normal(size=150),
            "color": color,
            "group": np.array(["a", "b"])[group],
            "y": label,
        }
    )
    frame.loc[::17, "x"] = np.nan
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "method",
    others_slow(
        ["kdf", "gated_linear_pool", "best", "isotonic_top_label", "entropy", "graph_density"]
    ),
)
def test_every_way_calibrates_and_predicts_a_table_with_categories(table, tmp_path, method, way):
    words = ["dataset=table", f"dataset.path={table}", "dataset.target=y", f"method={method}"]
    config = compose([*words, *SMALL, f"calibration={way}", f"out={tmp_path}"])
    record = run(config)
    data = record["dataset"]
    if way == "held_out":
        assert data["n_calibration"] > 0
    else:
        assert data["n_calibration"] == 0
    assert data["n_train"] + data["n_calibration"] + data["n_test"] == 150
    output = tmp_path / "predicted.csv"
    folder = str(config.run_dir)
    words = ["--run", folder, "--input", str(table), "--output", str(output)]
    assert main(["predict", *words]) == 0
    predicted = pd.read_csv(output)
    stored = pd.read_parquet(RunDir(config.run_dir).path / "predictions.parquet")
    test = stored[stored["set"] == "test"]
    if method not in ("entropy", "graph_density", "isotonic_top_label"):
        np.testing.assert_allclose(
            predicted["probability_yes"].to_numpy()[test["row"].to_numpy(int)],
            test["calibrated_yes"],
            atol=1e-10,
        )


def test_ways_have_the_same_test_rows_and_fingerprint():
    splits = {
        way: split(compose(["dataset=wine", "dataset.scale=none"]).dataset, 3, way) for way in WAYS
    }
    held_out, oob = splits["held_out"], splits["oob"]
    np.testing.assert_array_equal(held_out.test.X, oob.test.X)
    np.testing.assert_array_equal(
        oob.train.X, np.concatenate([held_out.train.X, held_out.calibration.X])
    )
    assert len(oob.calibration.y) == 0
    assert len({each.rows_fingerprint for each in splits.values()}) == 1
    assert len({each.test_fingerprint for each in splits.values()}) == 1
    calibrates = split(compose(["dataset=wine", "dataset.scale=none"]).dataset, 3, trains=False)
    assert len(calibrates.train.y) == 0
    assert calibrates.test_fingerprint == held_out.test_fingerprint != held_out.rows_fingerprint
    assert held_out.fingerprint != oob.fingerprint == splits["cross_fit"].fingerprint


@pytest.mark.parametrize("way", ["oob", "cross_fit"])
def test_a_simulation_without_hold_out_has_its_posterior(way):
    dataset = compose(["dataset=spiral", "dataset.n_train=70", "dataset.n_test=20"]).dataset
    splits = split(dataset, 0, way)
    assert len(splits.train.y) == 100
    truth = splits.train.truth
    assert isinstance(truth, np.ndarray) and truth.shape == (100, 2)


def test_groups_go_along(table, tmp_path):
    words = ["dataset=table", f"dataset.path={table}", "dataset.target=y", "dataset.group=group"]
    for way in WAYS:
        record = run(
            compose(
                [
                    *words,
                    "method=group_temperature",
                    *SMALL,
                    f"calibration={way}",
                    f"out={tmp_path}",
                ]
            )
        )
        assert record["learnt"]["calibrator"]["groups"] == 2


@pytest.mark.parametrize("method", ["global_pit", "local_pit", "conformal_local_pit"])
def test_recalibrators_are_cross_fitted(tmp_path, method):
    words = ["dataset=heteroscedastic", "dataset.n_train=60", "dataset.n_test=40", "cv=3"]
    more = ["ood=none", "figures=none", f"method={method}", f"out={tmp_path}", "n_jobs=1"]
    record = run(compose([*words, *more, "calibration=cross_fit"]))
    assert record["dataset"]["n_calibration"] == 0
    assert all(np.isfinite(entry["value"]) for entry in record["metrics"] if entry["value"])


def test_folds_keep_groups_of_rows_together_and_oob_refuses_them(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "grouped.csv"
    pd.DataFrame(
        {"x": rng.normal(size=90), "who": np.arange(90) // 3, "y": np.tile(["a", "b"], 45)}
    ).to_csv(path, index=False)
    words = [
        "dataset=table",
        f"dataset.path={path}",
        "dataset.target=y",
        "dataset.split_groups=who",
    ]
    config = compose([*words, "method=isotonic", *SMALL, "calibration=cross_fit"])
    train = split(config.dataset, 0, "cross_fit").train
    _, fold = cross_fit(config.parent, train, cv=3, seed=0, n_jobs=1)
    folds_of_group = pd.Series(fold).groupby(train.split_groups).nunique()
    assert (folds_of_group == 1).all()
    oob = compose([*words, "method=isotonic", *SMALL, "calibration=oob", f"out={tmp_path}"])
    with pytest.raises(DataError, match="choose calibration=cross_fit"):
        run(oob)
    automatic = compose([*words, "method=kdf", *SMALL, f"out={tmp_path}"])
    assert automatic.calibration == "held_out"
    assert run(automatic)["dataset"]["n_calibration"] > 0


def test_parents_of_folds_are_fitted_once_for_all_methods(tmp_path):
    records = [
        run(
            compose(
                [
                    "dataset=wine",
                    f"method={method}",
                    *SMALL,
                    "calibration=cross_fit",
                    f"out={tmp_path}",
                ]
            )
        )
        for method in ("isotonic", "sigmoid")
    ]
    assert "cross_fit" not in records[0]["from_store"]
    assert {"fit", "cross_fit"} <= set(records[1]["from_store"])


def test_cross_fitting_a_parent_alone_fits_no_folds(tmp_path):
    config = compose(
        ["dataset=wine", "method=random_forest", *SMALL, "calibration=cross_fit", f"out={tmp_path}"]
    )
    stages = StoredStages(
        config, split(config.dataset, config.seed, config.calibration), ProgressReporter()
    )
    assert stages.cross_fit() is None
    assert "cross_fit" not in run(config)["seconds"]


REFUSED = {
    "calibration=oob needs a forest with bootstrap=true, and parent=mlp is none; choose"
    " calibration=cross_fit or held_out, or parent=random_forest": [
        "method=network_temperature",
        "calibration=oob",
    ],
    "calibration=cross_fit fits the parent on folds, and parent=scores trains nothing; choose"
    " calibration=held_out": ["parent=scores", "method=sts", "calibration=cross_fit"],
}


@pytest.mark.parametrize("message", REFUSED)
def test_ways_that_a_parent_does_not_allow_are_refused(message):
    from kdgraph.config import check

    with pytest.raises(ConfigError) as caught:
        check(compose(["dataset=wine", *REFUSED[message]]))
    assert str(caught.value) == message


def test_labels_name_the_way_where_it_is_not_that_of_the_preset():
    labels = {
        ("method=kdf",): "kdf",
        ("method=kdf", "calibration=held_out"): "kdf-held_out",
        ("method=kdf", "calibration=cross_fit"): "kdf-cross_fit",
        ("method=isotonic",): "isotonic",
        ("method=isotonic", "calibration=oob"): "isotonic-oob",
        ("method=kdf", "calibrator.alpha=0.1"): "kdf",
        ("method=kdf", "parent=extra_trees"): "extra_trees-kdf",
        ("method=kdf", "calibrator=kdf_paper"): "random_forest-kdf_paper",
        ("method=random_forest",): "random_forest",
        ("method=random_forest", "calibration=held_out"): "random_forest-held_out",
    }
    for words, label in labels.items():
        assert compose(["dataset=wine", *words]).method == label
