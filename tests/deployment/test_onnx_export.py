"""Exported graphs, run by onnxruntime, against the models that they were made of."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph import DensityGate, KernelDensityForest, export_onnx
from kdgraph.base import FittedModel
from kdgraph.calibration import (
    BestCalibrator,
    ConformalClassifier,
    DirichletCalibration,
    LinearPool,
    MatrixScaling,
    ScoreMap,
    Uncalibrated,
)
from kdgraph.calibration.top_label import (
    BestConfidence,
    BetaCalibration,
    ClassPrecision,
    HistogramBinning,
    IsotonicConfidence,
    TemperatureScaling,
    VennAbers,
)
from kdgraph.data.source_columns import source_columns
from kdgraph.deployment import DeployedModel, Schema
from kdgraph.deployment.schema import Feature
from kdgraph.detection import LeafBox
from kdgraph.fitted import FittedParent
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.persistence import SaveError
from tests.variations import others_slow

pytest.importorskip("onnx", reason="onnx is not installed; the extra onnx has it")
onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime is not installed; the extra onnx has it"
)

# Both sides compute in double precision. The steepest map of these rows has a slope of 2,300, so
# that the rounding of a sum of some hundred terms, 1e-14, may grow to 2e-11.
TOLERANCE = 1e-10
EXPORTABLE = (
    "; a density gate, score maps, matrix scaling, Dirichlet calibration, linear pools and"
    " confidence by curves or temperatures can be, and forests, trees, histogram gradient boosting"
    " and logistic regression as parents, also behind StandardScaler and SimpleImputer;"
    " parent=False leaves another parent out"
)


def rows(n_classes: int, n: int = 1200):
    """Return training and calibration rows with labels of text, and rows near and far."""
    X, y = make_classification(
        n, 6, n_informative=6, n_redundant=0, n_classes=n_classes, random_state=0
    )
    y = np.array(["ash", "birch", "cedar"])[y]
    third = n // 3
    query = np.concatenate([X[2 * third :], 20 * X[2 * third :]])
    return X[:third], y[:third], X[third : 2 * third], y[third : 2 * third], query


PARENTS = {
    "forest": RandomForestClassifier(15, random_state=0),
    "extra trees": ExtraTreesClassifier(10, min_samples_leaf=3, random_state=0),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=15, random_state=0),
    "logistic": LogisticRegression(),
}
OWN_FOREST = RandomForestClassifier(5, random_state=0)
COMPONENTS = {
    "none": Uncalibrated,
    "isotonic": ScoreMap,
    "sigmoid": lambda parent: ScoreMap(parent, method="sigmoid"),
    "temperature": lambda parent: ScoreMap(parent, method="temperature"),
    "pool": LinearPool,
    "matrix": MatrixScaling,
    "dirichlet": lambda parent: DirichletCalibration(parent, penalty=1.0),
    "best": lambda parent: BestCalibrator(
        parent, candidates={"isotonic": ScoreMap(None)}, default="isotonic", random_state=0
    ),
    "gate": lambda parent: DensityGate(ScoreMap(parent), partition=OWN_FOREST, random_state=0),
    "whitened gate": lambda parent: DensityGate(
        parent, partition=OWN_FOREST, distance="whitened", random_state=0
    ),
}
CONFIDENCES = {
    "precision": lambda parent: ClassPrecision(parent, pool=3.0),
    "histogram": HistogramBinning,
    "pooled histogram": lambda parent: HistogramBinning(parent, pool=10.0),
    "isotonic": IsotonicConfidence,
    "shared beta": lambda parent: BetaCalibration(parent, by_class=False),
    "pooled beta": lambda parent: BetaCalibration(parent, pool=10.0),
    "temperature": TemperatureScaling,
    "awards": lambda parent: TemperatureScaling(parent, by_class=True, awards=True, pool=30.0),
    "best": lambda parent: BestConfidence(parent, random_state=0),
}


def fit(component, n_classes: int, parent: str = "forest"):
    """Return a component after a fitted parent, and rows to predict."""
    X, y, X_calibration, y_calibration, query = rows(n_classes)
    fitted = FrozenEstimator(PARENTS[parent].fit(X, y))
    model = component(fitted)
    return model.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration), query


def run_graph(model, inputs, path, **options) -> dict[str, np.ndarray]:
    """Return the outputs of the exported graph, by name; inputs by name, or the rows alone."""
    export_onnx(model, path, **options)
    session_options = onnxruntime.SessionOptions()
    # Sums of several threads have no fixed order.
    session_options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.read_bytes(), session_options)
    feeds = inputs if isinstance(inputs, dict) else {"X": np.asarray(inputs, dtype=np.float64)}
    assert {node.name for node in session.get_inputs()} == set(feeds)
    names = [node.name for node in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("parent", PARENTS)
def test_parents_predict_the_same(parent, n_classes, tmp_path):
    X, y, *_, query = rows(n_classes)
    model = PARENTS[parent].fit(X, y)
    outputs = run_graph(model, query, tmp_path / "model.onnx")
    expected = model.predict_proba(query)
    if parent in ("forest", "extra trees", "tree"):  # the same votes, added in the same order
        np.testing.assert_array_equal(outputs["probabilities"], expected)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=TOLERANCE)
    assert outputs["label"].tolist() == model.predict(query).tolist()


@pytest.mark.filterwarnings("ignore:.*calibration rows")
@pytest.mark.parametrize("n_classes", others_slow([2, 3], 3))
@pytest.mark.parametrize("parent", ["forest", "boosting", "logistic"])
@pytest.mark.parametrize("component", COMPONENTS)
def test_probabilities_are_those_of_the_model(component, parent, n_classes, tmp_path):
    model, query = fit(COMPONENTS[component], n_classes, parent)
    outputs = run_graph(model, query, tmp_path / "model.onnx")
    expected = model.predict_proba(query)
    np.testing.assert_allclose(outputs["probabilities"], expected, rtol=0, atol=TOLERANCE)
    assert outputs["label"].tolist() == model.predict(query).tolist()
    if isinstance(model, DensityGate):
        score = model.ood_score(query)
        assert (score > 0).any() and (score < 0).any()
        np.testing.assert_allclose(outputs["ood_score"], score, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*calibration rows", "ignore:the fit of .* reaches a bound")
@pytest.mark.parametrize("n_classes", others_slow([2, 3], 3))
@pytest.mark.parametrize("component", CONFIDENCES)
def test_confidences_are_those_of_the_model(component, n_classes, tmp_path):
    model, query = fit(CONFIDENCES[component], n_classes, "boosting")
    outputs = run_graph(model, query, tmp_path / "model.onnx")
    expected = model.predict_confidence(query)
    assert len(np.unique(expected)) > 1
    np.testing.assert_allclose(outputs["confidence"], expected, rtol=0, atol=TOLERANCE)
    assert outputs["label"].tolist() == model.predict(query).tolist()


@pytest.mark.parametrize("parent", ["forest", "boosting"])
def test_values_at_thresholds_and_missing_ones_take_their_way(parent, tmp_path):
    X, y, *_ = rows(3)
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = PARENTS[parent].fit(X, y)
    trees = (
        [(tree.tree_.feature, tree.tree_.threshold) for tree in model.estimators_]
        if parent == "forest"
        else [
            (tree.nodes["feature_idx"], tree.nodes["num_threshold"])
            for trees in model._predictors
            for tree in trees
        ]
    )
    query = []
    for features, thresholds in trees:
        for feature, threshold in list(zip(features, thresholds, strict=True))[:20]:
            if feature >= 0 and np.isfinite(threshold):
                for value in (threshold, *np.nextafter(threshold, [-np.inf, np.inf])):
                    query.append(np.where(np.arange(6) == feature, value, X[len(query) % len(X)]))
    query = np.concatenate([np.array(query), X, np.full((1, 6), np.nan)])
    outputs = run_graph(model, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(
        outputs["probabilities"], model.predict_proba(query), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_any_parent_can_be_left_out(n_classes, tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="the extra boosting is not installed")
    X, y, X_calibration, y_calibration, query = rows(n_classes)
    X = X.copy()
    X[::7, 0] = np.nan
    parent = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1).fit(X, y)
    gate = DensityGate(ScoreMap(FrozenEstimator(parent)), random_state=0)
    gate.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    query[::5, 0] = np.nan
    response = gate.estimator_.response_
    method = "decision_function" if response == "decision_function" else "predict_proba"
    feeds = {"X": query, method: getattr(parent, method)(query)}
    outputs = run_graph(gate, feeds, tmp_path / "model.onnx", parent=False)
    np.testing.assert_allclose(
        outputs["probabilities"], gate.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    calibrator = gate.estimator_
    del feeds["X"]
    outputs = run_graph(calibrator, feeds, tmp_path / "model.onnx", parent=False)
    np.testing.assert_allclose(
        outputs["probabilities"], calibrator.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    with pytest.raises(SaveError) as caught:
        export_onnx(gate, tmp_path / "model.onnx")
    assert str(caught.value) == (
        "LGBMClassifier cannot be exported to ONNX, because no operators are known for it"
        + EXPORTABLE
    )


def test_transformers_of_pipelines_come_before_parent_and_distances(tmp_path):
    X, y, X_calibration, y_calibration, query = rows(3)
    X, query = X.copy(), query.copy()
    X[::7, 0] = query[::5, 1] = np.nan
    parent = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(X, y)
    partition = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), OWN_FOREST)
    gate = DensityGate(ScoreMap(FrozenEstimator(parent)), partition=partition, random_state=0)
    gate.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    outputs = run_graph(gate, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(
        outputs["probabilities"], gate.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    np.testing.assert_allclose(outputs["ood_score"], gate.ood_score(query), rtol=1e-10, atol=1e-10)


def test_a_forest_beside_a_pipeline_is_behind_its_transformers(tmp_path):
    X, y, *_, query = rows(3)
    X, query = X.copy(), query.copy()
    X[::7, 0] = query[::5, 1] = np.nan
    parent = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    gate = DensityGate(parent, partition=OWN_FOREST, random_state=0).fit(X, y)
    outputs = run_graph(gate, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(
        outputs["probabilities"], gate.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    np.testing.assert_allclose(outputs["ood_score"], gate.ood_score(query), rtol=1e-10, atol=1e-10)
    # Rows without a gap in the fit, which the forest gets as they are.
    gate = DensityGate(parent, partition=OWN_FOREST, random_state=0).fit(np.nan_to_num(X), y)
    outputs = run_graph(gate, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(outputs["ood_score"], gate.ood_score(query), rtol=1e-10, atol=1e-10)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(text=y)
    boosting = HistGradientBoostingClassifier(max_iter=3)
    gate = DensityGate(boosting, partition=OWN_FOREST, random_state=0)
    gate.fit(frame.astype({"text": "category"}), y)
    with pytest.raises(SaveError) as caught:
        export_onnx(gate, tmp_path / "text.onnx", parent=False)
    assert str(caught.value) == (
        "RowEncoder cannot be exported to ONNX, because it encodes text and categories" + EXPORTABLE
    )


@pytest.mark.filterwarnings("ignore:.*calibration rows", "ignore:.*takes the .* rows of fit")
def test_a_model_from_a_file_is_repaired_in_a_graph(tmp_path):
    """The model has its own order of columns, and categories."""
    lightgbm = pytest.importorskip("lightgbm", reason="the extra boosting is not installed")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "job": pd.Categorical(rng.choice(["chef", "clerk", "nurse"], 900)),
            "age": rng.normal(40, 12, 900),
        }
    )
    y = ((frame["age"] > 40) ^ (frame["job"] == "chef") ^ (rng.random(900) < 0.1)).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
    model.fit(frame[["age", "job"]][:300], y[:300]).booster_.save_model(tmp_path / "model.txt")
    parent = FittedParent(
        str(tmp_path / "model.txt"),
        data_columns=source_columns(("job", "age"), (("chef", "clerk", "nurse"), None)),
        data_labels=[0, 1],
    )
    X = np.column_stack([frame["job"].cat.codes.astype(float), frame["age"]])
    X[::9, 0] = np.nan
    parent.fit(X[300:600], y[300:600])
    gate = DensityGate(ScoreMap(FrozenEstimator(parent)), random_state=0)
    gate.fit(X[300:600], y[300:600], X_calibration=X[600:], y_calibration=y[600:])
    query = np.concatenate([X, X * [1, 9]])
    feeds = {"X": query, "predict_proba": parent.predict_proba(query)}
    outputs = run_graph(gate, feeds, tmp_path / "model.onnx", parent=False)
    np.testing.assert_allclose(
        outputs["probabilities"], gate.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    score = gate.ood_score(query)
    assert (score > 0).any()
    np.testing.assert_allclose(outputs["ood_score"], score, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "labels", [np.array([False, True]), np.array([3, 7]), np.array([0.0, 2.0]), ["no", "yes"]]
)
def test_labels_of_any_type_are_kept(labels, tmp_path):
    X, y, *_, query = rows(2)
    y = np.asarray(labels)[(y == "birch").astype(int)]
    model = PARENTS["tree"].fit(X, y)
    outputs = run_graph(model, query, tmp_path / "model.onnx")
    assert outputs["label"].tolist() == model.predict(query).tolist()


def test_a_fitted_model_and_a_deployed_one_are_exported(tmp_path):
    X, y, X_calibration, y_calibration, query = rows(2)
    code = (y == "birch").astype(int)
    parent = RandomForestClassifier(5, random_state=0).fit((X - 1.0) / 2.0, code)
    gate = DensityGate(FrozenEstimator(parent), random_state=0).fit(
        (X - 1.0) / 2.0,
        code,
        X_calibration=(X_calibration - 1.0) / 2.0,
        y_calibration=(y_calibration == "birch").astype(int),
    )
    fitted = FittedModel(parent, {"gate": gate})
    outputs = run_graph(fitted, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(
        outputs["probabilities"], fitted.predict_proba(query), rtol=0, atol=TOLERANCE
    )
    features = [Feature(name) for name in "abcdef"]
    schema = Schema("trees", "kind", features, [6], classes=["ash", "birch"])
    schema = Schema(**vars(schema) | {"scaling": {"shift": [1.0] * 6, "size": [2.0] * 6}})
    deployed = DeployedModel(fitted, schema)
    frame = pd.DataFrame(query, columns=list("abcdef"))
    outputs = run_graph(deployed, query, tmp_path / "model.onnx")
    np.testing.assert_allclose(
        outputs["probabilities"], deployed.predict_proba(frame), rtol=0, atol=TOLERANCE
    )
    assert outputs["label"].tolist() == deployed.predict(frame).tolist()


REFUSED = {
    "KernelDensityForest cannot be exported to ONNX, because it compares a row with all training"
    " rows by their leaves or units": KernelDensityForest,
    "VennAbers cannot be exported to ONNX, because its curve has no operators": VennAbers,
    "DensityGate cannot be exported to ONNX, because distance='geodesic' compares the leaves of all"
    " training rows": lambda parent: DensityGate(parent, distance="geodesic"),
    "PCA cannot be exported to ONNX, because no operators are known for it": lambda parent: (
        DensityGate(parent, partition=make_pipeline(PCA(2), OWN_FOREST))
    ),
    "DensityGate cannot be exported to ONNX, because its distances are measured in a layer of a"
    " network": lambda parent: DensityGate(
        parent, partition=MultilayerPerceptron(hidden=(5,), max_epochs=2, random_state=0)
    ),
    "SimpleImputer cannot be exported to ONNX, because it does more than replace NaN by"
    " numbers": lambda parent: DensityGate(
        parent, partition=make_pipeline(SimpleImputer(missing_values=0.0), OWN_FOREST)
    ),
    "LeafBox cannot be exported to ONNX, because it predicts no classes": LeafBox,
    "ConformalClassifier cannot be exported to ONNX, because its sets depend on a hash of the row"
    " (export its estimator_)": ConformalClassifier,
}


@pytest.mark.filterwarnings("ignore:.*calibration rows")
@pytest.mark.parametrize("sentence", REFUSED)
def test_components_without_operators_are_refused(sentence, tmp_path):
    model, _ = fit(REFUSED[sentence], 2)
    with pytest.raises(SaveError) as caught:
        export_onnx(model, tmp_path / "model.onnx")
    assert str(caught.value) == sentence + EXPORTABLE
    assert not (tmp_path / "model.onnx").exists()


class OtherForest(RandomForestClassifier):
    """Forest that might predict in another way."""


@pytest.mark.parametrize("parent", [OtherForest(5), GaussianNB()])
def test_parents_of_other_classes_are_refused(parent, tmp_path):
    X, y, *_ = rows(2)
    with pytest.raises(SaveError, match=f"{type(parent).__name__} cannot be exported to ONNX"):
        export_onnx(parent.fit(X, y), tmp_path / "model.onnx")


def test_absent_onnx_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SaveError) as caught:
        export_onnx(PARENTS["tree"], tmp_path / "model.onnx")
    assert str(caught.value) == "writing an ONNX file needs onnx: pip install 'kdgraph[onnx]'"
