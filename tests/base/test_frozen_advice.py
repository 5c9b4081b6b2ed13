"""Unsuitable parents are refused in one line, with advice that works when it is pasted."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    RidgeClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.calibration import GroupWise, ScoreMap
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.detection import KthNeighbourDistance, LeafBox, MaxProbability
from kdgraph.parents import GaussianLinear, ProbabilisticRegressor
from kdgraph.parents.networks import TorchClassifier
from kdgraph.recalibration import ConformalPit, GlobalPit, LocalPit

rng = np.random.default_rng(3)
X = rng.normal(size=(90, 2))
Y = (X[:, 0] + 0.5 * rng.normal(size=90) > 0).astype(int)
MODULE = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
POST_HOC_CLASSES = [
    KernelDensityForest,
    KernelDensityNetwork,
    DensityGate,
    ScoreMap,
    HistogramBinning,
    MaxProbability,
    KthNeighbourDistance,
    LeafBox,
    GlobalPit,
]
CLASSIFIER_POST_HOC_CLASSES = POST_HOC_CLASSES[:6]
NAMES = {
    kind.__name__: kind
    for kind in (
        *(
            CalibratedClassifierCV,
            RandomForestClassifier,
            RidgeClassifier,
            SVC,
            ProbabilisticRegressor,
            GaussianProcessRegressor,
        ),
        *(
            BayesianRidge,
            GaussianLinear,
            AdaBoostClassifier,
            LogisticRegression,
            MLPClassifier,
        ),
        *(DensityGate, LocalPit, ScoreMap),
    )
}


def error_message(model, y=Y, kind=TypeError, **fit_kwargs) -> str:
    with pytest.raises(kind) as caught:
        model.fit(X, y, **fit_kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def evaluate_advice(message: str):
    """Return the value of the last expression in the message."""
    return eval(re.search(r"\w+\([^;]*\)$", message)[0], dict(NAMES))


@pytest.mark.parametrize("kind", POST_HOC_CLASSES)
def test_a_class_instead_of_a_parent_instance_is_refused(kind):
    wrong_argument = GaussianLinear if kind is GlobalPit else RandomForestClassifier
    message = error_message(kind(wrong_argument))
    name = wrong_argument.__name__
    assert (
        message
        == f"{kind.__name__}: estimator must be an instance, got the class {name}; pass {name}()"
    )
    assert isinstance(evaluate_advice(message), wrong_argument)


def test_a_class_instead_of_another_component_is_refused():
    message = "{}: {} must be an instance, got the class {}; pass {}"
    gate = DensityGate(GradientBoostingClassifier(), partition=RandomForestClassifier)
    assert error_message(gate) == message.format(
        "DensityGate", "partition", "RandomForestClassifier", "RandomForestClassifier()"
    )
    pit = error_message(ConformalPit(GaussianLinear(), LocalPit))
    assert pit == message.format("ConformalPit", "recalibrator", "LocalPit", "LocalPit(None)")
    ConformalPit(GaussianLinear(), evaluate_advice(pit).set_params(k=5), random_state=0).fit(
        X, X[:, 0]
    )
    groups = error_message(GroupWise(RandomForestClassifier(), ScoreMap), groups=Y)
    assert groups == message.format("GroupWise", "calibrator", "ScoreMap", "ScoreMap(None)")


@pytest.mark.parametrize("kind", POST_HOC_CLASSES)
def test_a_torch_module_is_refused_with_its_wrapper(kind):
    assert (
        error_message(kind(MODULE))
        == f"{kind.__name__} needs an estimator of scikit-learn, got the torch module Sequential;"
        " wrap it: kdgraph.TorchClassifier(module) or skorch's"
        " NeuralNetClassifier(module)"
    )


def test_the_wrapper_of_a_torch_module_works():
    wrapped = TorchClassifier(MODULE, max_epochs=2, device="cpu", random_state=0)
    proba = KernelDensityNetwork(wrapped, random_state=0).fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.parametrize("kind", POST_HOC_CLASSES)
def test_a_string_is_refused_as_parent(kind):
    message = "{} needs an estimator of scikit-learn, with fit and get_params, got str: forest"
    assert error_message(kind("forest")) == message.format(kind.__name__)


@pytest.mark.parametrize("kind", [KernelDensityForest, KernelDensityNetwork, DensityGate])
@pytest.mark.parametrize("parent", [LogisticRegression, AdaBoostClassifier, MLPClassifier])
@pytest.mark.parametrize(
    "wrap",
    [lambda parent: parent, lambda parent: make_pipeline(StandardScaler(), parent)],
    ids=["alone", "in a pipeline"],
)
def test_classifier_without_a_partition_is_refused_before_fit(kind, parent, wrap, monkeypatch):
    message = (
        f"{parent.__name__} has no partition to read; pass a fitted forest, tree or boosted trees,"
        " or a network of torch; any classifier can be combined with a forest's partition:"
        f" DensityGate({parent.__name__}(), partition=RandomForestClassifier())"
    )
    with monkeypatch.context() as patched:
        patched.setattr(parent, "fit", lambda *_, **__: pytest.fail("fitted"))
        refusal = error_message(kind(wrap(parent())))
    assert refusal == message
    gate = evaluate_advice(refusal).set_params(partition__n_estimators=5, random_state=0)
    if parent is not MLPClassifier:  # which warns that 200 epochs are not enough
        np.testing.assert_allclose(gate.fit(X, Y).predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("kind", CLASSIFIER_POST_HOC_CLASSES)
def test_a_regressor_is_refused_if_a_classifier_is_needed(kind):
    assert (
        error_message(kind(RandomForestRegressor(3)))
        == f"{kind.__name__} needs an estimator with predict_proba, got RandomForestRegressor, a"
        " regressor; pass a classifier, or repair its predictive distributions by"
        " kdgraph.recalibration"
    )


@pytest.mark.parametrize("kind", CLASSIFIER_POST_HOC_CLASSES)
@pytest.mark.parametrize(
    "wrap",
    [lambda parent: parent, lambda parent: FrozenEstimator(parent.fit(X, Y))],
    ids=["unfitted", "frozen"],
)
def test_a_pipeline_without_a_final_predictor_is_refused(kind, wrap):
    assert (
        error_message(kind(wrap(make_pipeline(StandardScaler()))))
        == f"{kind.__name__} needs an estimator with predict_proba, got Pipeline whose last step,"
        " StandardScaler, predicts nothing; let it end in an estimator that does"
    )


@pytest.mark.parametrize("parent", [SVC, RidgeClassifier])
def test_a_classifier_without_probabilities_is_refused(parent):
    message = error_message(ScoreMap(parent()))
    advice = f"CalibratedClassifierCV({parent.__name__}())"
    start = (
        f"ScoreMap needs an estimator with predict_proba, got {parent.__name__}; convert its scores"
        " to probabilities: "
    )
    assert message == start + advice
    ScoreMap(evaluate_advice(message), random_state=0).fit(X, Y).predict_proba(X)


def test_regressors_without_distributions_are_refused():
    start = "LocalPit needs an estimator with predict_dist, got "
    for parent in (GaussianProcessRegressor, BayesianRidge):
        message = error_message(LocalPit(parent()))
        assert (
            message
            == f"{start}{parent.__name__}; wrap it: ProbabilisticRegressor({parent.__name__}())"
        )
        assert isinstance(evaluate_advice(message).regressor, parent)
    assert np.isfinite(
        LocalPit(evaluate_advice(message), random_state=0).fit(X, X[:, 0]).predict(X)
    ).all()
    advice = (
        "; pass one that predicts distributions, such as GaussianLinear(), or another library's in"
        " ProbabilisticRegressor"
    )
    assert error_message(LocalPit(LinearRegression())) == f"{start}LinearRegression{advice}"
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    assert error_message(LocalPit(pipeline)) == f"{start}Pipeline{advice}"
    assert (
        error_message(LocalPit(RandomForestClassifier()))
        == f"{start}RandomForestClassifier, a classifier; calibrate it by kdgraph.calibration, or"
        " pass a regressor that predicts distributions"
    )


@pytest.mark.parametrize("kind", CLASSIFIER_POST_HOC_CLASSES[:1] + CLASSIFIER_POST_HOC_CLASSES[2:])
def test_mixed_and_missing_labels_are_refused(kind):
    model = kind(RandomForestClassifier(3, random_state=0), random_state=0)
    mixed = np.array([1, "a"] * 45, dtype=object)
    message = (
        "labels must be of one type, y has text and numbers; make all of them text, y.astype(str)"
    )
    assert error_message(model, mixed, ValueError) == message
    model.fit(X, mixed.astype(str))
    gaps = np.array(["a", None, "b"] * 30, dtype=object)
    assert (
        error_message(model, gaps, ValueError)
        == "30 of 90 labels in y are missing; leave out the rows without a label"
    )
    assert (
        error_message(model, np.where(Y == 1, np.nan, 0.0), ValueError) == "Input y contains NaN."
    )
    assert error_message(model, X[:, 0], ValueError).startswith("Unknown label type: continuous.")
    wrong_argument = {"X_calibration": X, "y_calibration": gaps}
    assert error_message(
        model, np.array(["a", "b", "b"] * 30), ValueError, **wrong_argument
    ).startswith("30 of 90 labels in y are missing")
