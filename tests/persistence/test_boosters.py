"""Boosted trees of each library, repaired, written and read without pickle."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.detection import LeafBox
from kdgraph.parents import BoostedTreesClassifier, BoostedTreesRegressor
from kdgraph.persistence import LoadError, boosters, load, save
from kdgraph.recalibration import IsotonicPit
from tests.parents.test_boosted_regressors import library_regressor
from tests.parents.test_boosting import LIBRARIES, library_model, table
from tests.variations import others_slow


@pytest.mark.parametrize("name", others_slow(LIBRARIES, "lightgbm"))
@pytest.mark.parametrize("wrapped", [True, False], ids=["early stopping", "alone"])
def test_a_repaired_model_is_the_same_to_the_bit(name, wrapped, tmp_path):
    X, y = table(400)
    labels = (y == "yes").astype(int)
    model = library_model(name, 40)
    if wrapped:
        model = BoostedTreesClassifier(model, categorical=[1], patience=5, random_state=0)
    elif name == "catboost":
        model.set_params(verbose=False, allow_writing_files=False)
    for repaired in (
        KernelDensityForest(model, random_state=0),
        DensityGate(model, random_state=0),
    ):
        save(repaired.fit(X, labels), tmp_path / "model.kdg")
        np.testing.assert_array_equal(
            load(tmp_path / "model.kdg").predict_proba(X), repaired.predict_proba(X)
        )
    detector = LeafBox(model, random_state=0).fit(X, labels)
    save(detector, tmp_path / "detector.kdg")
    np.testing.assert_array_equal(
        load(tmp_path / "detector.kdg").ood_score(X), detector.ood_score(X)
    )


def test_three_classes_and_labels_of_text_come_back(tmp_path):
    X, y = make_classification(300, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=0)
    labels = np.array(["a", "b", "c"])[y]
    for name in LIBRARIES:
        model = BoostedTreesClassifier(library_model(name, 10), random_state=0).fit(X, labels)
        save(model, tmp_path / "model.kdg")
        read = load(tmp_path / "model.kdg")
        np.testing.assert_array_equal(read.predict(X), model.predict(X))
        np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_models_are_read_with_their_library_alone(tmp_path):
    X, y = table(300)
    for name in ("xgboost", "lightgbm"):
        path = tmp_path / f"{name}.kdg"
        model = KernelDensityForest(
            BoostedTreesClassifier(library_model(name, 10), random_state=0), random_state=0
        )
        save(model.fit(X, y), path)
        np.save(tmp_path / "X.npy", X)
        np.save(tmp_path / "proba.npy", model.predict_proba(X))
        code = (
            "import sys, numpy as np; from kdgraph.persistence import load;"
            f" model = load({str(path)!r}); X = np.load({str(tmp_path / 'X.npy')!r});"
            f" assert (model.predict_proba(X) == np.load({str(tmp_path / 'proba.npy')!r})).all();"
            " others = {'hydra', 'torch', 'matplotlib', 'openml', 'xgboost', 'lightgbm'};"
            f" assert others & set(sys.modules) == {{{name!r}}}, others & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


def test_a_library_that_is_absent_is_named(tmp_path, monkeypatch):
    X, y = table(200)
    save(BoostedTreesClassifier(library_model("xgboost", 3)).fit(X, y), tmp_path / "model.kdg")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(LoadError, match="xgboost"):
        load(tmp_path / "model.kdg")


TITLES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}


@pytest.mark.parametrize("tag", TITLES)
def test_memory_that_is_no_model_is_refused(tag):
    pytest.importorskip(tag, reason=f"{tag} is not installed; the extra boosting has it")
    memory = np.frombuffer(b"not a model", np.uint8)
    parts = {"lightgbm": (memory, 1), "catboost": ("CatBoostClassifier", {}, memory)}
    with pytest.raises(ValueError, match="in it cannot be read") as caught:
        boosters.codec_by_tag(tag).from_parts(*parts.get(tag, (memory,)))
    message = str(caught.value)
    assert message.startswith(f"the model of {TITLES[tag]} in it cannot be read: ")
    assert message.endswith("; save the fitted model again") and "\n" not in message


def test_other_classes_of_catboost_are_refused():
    pytest.importorskip("catboost", reason="catboost is not installed; the extra boosting has it")
    with pytest.raises(ValueError, match="in it cannot be read") as caught:
        boosters.codec_by_tag("catboost").from_parts("Pool", {}, np.empty(0, np.uint8))
    assert str(caught.value) == (
        "the model of CatBoost in it cannot be read: 'Pool' is none of its classes CatBoost,"
        " CatBoostClassifier, CatBoostRegressor; save the fitted model again"
    )


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_a_repaired_regressor_is_the_same_to_the_bit(name, tmp_path):
    X, _ = table(400)
    y = np.where(np.isnan(X[:, 1]), 0, X[:, 1] % 2) + np.nan_to_num(X[:, 0])
    parent = BoostedTreesRegressor(
        library_regressor(name, 20), levels=(0.1, 0.5, 0.9), categorical=[1], random_state=0
    )
    for model in (parent, IsotonicPit(parent, random_state=0)):
        save(model.fit(X, y), tmp_path / "model.kdg")
        levels = np.array([0.05, 0.5, 0.9])
        np.testing.assert_array_equal(
            load(tmp_path / "model.kdg").predict_dist(X).ppf(levels),
            model.predict_dist(X).ppf(levels),
        )
