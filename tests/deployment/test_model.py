"""A model with its schema predicts data frames as the run predicts the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import kdgraph
from kdgraph.config import check, compose
from kdgraph.deployment import DeployedModel
from kdgraph.errors import DataError
from kdgraph.runner.repair import repair

pytestmark = pytest.mark.filterwarnings("ignore:.*have the features of another row")
SMALL = ["parent.n_estimators=10", "figures=none", "n_jobs=1"]


def make_table(n=300):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "job": rng.choice(["chef", "clerk", "nurse"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    rich = (frame["age"] > 40) ^ (frame["job"] == "nurse")
    frame.loc[::20, "age"] = np.nan
    frame.loc[::31, "job"] = None
    return frame.assign(rich=np.where(rich, "yes", "no"), price=rng.normal(size=n))


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = make_table()
    frame.to_csv("rows.csv", index=False)
    return frame.drop(columns=["rich", "price"])


def repaired(*overrides):
    words = ["dataset=table", "dataset.path=rows.csv", "ood=none", *SMALL, *overrides]
    config = compose(words)
    check(config)
    return repair(config)


@pytest.fixture
def model(table):
    return repaired("dataset.target=rich", "dataset.drop=[price]", "method=gated_isotonic").model


def test_all_rows_fit_it_and_none_tests(table):
    classifier = ["dataset.target=rich", "dataset.drop=[price]"]
    gated = repaired(*classifier, "method=gated_isotonic")
    assert (gated.n_train, gated.n_calibration) == (210, 90)
    crossed = repaired(*classifier, "method=isotonic", "calibration=cross_fit", "cv=3")
    assert (crossed.n_train, crossed.n_calibration) == (300, 0)


def test_frames_may_have_other_order_and_more_columns(model, table):
    expected = model.predict_proba(table)
    shuffled = table.assign(other=1)[["other", "sex", "job", "age"]]
    np.testing.assert_array_equal(model.predict_proba(shuffled), expected)
    np.testing.assert_array_equal(
        model.predict_proba(table.astype({"job": "category", "sex": "category"})), expected
    )
    assert expected.shape == (300, 2)
    assert list(model.classes_) == ["no", "yes"]
    assert list(model.feature_names_in_) == ["age", "job", "sex"]


def test_an_array_has_positions_of_categories(model, table):
    codes = np.column_stack(
        [
            table["age"],
            table["job"].map({"chef": 0.0, "clerk": 1.0, "nurse": 2.0}),
            table["sex"].map({"f": 0.0, "m": 1.0}),
        ]
    )
    np.testing.assert_array_equal(model.predict_proba(codes), model.predict_proba(table))
    with pytest.raises(DataError, match=r"X must have rows of shape \[3\], got \[2\]"):
        model.predict(codes[:, :2])


def test_methods_agree_with_each_other(model, table):
    frame = model.predict_frame(table)
    np.testing.assert_array_equal(frame["predicted"], model.predict(table))
    np.testing.assert_array_equal(frame["confidence"], model.predict_confidence(table))
    np.testing.assert_array_equal(frame["ood_score"], model.ood_score(table))
    np.testing.assert_array_equal(frame["probability_yes"], model.predict_proba(table)[:, 1])
    assert model.supports("proba") and not model.supports("prediction_set")
    with pytest.raises(TypeError, match="do not provide prediction_set"):
        model.predict_set(table)


def test_far_rows_have_the_prior(model, table):
    far = table[:5].assign(age=1e6)
    assert (model.ood_score(far) > 0).all()
    prior = np.bincount((make_table()["rich"] == "yes").astype(int)) / 300
    # The gate falls back to the class fractions of its training rows, drawn by class.
    np.testing.assert_allclose(model.predict_proba(far), np.tile(prior, (5, 1)), atol=1 / 210)


def test_unseen_categories_are_refused_or_missing(model, table):
    strange = table[:3].assign(job=["pilot", "chef", None])
    with pytest.raises(
        DataError,
        match=r"^X: column 'job' has 'pilot' in row 0, and the training data have chef, clerk,"
        r" nurse; dataclasses.replace\(model, unseen=\"missing\"\) reads such cells as missing$",
    ):
        model.predict(strange)
    lenient = replace(model, unseen="missing")
    np.testing.assert_array_equal(
        lenient.predict_proba(strange),
        model.predict_proba(strange.assign(job=[None, "chef", None])),
    )
    with pytest.raises(DataError, match=r"^X has no column 'job', which the model needs; it has"):
        model.predict(table.drop(columns="job"))


def test_groups_come_from_their_column(table):
    grouped = repaired(
        "dataset.target=rich",
        "dataset.drop=[price]",
        "dataset.group=sex",
        "method=group_temperature",
        "parent=random_forest",
    ).model
    changed = table.assign(sex=np.where(table["sex"] == "f", "m", "f"))
    assert not np.array_equal(grouped.predict_proba(table), grouped.predict_proba(changed))
    with pytest.raises(DataError, match="X must be a data frame with the columns age, job, sex"):
        grouped.predict(np.zeros((2, 3)))


def test_a_regressor_predicts_distributions(table):
    words = ["dataset=table", "dataset.path=rows.csv", "dataset.target=price"]
    config = compose([*words, "dataset.drop=[rich]", "method=global_pit", "figures=none"])
    model = repair(config).model
    np.testing.assert_array_equal(model.predict(table), model.predict_dist(table).mean())
    assert list(model.predict_frame(table).columns)[:2] == ["mean", "q0.025"]
    assert list(model.classes_) == []


def test_a_file_has_the_same_predictions(model, table, tmp_path):
    kdgraph.save(model, tmp_path / "model.kdg")
    loaded = kdgraph.load(tmp_path / "model.kdg")
    assert isinstance(loaded, DeployedModel) and loaded.schema == model.schema
    pd.testing.assert_frame_equal(loaded.predict_frame(table), model.predict_frame(table))
