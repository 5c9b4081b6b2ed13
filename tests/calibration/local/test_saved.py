"""Clones, pickles and saved files of local calibrators predict the same bits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from kdgraph.calibration import GroupWise, ScoreMap
from kdgraph.calibration.local import (
    BinMeanShift,
    DensityRatio,
    LocalClassShares,
    LocalRecalibration,
)
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.features import FeatureMap
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.persistence import load, save
from tests.variations import others_slow

FOREST = RandomForestClassifier(10, random_state=0)
NETWORK = MultilayerPerceptron(
    hidden=(6,), max_epochs=3, patience=None, device="cpu", random_state=0
)
MODELS = {
    "LoRe of a forest": LocalRecalibration(FOREST, fill_proba=True),
    "LoRe of a network": LocalRecalibration(NETWORK, features=FeatureMap(dimensions=3), bins="cv"),
    "geodesic, of a forest": LocalRecalibration(FOREST, kernel="geodesic", bins="cv"),
    "geodesic, of a network": LocalRecalibration(NETWORK, kernel="geodesic", bandwidth=0.5),
    "groups": LocalRecalibration(FOREST, kernel="group"),
    "t-SNE": LocalRecalibration(FOREST, features=FeatureMap(reduce="tsne", dimensions=2)),
    "class shares": LocalClassShares(FOREST, bins="cv"),
    "class shares by group": LocalClassShares(FOREST, kernel="group"),
    "density ratio": DensityRatio(FOREST),
    "density ratio, reduced": DensityRatio(NETWORK, features=FeatureMap(dimensions=2)),
    "bin mean shift": BinMeanShift(FOREST),
    "by group, a temperature": GroupWise(FOREST, ScoreMap(None, method="temperature")),
    "by group, LoRe": GroupWise(FOREST, LocalRecalibration(None)),
    "by group, a histogram": GroupWise(FOREST, HistogramBinning(None, by_class=False)),
}


def predictions(model, X) -> np.ndarray:
    kwargs = {"groups": np.arange(len(X)) % 3} if getattr(model, "takes_groups", False) else {}
    return (
        model.predict_confidence if hasattr(model, "predict_confidence") else model.predict_proba
    )(X, **kwargs)


@pytest.mark.parametrize("name", others_slow(MODELS))
def test_copies_predict_the_same_bits(name, tmp_path):
    X, y = make_classification(150, 5, flip_y=0.2, random_state=0)
    model = clone(MODELS[name]).set_params(random_state=0)
    embedding = {"X_test": X} if getattr(model, "paper_protocol", None) == "transductive" else {}
    groups = {"groups": np.arange(150) % 2} if getattr(model, "takes_groups", False) else {}
    expected = predictions(model.fit(X, y, **groups, **embedding), X)
    save(model, tmp_path / "model.kdg")
    assert load(tmp_path / "model.kdg").get_params().keys() == model.get_params().keys()
    for copy in (
        pickle.loads(pickle.dumps(model)),
        load(tmp_path / "model.kdg"),
        clone(model).fit(X, y, **groups, **embedding),
    ):
        np.testing.assert_array_equal(predictions(copy, X), expected)
        if hasattr(model, "describe"):
            assert copy.describe() == model.describe()
