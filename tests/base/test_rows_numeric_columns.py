"""Columns that are not numeric are refused in one line, with advice that works when pasted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.calibration import ScoreMap
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.detection import KthNeighbourDistance, LeafBox
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import GlobalPit, LocalPit
from tests.variations import others_slow

N = 120
rng = np.random.default_rng(5)
NUMBERS = pd.DataFrame(rng.normal(size=(N, 2)), columns=["age", "dose"])
Y = (NUMBERS["age"] + rng.normal(size=N) > 0).to_numpy().astype(int)
WORDS = np.where(Y + rng.integers(2, size=N) > 1, "rural", "urban")
FOREST = ExtraTreesClassifier(5, random_state=0)
NAMES = {
    "OneHotEncoder": OneHotEncoder,
    "OrdinalEncoder": OrdinalEncoder,
    "make_column_transformer": make_column_transformer,
    "make_pipeline": make_pipeline,
    "ExtraTreesClassifier": ExtraTreesClassifier,
    "GaussianLinear": GaussianLinear,
    "HistGradientBoostingClassifier": HistGradientBoostingClassifier,
    "KthNeighbourDistance": KthNeighbourDistance,
}
"""Names that the pasted advice needs."""
MODELS = [
    KernelDensityForest(FOREST, random_state=0),
    DensityGate(FOREST, random_state=0),
    ScoreMap(FOREST, random_state=0),
    HistogramBinning(FOREST, random_state=0),
    LeafBox(FOREST, random_state=0),
    KthNeighbourDistance(random_state=0),
    GlobalPit(GaussianLinear(), random_state=0),
    LocalPit(GaussianLinear(), random_state=0),
]
TEXT = {
    "category": pd.Categorical(WORDS),
    "category with gaps": pd.Categorical(np.where(np.arange(N) == 4, None, WORDS)),
    "string": pd.array(WORDS, dtype="string"),
    "string of arrow": pd.array(WORDS, dtype="string[pyarrow]"),
    "object": WORDS.astype(object),
    "object with gaps": np.where(np.arange(N) == 4, np.nan, WORDS.astype(object)),
}
TIMES = {
    "dates": pd.date_range("2021-03-01", periods=N),
    "dates of a zone": pd.date_range("2021-03-01", periods=N, tz="Europe/Berlin"),
    "periods": pd.period_range("2021-03", periods=N, freq="M"),
    "durations": pd.to_timedelta(np.arange(N), unit="h"),
}
NUMERIC = {
    "bool": Y == 1,
    "boolean": pd.array(Y == 1, dtype="boolean"),
    "Int64": pd.array(Y, dtype="Int64"),
    "sparse": pd.arrays.SparseArray(Y.astype(float)),
    "categories that are numbers": pd.Categorical(Y),
    "objects that are numbers": Y.astype(object),
    "text that is numbers": Y.astype(str).astype(object),
}


def error_message(model, X) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        model.fit(X, Y)
    return str(caught.value)


def parent_name(model) -> str:
    return type(model if model.estimator is None else model.estimator).__name__


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", others_slow(TEXT))
def test_text_is_refused_with_a_working_encoder(model, kind):
    X = NUMBERS.assign(place=TEXT[kind])
    message, parent = error_message(model, X), parent_name(model)
    columns = (
        "(OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1,"
        " encoded_missing_value=-2), ['place'])"
        if parent == "ExtraTreesClassifier"
        else "(OneHotEncoder(handle_unknown='ignore'), ['place'])"
    )
    encoder = f"make_column_transformer({columns}, remainder='passthrough')"
    advice = f"make_pipeline({encoder}, {parent}())"
    assert (
        message
        == f"could not convert string to float: {str(WORDS[0])!r} in column 'place'; {parent} takes"
        f" numbers, put an encoder into the pipeline, as in {advice}"
    )
    encoded = eval(advice, dict(NAMES))  # as a user would paste it
    pasted = encoded if model.estimator is None else type(model)(encoded, random_state=0)
    pasted.fit(X, Y).predict(X)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", TIMES)
def test_dates_are_refused_with_a_working_conversion(model, kind):
    X = NUMBERS.assign(seen=TIMES[kind])
    message, parent = error_message(model, X), parent_name(model)
    advice = "X.assign(seen=X['seen'].astype('int64'))"
    assert (
        message
        == f"column 'seen' holds dates or durations, and {parent} takes numbers; make it a number,"
        f" as in {advice}"
    )
    model.fit(eval(advice, {"X": X}), Y)


@pytest.mark.parametrize("kind", NUMERIC)
@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns found")  # scikit-learn's
def test_columns_of_numbers_are_accepted(kind):
    X = NUMBERS.assign(more=NUMERIC[kind])
    as_floats = NUMBERS.assign(more=Y.astype(float))
    proba = KernelDensityForest(FOREST, random_state=0).fit(X, Y).predict_proba(X)
    assert np.array_equal(
        proba,
        KernelDensityForest(FOREST, random_state=0).fit(as_floats, Y).predict_proba(as_floats),
    )


def test_a_missing_integer_is_a_missing_value():
    X = NUMBERS.assign(more=pd.array([None, *Y[1:]], dtype="Int64"))
    assert np.isfinite(ScoreMap(FOREST, random_state=0).fit(X, Y).predict_proba(X)).all()
    assert error_message(KernelDensityForest(FOREST), X).startswith(
        "Input X contains NaN, and KernelDensityForest measures distances"
    )


def test_text_in_an_array_is_refused_by_position():
    X = NUMBERS.assign(place=WORDS).to_numpy(dtype=object)
    start = (
        f"could not convert string to float: {str(WORDS[0])!r} in column 2; ExtraTreesClassifier"
        " takes numbers"
    )
    for calibration_rows in (X, X.astype(str)):
        assert error_message(KernelDensityForest(FOREST), calibration_rows).startswith(start)
    model = KernelDensityForest(FOREST, random_state=0).fit(NUMBERS.assign(place=Y).to_numpy(), Y)
    with pytest.raises(
        ValueError, match=r"^could not convert string to float: '(rural|urban)' in column 2;"
    ):
        model.predict(X)


def test_categories_are_passed_to_a_parent_that_takes_them():
    X = NUMBERS.assign(place=pd.Categorical(WORDS))
    boosting = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    rows = slice(0, 80)
    calibration_rows = {"X_calibration": X[80:], "y_calibration": Y[80:]}
    calibrated = ScoreMap(boosting, method="sigmoid").fit(X[rows], Y[rows], **calibration_rows)
    boosting_fit = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X[rows], Y[rows])
    assert np.array_equal(calibrated.estimator_.predict_proba(X), boosting_fit.predict_proba(X))
    frozen = ScoreMap(FrozenEstimator(boosting_fit), method="sigmoid").fit(
        X[rows], Y[rows], **calibration_rows
    )
    assert np.array_equal(frozen.predict_proba(X), calibrated.predict_proba(X))
    encoder = make_column_transformer((OneHotEncoder(), ["place"]), remainder="passthrough")
    gate = DensityGate(boosting, partition=make_pipeline(encoder, FOREST), random_state=0).fit(X, Y)
    np.testing.assert_allclose(gate.predict_proba(X).sum(axis=1), 1)
