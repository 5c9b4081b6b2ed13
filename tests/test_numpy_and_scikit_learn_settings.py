"""A user's settings of NumPy, pandas and scikit-learn change no fit and no prediction."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.calibration import (
    BestCalibrator,
    DirichletCalibration,
    LinearPool,
    MatrixScaling,
    ScoreMap,
)
from kdgraph.calibration.local import BinMeanShift, LocalRecalibration
from kdgraph.calibration.top_label import KernelDensityConfidence
from kdgraph.detection import (
    Energy,
    ForestScoreEnsemble,
    KthNeighbourDistance,
    LeafOccupancy,
    Mahalanobis,
    Odin,
    ScoreGate,
    VirtualLogit,
)
from kdgraph.parents.networks import MultilayerPerceptron
from tests.variations import others_slow

NETWORK = MultilayerPerceptron(
    hidden=(8,), learning_rate=0.1, max_epochs=3, device="cpu", random_state=0
)
FOREST = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))
ESTIMATORS = {
    "KDF": KernelDensityForest(FOREST, random_state=0),
    "KDN": KernelDensityNetwork(NETWORK, random_state=0),
    "gate": DensityGate(LogisticRegression(), partition=FOREST, random_state=0),
    "temperature": ScoreMap(NETWORK, method="temperature", random_state=0),
    "pool": LinearPool(FOREST, random_state=0),
    "matrix": MatrixScaling(NETWORK, random_state=0),
    "Dirichlet": DirichletCalibration(NETWORK, random_state=0),
    "best": BestCalibrator(FOREST, random_state=0),
    "kernels": KernelDensityConfidence(
        FOREST, bandwidth="b_opt", boundary="reflect", random_state=0
    ),
    "local": LocalRecalibration(FOREST, random_state=0),
    "proximity": BinMeanShift(NETWORK, random_state=0),
    "energy": Energy(NETWORK, random_state=0),
    "ODIN": Odin(NETWORK, random_state=0),
    "virtual logit": VirtualLogit(NETWORK, dimensions=4, random_state=0),
    "Mahalanobis": Mahalanobis(FOREST, random_state=0),
    "neighbours": KthNeighbourDistance(FOREST, random_state=0),
    "occupancy": LeafOccupancy(FOREST, random_state=0),
    "score ensemble": ForestScoreEnsemble(FOREST, random_state=0),
    "score gate": ScoreGate(FOREST, random_state=0),
}
X, Y = make_moons(150, noise=0.2, random_state=0)
ROWS = {"array": X, "frame": pd.DataFrame(X, columns=["width", "height"])}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*learnt nothing"),
    pytest.mark.filterwarnings(
        "ignore:X has feature names"
    ),  # from scikit-learn, for a pipeline fitted under another setting
]


@contextmanager
def strings_of_pandas_3():
    with pd.option_context("future.infer_string", True):
        yield


SETTINGS = {
    "errors of arithmetic": lambda: np.errstate(all="raise"),
    "few digits printed": lambda: np.printoptions(precision=1, suppress=True, threshold=3),
    "frames from transformers": lambda: sklearn.config_context(transform_output="pandas"),
    "no check for NaN": lambda: sklearn.config_context(assume_finite=True),
    "little memory": lambda: sklearn.config_context(working_memory=1),
    "strings of pandas 3": strings_of_pandas_3,
}


def predictions(model, rows) -> np.ndarray:
    names = ("predict_confidence", "predict_proba", "ood_score")
    return next(getattr(model, name)(rows) for name in names if hasattr(model, name))


@pytest.mark.parametrize("row_type", others_slow(ROWS, "frame"))
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", others_slow(ESTIMATORS))
def test_user_settings_change_no_prediction(name, setting, row_type):
    rows = ROWS[row_type]
    model = clone(ESTIMATORS[name]).fit(rows, Y)
    expected = predictions(model, rows)
    with SETTINGS[setting]():
        predicted, refitted = (
            predictions(model, rows),
            predictions(clone(ESTIMATORS[name]).fit(rows, Y), rows),
        )
    np.testing.assert_array_equal(predicted, expected)
    np.testing.assert_array_equal(refitted, expected)
