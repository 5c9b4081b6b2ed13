"""Tables of numbers, categories and missing values, with every calibrator and kind of parent."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.base import validation as base_validation
from kdgraph.calibration import ScoreMap, Uncalibrated
from kdgraph.data.dataset import Dataset
from kdgraph.density.published import Figure1Forest, PaperForest, ReferenceForest
from kdgraph.parents import Preprocess
from kdgraph.parents.networks import MultilayerPerceptron
from tests.variations import others_slow

FORESTS = {
    "kdgraph": KernelDensityForest,
    "paper": PaperForest,
    "reference": ReferenceForest,
    "figure1": Figure1Forest,
}

NAN, CATEGORIES = np.nan, (None, None, ("blue", "green", "red", "violet"))


def draw_table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers and a colour, a tenth of the first number and of the colour missing; no row is
    violet. A third of the rows is class 1.
    """
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    X = np.column_stack(
        [
            rng.normal(size=n) + 1.5 * y,
            rng.normal(size=n),
            np.where(rng.random(n) < 0.6, 2 * y, rng.integers(0, 3, n)),
        ]
    )
    X[rng.random(n) < 0.1, 0] = NAN
    X[rng.random(n) < 0.1, 2] = NAN
    return X, y


def to_frame(X: np.ndarray) -> pd.DataFrame:
    """The same rows as a frame with column names, colour names and a non-consecutive index."""
    colour = pd.Series(
        [None if np.isnan(code) else CATEGORIES[2][int(code)] for code in X[:, 2]], dtype=object
    )
    frame = pd.DataFrame({"size": X[:, 0], "weight": X[:, 1], "colour": colour})
    return frame.set_index(np.arange(len(X))[::-1] + 5)


PARENTS = {
    "forest": RandomForestClassifier(10, random_state=0),
    "extra_trees": ExtraTreesClassifier(10, random_state=0),
    "network": MultilayerPerceptron(
        hidden=(16, 16), learning_rate=0.01, max_epochs=20, device="cpu", random_state=0
    ),
}
(X, Y), (HELD_X, HELD_Y), (TEST_X, TEST_Y) = (
    draw_table(240, 0),
    draw_table(120, 1),
    draw_table(200, 2),
)
HELD = {"X_calibration": HELD_X, "y_calibration": HELD_Y}


@pytest.fixture(scope="module", params=PARENTS)
def parent(request):
    """A fitted pipeline, as runs create it."""
    dataset = Dataset.from_labels("mixed", X, Y, categories=CATEGORIES)
    return Preprocess().wrap(clone(PARENTS[request.param]), dataset).fit(X, Y)


def fit_graph_on(parent):
    return (
        KernelDensityNetwork
        if isinstance(parent[-1], MultilayerPerceptron)
        else KernelDensityForest
    )(FrozenEstimator(parent))


METHODS = {
    "density": fit_graph_on,
    "isotonic": lambda parent: ScoreMap(FrozenEstimator(parent)),
    "temperature": lambda parent: ScoreMap(FrozenEstimator(parent), method="temperature"),
    "gate": lambda parent: DensityGate(FrozenEstimator(parent)),
    "gated_isotonic": lambda parent: DensityGate(ScoreMap(FrozenEstimator(parent))),
}
WITH_FLOOR = {name: METHODS[name] for name in ("density", "gate", "gated_isotonic")}


def check_rows_sum_to_one(proba):
    assert np.isfinite(proba).all() and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("method", others_slow(METHODS))
def test_methods_support_pipelines_of_mixed_tables(parent, method):
    model = METHODS[method](parent).fit(X, Y, **HELD)
    assert model.score(TEST_X, TEST_Y) > 0.75  # 0.67 for a constant prediction of class 0
    unknown = TEST_X.copy()
    unknown[:, 2] = 3
    check_rows_sum_to_one(
        model.predict_proba(np.concatenate([TEST_X, unknown, np.full((1, 3), NAN)]))
    )
    assert np.array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(unknown), model.predict_proba(unknown)
    )


def encode_rows(rows: np.ndarray, *, ordinal: bool) -> np.ndarray:
    """Rows as the parent should receive them, encoded manually."""
    filled = np.where(np.isnan(rows[:, 0]), np.nanmedian(X[:, 0]), rows[:, 0])
    if ordinal:
        return np.column_stack(
            [
                filled,
                rows[:, 1],
                np.where(np.isnan(rows[:, 2]), -2, np.where(rows[:, 2] == 3, -1, rows[:, 2])),
            ]
        )
    return np.column_stack(
        [filled, rows[:, 1], *(rows[:, 2] == code for code in range(3)), np.isnan(rows[:, 2])]
    )


@pytest.mark.parametrize("method", WITH_FLOOR)
def test_predictions_equal_those_on_manually_encoded_rows(parent, method):
    by_hand = {"ordinal": not isinstance(parent[-1], MultilayerPerceptron)}
    rows = np.concatenate([TEST_X, [[0, 0, 3], [NAN, 0, 3]]])
    train, held, test = (encode_rows(part, **by_hand) for part in (X, HELD_X, rows))
    bare = make_pipeline(clone(parent[-1]).fit(train, Y))  # no step before the last
    expected = (
        METHODS[method](bare)
        .fit(train, Y, X_calibration=held, y_calibration=HELD_Y)
        .predict_proba(test)
    )
    method_proba = METHODS[method](parent).fit(X, Y, **HELD).predict_proba(rows)
    assert np.array_equal(method_proba, expected)


@pytest.mark.parametrize("method", WITH_FLOOR)
def test_predictions_tend_to_the_prior_for_any_category(parent, method):
    model, rng = METHODS[method](parent).fit(X, Y, **HELD), np.random.default_rng(3)
    assert model.prior_.tolist() == [2 / 3, 1 / 3]
    for radius in (1e3, 1e6, 1e30):
        angle = rng.uniform(0, 2 * np.pi, 60)
        far_rows = np.column_stack(
            [radius * np.cos(angle), radius * np.sin(angle), rng.choice([0, 1, 2, 3, NAN], 60)]
        )
        far_rows[:20, 0] = NAN  # then only the second number is far from the data
        far_rows[:20, 1] = radius
        proba = model.predict_proba(far_rows)
        check_rows_sum_to_one(proba)
        np.testing.assert_allclose(proba, np.tile(model.prior_, (60, 1)), atol=1e-8)


@pytest.mark.parametrize("variant", ["paper", "reference", "figure1"])
def test_published_variants_support_mixed_tables(variant):
    parent = Preprocess().wrap(
        PARENTS["forest"], Dataset.from_labels("mixed", X, Y, categories=CATEGORIES)
    )
    kdf = FORESTS[variant](parent, random_state=0).fit(X, Y)
    check_rows_sum_to_one(kdf.predict_proba(np.concatenate([TEST_X, [[1e30, NAN, 3]]])))


def test_gate_partition_may_be_a_pipeline():
    linear = make_pipeline(make_transformer(), LogisticRegression())
    gate = DensityGate(
        linear, partition=make_pipeline(make_transformer(), PARENTS["forest"]), random_state=0
    )
    assert gate.fit(to_frame(X), Y).score(to_frame(TEST_X), TEST_Y) > 0.75


def make_transformer(sparse: bool = True) -> ColumnTransformer:
    """Transformer that selects columns by name."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    colours = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [("numbers", numbers, ["size", "weight"]), ("colours", colours, ["colour"])],
        sparse_threshold=float(sparse),
    )


FOREST, NETWORK = (
    make_pipeline(make_transformer(), PARENTS["forest"]),
    make_pipeline(make_transformer(sparse=False), PARENTS["network"]),
)
ON_FRAMES = [
    KernelDensityForest(FOREST, random_state=0),
    PaperForest(FOREST, random_state=0),
    KernelDensityNetwork(NETWORK, random_state=0),
    DensityGate(FOREST, random_state=0),
    DensityGate(ScoreMap(FOREST, random_state=0), random_state=0),
    *(
        ScoreMap(FOREST, method=method, random_state=0)
        for method in ("isotonic", "sigmoid", "temperature")
    ),
    Uncalibrated(FOREST, random_state=0),
]


@pytest.mark.parametrize(
    "model",
    others_slow(ON_FRAMES),
    ids=lambda m: f"{type(m).__name__}-{getattr(m, 'method', '')}",
)
def test_frames_reach_pipelines_that_need_column_names(model, monkeypatch):
    model = clone(model).fit(
        to_frame(X), pd.Series(Y), X_calibration=to_frame(HELD_X), y_calibration=HELD_Y
    )
    frame, proba = to_frame(TEST_X), model.predict_proba(to_frame(TEST_X))
    check_rows_sum_to_one(proba)
    assert model.feature_names_in_.tolist() == ["size", "weight", "colour"]
    monkeypatch.setattr(base_validation, "_PREDICTION_BLOCK", 64)
    assert np.array_equal(model.predict_proba(frame), proba)
    frozen = clone(model).set_params(estimator=FrozenEstimator(model.estimator_))
    frozen.fit(
        to_frame(X), Y, X_calibration=to_frame(HELD_X), y_calibration=HELD_Y
    )  # no warning about names
    assert np.array_equal(frozen.predict_proba(frame), proba)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict_proba(frame[["weight", "size", "colour"]])
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        model.predict_proba(frame[:0])
    assert clone(model).fit(to_frame(X), Y).score(frame, TEST_Y) > (
        0.6 if isinstance(model, PaperForest) else 0.75
    )


@pytest.mark.parametrize("model", [KernelDensityForest, DensityGate, ScoreMap, Uncalibrated])
def test_parent_fitted_on_a_frame_receives_frames(model):
    numbers, held = (to_frame(np.nan_to_num(rows))[["size", "weight"]] for rows in (X, HELD_X))
    forest = FrozenEstimator(clone(PARENTS["forest"]).fit(numbers, Y))
    method_proba = (
        model(forest).fit(numbers, Y, X_calibration=held, y_calibration=HELD_Y).predict_proba(held)
    )
    on_arrays = FrozenEstimator(clone(PARENTS["forest"]).fit(numbers.to_numpy(), Y))
    expected = model(on_arrays).fit(
        numbers.to_numpy(), Y, X_calibration=held.to_numpy(), y_calibration=HELD_Y
    )
    assert np.array_equal(method_proba, expected.predict_proba(held.to_numpy()))


@pytest.mark.filterwarnings(
    "ignore:.*X_calibration="
)  # the parent is fitted on the calibration rows
def test_network_fitted_on_a_frame_receives_frames():
    numbers = to_frame(np.nan_to_num(X))[["size", "weight"]]
    network = FrozenEstimator(clone(PARENTS["network"]).fit(numbers, Y))
    for model in (
        KernelDensityNetwork(network),
        DensityGate(network),
        ScoreMap(network, method="temperature"),
    ):
        check_rows_sum_to_one(model.fit(numbers, Y).predict_proba(numbers))


ONE_LINE = (
    "impute in the parent's pipeline, as in make_pipeline(SimpleImputer(),"
    " RandomForestClassifier())"
)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            KernelDensityForest(PARENTS["forest"]),
            "Input X contains NaN, and KernelDensityForest measures distances",
        ),
        (
            KernelDensityNetwork(PARENTS["network"]),
            "Input X contains NaN, and KernelDensityNetwork measures distances",
        ),
        (
            DensityGate(ScoreMap(PARENTS["forest"])),
            "Input X contains NaN, and DensityGate measures distances",
        ),
        (
            KernelDensityForest(make_pipeline(StandardScaler(), PARENTS["forest"])),
            (
                "Input X contains NaN behind the pipeline's transformations, where distances are"
                " measured"
            ),
        ),
    ],
)
def test_distances_with_missing_values_raise(model, reason):
    """Trees of scikit-learn accept NaN, so that no other check would raise."""
    for rows in (X[:, :2], to_frame(X)[["size", "weight"]]):
        with pytest.raises(ValueError, match="NaN") as caught:
            clone(model).fit(rows, Y)
        assert str(caught.value) == f"{reason}; {ONE_LINE}"


@pytest.mark.parametrize("last", ["forest", "network"])
def test_missing_values_in_predictions_raise(last):
    kind, complete = (
        {"forest": KernelDensityForest, "network": KernelDensityNetwork}[last],
        np.nan_to_num(X),
    )
    bare = kind(PARENTS[last], random_state=0).fit(complete, Y)
    scaled = kind(make_pipeline(StandardScaler(), PARENTS[last]), random_state=0).fit(complete, Y)
    for model in (bare, scaled):
        with pytest.raises(
            ValueError, match=r"^Input X contains NaN.*impute in the parent's pipeline"
        ):
            model.predict_proba(X)


def test_score_calibrators_accept_missing_values():
    native = ScoreMap(PARENTS["forest"], random_state=0).fit(X, Y)
    assert native.score(TEST_X, TEST_Y) > 0.75
    with pytest.raises(ValueError, match=r"^Input X contains NaN"):
        ScoreMap(LogisticRegression(), random_state=0).fit(X, Y)
