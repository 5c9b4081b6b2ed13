"""Groups of a data set through a whole run: group metrics and what is fitted by group get them;
rows out of distribution have none.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.calibration import GroupWise
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.config import compose
from kdgraph.errors import DataError
from kdgraph.metrics import METRICS, TopLabel
from kdgraph.metrics.inputs import Groups
from kdgraph.runner.run import run
from kdgraph.runner.stages import calibrate, fit, split


@pytest.fixture
def make_config(tmp_path, monkeypatch):
    """Return a function that composes a config of a table with three groups, one hard to predict."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    who, size, age = (
        rng.choice(["Ada", "Bob", "Cyd"], size=300, p=[0.5, 0.4, 0.1]),
        rng.normal(size=300),
        rng.normal(size=300),
    )
    label = size + np.where(who == "Ada", 3.0, 0.3) * rng.normal(size=300) > 0
    pd.DataFrame(
        {"size": size, "age": age, "who": who, "label": np.where(label, "yes", "no")}
    ).to_csv("my.csv", index=False)
    common = [
        "dataset=table",
        "dataset.path=my.csv",
        "dataset.target=label",
        "dataset.group=who",
        "parent.n_estimators=10",
        "figures=none",
        "n_jobs=1",
        f"out={tmp_path}",
    ]
    return lambda *overrides: compose([*common, *overrides])


def remade(config):
    splits = split(config.dataset, config.seed)
    parent = fit(
        config.parent, splits.train, preprocess=config.preprocess, seed=config.seed, n_jobs=1
    )
    return splits, calibrate(
        {"calibrator": config.calibrator}, parent, splits, seed=config.seed, n_jobs=1
    )


def test_metrics_and_a_calibrator_by_group_receive_the_groups(make_config):
    config = make_config(
        "method=group_histogram",
        "calibrator.bins=5",
        "ood=none",
        "metrics=groups",
        "parent.n_estimators=10",
    )
    record = run(config)
    splits, model = remade(config)
    assert splits.test.group_names == ("Ada", "Bob", "Cyd")
    test, part = splits.test, model.post_hoc["calibrator"]
    assert isinstance(part, LocalRecalibration) and part.groups_.tolist() == [0, 1, 2]
    top_label = TopLabel(
        model.parent.predict_proba(test.X).argmax(axis=1),
        part.predict_confidence(test.X, test.groups),
        2,
    )
    actual = {
        (entry["metric"], entry["of"]): entry["value"]
        for entry in record["metrics"]
        if entry["on"] == "test"
    }
    options = dict(config.measures["test"]["group_mce"])
    known = Groups(test.groups, test.group_names)
    assert actual["group_mce", "calibrated"] == pytest.approx(
        METRICS["group_mce"](test.y, top_label, known, **options), abs=1e-12
    )
    of_parent = METRICS["group_mce"](
        test.y, TopLabel.from_proba(model.parent.predict_proba(test.X)), known, **options
    )
    assert (
        actual["group_mce", "parent"] == pytest.approx(of_parent, abs=1e-12)
        and of_parent != actual["group_mce", "calibrated"]
    )
    assert record["learnt"]["calibrator"]["bins"] == 5
    frame = pd.read_parquet(config.run_dir / "predictions.parquet").query("set == 'test'")
    np.testing.assert_allclose(
        frame.calibrated_confidence, top_label.confidence[np.argsort(test.source_rows)], atol=1e-12
    )


def test_each_group_has_its_own_temperature(make_config):
    record = run(
        make_config(
            "method=group_temperature", "ood=none", "metrics=groups", "parent.n_estimators=10"
        )
    )
    assert record["learnt"]["calibrator"] == {"groups": 3, "without": {}}


@pytest.mark.parametrize("name", ["group_histogram", "group_temperature"])
def test_rows_out_of_distribution_have_no_group(name, make_config, monkeypatch):
    calls = []
    kind, method = (
        (LocalRecalibration, "predict_top_label")
        if name == "group_histogram"
        else (GroupWise, "predict_proba")
    )
    real = getattr(kind, method)

    def noted(self, X, groups=None):
        calls.append((len(X), None if groups is None else np.asarray(groups)))
        return real(self, X, groups)

    monkeypatch.setattr(kind, method, noted)
    config = make_config(
        f"method={name}",
        "parent.n_estimators=10",
        "ood=sphere",
        "ood.n=20",
        "ood.radii=[2]",
        "metrics=default",
    )
    run(config)
    splits = split(config.dataset, config.seed)
    expected = np.concatenate([splits.test.groups, np.full(20, -1)])
    assert calls
    for n, groups in calls:
        assert n == len(expected)
        np.testing.assert_array_equal(groups, expected)


def test_parts_that_need_groups_are_refused_without_them(make_config):
    with pytest.raises((DataError, ValueError), match="groups") as caught:
        run(
            make_config(
                "method=group_histogram",
                "dataset.group=null",
                "dataset.drop=[who]",
                "ood=none",
                "metrics=top_label",
            )
        )
    assert "\n" not in str(caught.value)


def test_group_histogram_is_a_histogram_for_each_group(make_config):
    config = make_config(
        "method=group_histogram",
        "calibrator.bins=5",
        "parent.n_estimators=10",
        "ood=none",
        "metrics=top_label",
    )
    splits, model = remade(config)
    part, rows = model.post_hoc["calibrator"], splits.calibration
    confidence = part.predict_confidence(splits.test.X, splits.test.groups)
    for g in range(3):
        alone = HistogramBinning(part.estimator, by_class=False, bins=5)
        in_group, of_test = rows.groups == g, splits.test.groups == g
        alone.fit(
            splits.train.X,
            splits.train.y,
            X_calibration=rows.X[in_group],
            y_calibration=rows.y[in_group],
        )
        support = (
            alone._support(
                alone.curves_[0], part.estimator.predict_proba(splits.test.X[of_test]).max(axis=1)
            )
            > 0
        )
        np.testing.assert_allclose(
            confidence[of_test][support],
            alone.predict_confidence(splits.test.X[of_test])[support],
            atol=1e-15,
        )


def test_nothing_is_fitted_by_groups_that_are_the_target(make_config):
    overrides = ["dataset.group=label", "dataset.drop=[who]", "ood=none", "parent.n_estimators=2"]
    message = (
        "the groups of my are its target, and LocalRecalibration would see the label of each"
        " test row; name another column for dataset.group, or choose a method that treats no group"
        " apart"
    )
    with pytest.raises(DataError) as caught:
        run(make_config("method=group_histogram", *overrides, "metrics=top_label"))
    assert str(caught.value) == message
    assert (
        run(make_config("method=histogram", *overrides, "metrics=groups"))["dataset"]["source"][
            "target_and_group"
        ]
        == "label"
    )
