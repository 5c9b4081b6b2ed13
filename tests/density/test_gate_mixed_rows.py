"""Gates with a forest of their own, beside parents of text, truth values and missing values."""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from kdgraph import DensityGate, load, save
from kdgraph.calibration import ScoreMap
from kdgraph.detection import GraphDensity, LeafBox, ScoreGate
from kdgraph.geometry import PipelinePartition
from tests.variations import others_slow

NUMBERS = ["size", "weight"]
FOREST = RandomForestClassifier(15, random_state=0)


def draw_rows(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return rows with gaps, text, categories and truth values, and classes of unequal size."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    y = (size + 0.7 * rng.normal(size=n) > 0.3).astype(int)
    city = np.where(rng.random(n) < 0.3 + 0.4 * y, "rome", "oslo").astype(object)
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": y + rng.normal(size=n),
            "city": city,
            "is_new": rng.random(n) < 0.5,
            "grade": pd.Categorical(rng.choice(["a", "b", "c"], n)),
        }
    )
    for column in ("size", "city", "grade"):
        frame.loc[rng.random(n) < 0.05, column] = None
    return frame, y


X, Y = draw_rows(400, 0)
HELD_X, HELD_Y = draw_rows(200, 1)
NEW_X, _ = draw_rows(200, 2)
# Cities that no training row has.
NEW_X.loc[:9, "city"] = "lima"
FAR_X = NEW_X.assign(size=1e6, weight=-1e6)


def transformer():
    """Return the transformer of the columns in front of the parents, with dense outputs."""
    return make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (OneHotEncoder(handle_unknown="ignore"), ["city", "grade"]),
        ("passthrough", ["is_new"]),
        sparse_threshold=0,
    )


def with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with text as categories, as boosted trees take it."""
    return frame.astype({"city": "category"})


PIPELINE = make_pipeline(transformer(), LogisticRegression())
BOOSTING = HistGradientBoostingClassifier(max_iter=10, random_state=0)
PARENTS = {
    "pipeline": PIPELINE,
    "calibrator": ScoreMap(PIPELINE, method="sigmoid", random_state=0),
    "calibrated": CalibratedClassifierCV(PIPELINE, cv=2),
    "boosting": BOOSTING,
}
if importlib.util.find_spec("lightgbm") is not None:
    from lightgbm import LGBMClassifier

    PARENTS["lightgbm"] = LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1)
GATES = {
    "density": lambda parent, **how: DensityGate(parent, partition=FOREST, random_state=0, **how),
    "score": lambda parent, **how: ScoreGate(
        parent, detector=GraphDensity(FOREST), cv=2, random_state=0, **how
    ),
}


def columns_for(name: str):
    """Return the function of frames into what the parent of this name takes."""
    return with_categories if name in ("boosting", "lightgbm") else lambda frame: frame


def check_gate(gate, columns) -> None:
    """Check that most rows keep their probabilities, and that far ones get the prior."""
    near, parent = gate.predict_proba(columns(NEW_X)), gate.estimator_.predict_proba(columns(NEW_X))
    # Above the fractions that the gates may change, .002 and .01, are the rows of unknown cities
    # (.05) and a part of those with missing values.
    assert (np.abs(near - parent).max(axis=1) > 1e-6).mean() < 0.12
    assert np.abs(near - parent).mean() < 0.02
    far = gate.predict_proba(columns(FAR_X))
    np.testing.assert_allclose(far, np.tile(gate.prior_, (len(far), 1)), atol=1e-6)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("way", others_slow(["held_out", "cross_fit"]))
@pytest.mark.parametrize("parent", PARENTS)
def test_gates_keep_near_rows_and_give_the_prior_to_far_ones(parent, way, gate):
    columns = columns_for(parent)
    check_gate(GATES[gate](PARENTS[parent], calibration=way).fit(columns(X), Y), columns)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("parent", ["pipeline", "boosting"])
def test_gates_behind_frozen_parents_take_their_rows(parent, gate):
    columns = columns_for(parent)
    frozen = FrozenEstimator(clone(PARENTS[parent]).fit(columns(X), Y))
    held_out = {"X_calibration": columns(HELD_X), "y_calibration": HELD_Y}
    check_gate(GATES[gate](frozen).fit(columns(X), Y, **held_out), columns)


@pytest.mark.parametrize("way", ["held_out", "oob"])
def test_forest_in_a_pipeline_equals_one_after_copied_steps(way):
    behind = make_pipeline(transformer(), FOREST)
    for gate, expected in (
        (
            DensityGate(PIPELINE, partition=FOREST, calibration=way, random_state=0),
            DensityGate(PIPELINE, partition=behind, calibration=way, random_state=0),
        ),
        (
            ScoreGate(PIPELINE, detector=LeafBox(FOREST), calibration=way, random_state=0),
            ScoreGate(PIPELINE, detector=LeafBox(behind), calibration=way, random_state=0),
        ),
    ):
        gate.fit(X, Y)
        expected.fit(X, Y)
        for rows in (NEW_X, FAR_X):
            np.testing.assert_allclose(
                gate.predict_proba(rows), expected.predict_proba(rows), rtol=1e-10
            )


def test_forest_with_boosted_trees_equals_one_after_an_encoder():
    codes = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    )
    encoder = make_column_transformer(
        (SimpleImputer(strategy="median"), [*NUMBERS, "is_new"]), (codes, ["city", "grade"])
    )
    gate = DensityGate(BOOSTING, partition=FOREST, random_state=0).fit(with_categories(X), Y)
    expected = DensityGate(BOOSTING, partition=make_pipeline(encoder, FOREST), random_state=0).fit(
        with_categories(X), Y
    )
    new = with_categories(NEW_X)
    np.testing.assert_allclose(gate.log_density(new), expected.log_density(new), rtol=1e-10)


def test_numbers_missing_only_in_new_rows_become_medians():
    numbers = X[NUMBERS].fillna(0.0)
    parent = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    gate = DensityGate(parent, partition=FOREST, random_state=0).fit(numbers, Y)
    # The rows are those of a parent that takes no missing values.
    plain = DensityGate(LogisticRegression(), partition=FOREST, random_state=0).fit(numbers, Y)
    assert np.array_equal(gate.log_density(numbers), plain.log_density(numbers))
    partition = gate.graph_.partition
    assert isinstance(partition, PipelinePartition)
    (median, _) = partition.transformers[0].transform([[np.nan, 0.0]])[0]
    assert abs(median - numbers["size"].median()) < 0.2  # of the training rows of the gate
    gaps = numbers.assign(size=np.nan)
    np.testing.assert_array_equal(
        gate.log_density(gaps), gate.log_density(gaps.assign(size=median))
    )


@pytest.mark.parametrize("parent", ["pipeline", "boosting"])
@pytest.mark.parametrize("gate", GATES)
def test_a_loaded_gate_predicts_the_same_bits(gate, parent, tmp_path):
    columns = columns_for(parent)
    model = GATES[gate](PARENTS[parent]).fit(columns(X), Y)
    save(model, tmp_path / "gate.kdg")
    loaded = load(tmp_path / "gate.kdg")
    new = columns(NEW_X)
    assert np.array_equal(loaded.predict_proba(new), model.predict_proba(new))
