"""Repairs of models that were fitted elsewhere, and files of the repaired models."""

from __future__ import annotations

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kdgraph import DensityGate, partition_of
from kdgraph.calibration import ScoreMap
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.data.tables import TableFile
from kdgraph.detection import LeafBox
from kdgraph.errors import DataError
from kdgraph.fitted import FittedParent, load_fitted
from kdgraph.persistence import UntrustedFileError, load, save
from kdgraph.recalibration import GlobalPit

rng = np.random.default_rng(7)
X = rng.normal(size=(400, 2))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=400) > 0, "in", "out")
TRAIN, CALIBRATION, TEST = slice(0, 150), slice(150, 300), slice(300, 400)
FAR = np.array([[40.0, -40.0]])


def model_file(tmp_path, estimator) -> str:
    path = tmp_path / "model.joblib"
    joblib.dump(estimator, path)
    return str(path)


@pytest.fixture
def forest(tmp_path):
    model = make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0))
    frame = pd.DataFrame(X, columns=["a", "b"])
    return model_file(tmp_path, model.fit(frame[TRAIN], Y[TRAIN]))


@pytest.fixture
def logistic(tmp_path):
    return model_file(tmp_path, LogisticRegression().fit(X[TRAIN], Y[TRAIN]))


def test_partition_of_a_model_is_that_of_its_estimator(forest):
    parent, model = load_fitted(forest, trust=True), joblib.load(forest)
    frame = pd.DataFrame(X, columns=["a", "b"])
    expected = partition_of(model).encode(frame)
    np.testing.assert_array_equal(partition_of(parent).encode(X), expected)
    np.testing.assert_array_equal(partition_of(FrozenEstimator(parent)).encode(frame), expected)


@pytest.mark.filterwarnings("ignore:.*is trusted")
def test_model_without_a_partition_gets_a_named_forest(logistic):
    with pytest.warns(UserWarning, match="trees of their own") as caught:
        parent = FittedParent(logistic, trust=True, random_state=0).fit(X[TRAIN], Y[TRAIN])
    messages = [str(warning.message) for warning in caught]
    assert (
        f"the model in {logistic} (pickle) has no partition that can be read: gate, detectors and"
        " local calibration use a forest of 100 trees of their own, fitted on 150 rows" in messages
    )
    held_out = {"X_calibration": X[CALIBRATION], "y_calibration": Y[CALIBRATION]}
    model = joblib.load(logistic)
    gate = DensityGate(FrozenEstimator(parent), random_state=0).fit(X[TRAIN], Y[TRAIN], **held_out)
    # In the data the gate returns the probabilities of the model, far from it the class prior.
    inside = gate.log_density(X[TEST]) > gate.log_floor_
    assert inside.mean() > 0.9
    np.testing.assert_array_equal(
        gate.predict_proba(X[TEST][inside]), model.predict_proba(X[TEST][inside])
    )
    np.testing.assert_allclose(gate.predict_proba(FAR)[0], gate.prior_, atol=1e-6)
    detector = LeafBox(FrozenEstimator(parent)).fit(X[TRAIN], Y[TRAIN], **held_out)
    assert detector.ood_score(FAR) > detector.ood_score(X[TEST]).max()
    local = LocalRecalibration(FrozenEstimator(parent), kernel="geodesic", bandwidth=0.5)
    confidence = local.fit(X[TRAIN], Y[TRAIN], **held_out).predict_confidence(X[TEST])
    assert (local.predict(X[TEST]) == model.predict(X[TEST])).all()
    assert len(np.unique(confidence)) > 10


def test_without_rows_there_is_no_forest(logistic):
    with pytest.raises(TypeError, match="has no partition to read"):
        partition_of(load_fitted(logistic, trust=True))


@pytest.mark.filterwarnings("ignore:.*is trusted", "ignore:.*trees of their own")
def test_regressors_are_repaired(tmp_path):
    target = X[:, 0] + rng.exponential(size=400)
    path = model_file(tmp_path, KNeighborsRegressor().fit(X[TRAIN], target[TRAIN]))
    parent = FittedParent(path, trust=True).fit(X[CALIBRATION], target[CALIBRATION])
    pit = GlobalPit(FrozenEstimator(parent)).fit(
        X[TRAIN], target[TRAIN], X_calibration=X[CALIBRATION], y_calibration=target[CALIBRATION]
    )
    before = parent.predict_dist(X[TEST]).crps(target[TEST]).mean()
    assert pit.predict_dist(X[TEST]).crps(target[TEST]).mean() < before


@pytest.mark.filterwarnings("ignore:.*is trusted", "ignore:.*trees of their own")
def test_saved_parents_need_no_file(logistic, tmp_path, monkeypatch):
    parent = FittedParent(logistic, trust=True).fit(X[TRAIN], Y[TRAIN])
    calibrated = ScoreMap(FrozenEstimator(parent)).fit(X[CALIBRATION], Y[CALIBRATION])
    expected, file = calibrated.predict_proba(X[TEST]), tmp_path / "repaired.kdg"
    save(calibrated, file)
    (tmp_path / "model.joblib").unlink()
    loaded = load(file)
    np.testing.assert_array_equal(loaded.predict_proba(X[TEST]), expected)
    # Of another user: even a trusted file must not be unpickled before its reader allows it.
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "other.key"))
    with pytest.raises(UntrustedFileError):
        load(file)
    with pytest.raises(UntrustedFileError, match=r"not known to be harmless: pickle\.loads"):
        load(file, trust=True)
    trusted = load(file, trust=["pickle.loads"])
    np.testing.assert_array_equal(trusted.predict_proba(X[TEST]), expected)


@pytest.mark.filterwarnings("ignore:.*is trusted")
def test_clones_read_the_file_again(forest):
    parent = clone(FittedParent(forest, trust=True)).fit(X[:0])
    assert parent.n_features_in_ == 2
    assert parent.describe().keys() == {"format", "sha256"}
    assert hasattr(parent, "predict_proba")
    assert not hasattr(parent, "predict_dist")


@pytest.mark.filterwarnings("ignore:.*is trusted", "ignore:.*trees of their own")
def test_data_frames_with_categories_and_text_reach_the_model(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=rng.choice(["u", "v"], 400))
    encoder = make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough")
    model = make_pipeline(encoder, LogisticRegression()).fit(frame[TRAIN], Y[TRAIN])
    path = model_file(tmp_path, model)
    for rows in (frame, frame.astype({"c": "category"})):
        parent = FittedParent(path, trust=True).fit(rows[TRAIN], Y[TRAIN])
        gate = DensityGate(FrozenEstimator(parent), random_state=0).fit(
            rows[TRAIN],
            Y[TRAIN],
            X_calibration=rows[CALIBRATION],
            y_calibration=Y[CALIBRATION],
        )
        inside = gate.log_density(rows[TEST]) > gate.log_floor_
        np.testing.assert_array_equal(
            gate.predict_proba(rows[TEST][inside]), model.predict_proba(frame[TEST][inside])
        )


def test_refused_text_gaps_name_words_read_as_missing(tmp_path):
    skops_io = pytest.importorskip("skops.io", reason="pip install 'kdgraph[skops]' has it")
    frame = pd.DataFrame({"job": ["NA", "tech"] * 20, "age": np.arange(40.0) % 9})
    pipeline = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough"),
        LogisticRegression(),
    ).fit(frame, np.arange(40) % 2)
    path, table = tmp_path / "model.skops", tmp_path / "rows.csv"
    skops_io.dump(pipeline, path)
    frame.assign(y=np.arange(40) // 2 % 2).to_csv(table, index=False)

    def predict(**options):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*have the features of another row|.*'NA' is read")
            data = TableFile(str(table), target="y", **options).load()
        parent = FittedParent(str(path), data_columns=data.source_columns, data_labels=[0, 1])
        return parent.load().predict_proba(data.X)

    with pytest.raises(
        DataError, match=r"cells of job are missing, and dataset\.not_missing=\[NA\]"
    ):
        predict()
    np.testing.assert_array_equal(predict(not_missing=["NA"]), pipeline.predict_proba(frame))
