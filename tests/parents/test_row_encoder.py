"""Rows of any parent as finite numbers, against encodings by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from kdgraph.calibration import ScoreMap
from kdgraph.parents.row_encoder import RowEncoder, behind_row_encoder, needs_row_encoder

NAN, NA = np.nan, pd.NA
FOREST = RandomForestClassifier(3, random_state=0)
Y = np.arange(40) % 2
FRAME = pd.DataFrame({"size": np.arange(40.0), "city": np.array(["rome", "oslo"])[Y]})


def one_hot_pipeline():
    """Pipeline of two sparse columns for the cities, and the size unscaled."""
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), remainder="passthrough")
    return make_pipeline(encoder, LogisticRegression())


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        (["b", "a", None, "b"], [1, 0, -2, 1]),
        (pd.Categorical(["b", "a", None, "b"], ["b", "c", "a"]), [0, 1, -2, 0]),
        (pd.array(["b", "a", NA, "b"], dtype="string"), [1, 0, -2, 1]),
        (pd.Categorical([7, 3, None, 7]), [1, 0, -2, 1]),
        ([True, "a", None, True], [0, 1, -2, 0]),
    ],
    ids=["text", "ordered", "string", "numbers", "mixed"],
)
def test_categories_get_codes_in_their_order_and_gaps_their_own(column, codes):
    frame = pd.DataFrame({"of": pd.Series(column)})
    encoder = RowEncoder().fit(frame)
    assert encoder.transform(frame)[:, 0].tolist() == codes
    unknown = pd.DataFrame({"of": ["unknown", None]})
    assert encoder.transform(unknown)[:, 0].tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("column", "numbers"),
    [
        ([1.0, NAN, 4.0, 9.0], [1, 4, 4, 9]),
        (pd.array([1, NA, 4, 9], dtype="Int64"), [1, 4, 4, 9]),
        (pd.array([True, NA, True, False], dtype="boolean"), [1, 1, 1, 0]),
        (np.array([True, False, True, False]), [1, 0, 1, 0]),
        (np.array([1, None, 4, 9], dtype=object), [1, 4, 4, 9]),
        ([NAN, NAN, NAN, NAN], [0, 0, 0, 0]),
    ],
    ids=["float", "Int64", "boolean", "bool", "object", "empty"],
)
def test_missing_numbers_become_medians(column, numbers):
    frame = pd.DataFrame({"of": pd.Series(column)})
    assert RowEncoder().fit(frame).transform(frame)[:, 0].tolist() == numbers


def test_categories_are_matched_by_value_and_not_by_type():
    encoder = RowEncoder().fit(pd.DataFrame({"code": pd.Categorical([3, 7, 7])}))
    for values in (pd.Categorical([7.0, 3.0]), [7.0, 3.0], np.array([7, 3], dtype=object)):
        assert encoder.transform(pd.DataFrame({"code": values}))[:, 0].tolist() == [1, 0]
    assert encoder.transform(np.array([[7.0], [np.nan]])).tolist() == [[1.0], [-1.0]]


def test_arrays_of_numbers_and_sparse_rows_keep_their_values():
    X = np.array([[1.0, 0.0], [0.0, 5.0]])
    assert np.array_equal(RowEncoder().fit(X).transform(X), X)
    to_sparse = FrozenEstimator(FunctionTransformer(csr_array, check_inverse=False).fit(X))
    assert np.array_equal(RowEncoder([to_sparse]).fit(X).transform(X), X)


def test_dates_are_refused_in_one_line():
    frame = pd.DataFrame({"when": pd.date_range("2021-03-01", periods=3), "city": list("abc")})
    with pytest.raises(ValueError, match=r"^column 'when' holds dates or durations, and RowEn"):
        RowEncoder().fit(frame)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda parent: parent,
        lambda parent: FrozenEstimator(parent.fit(FRAME, Y)),
        lambda parent: GridSearchCV(parent, {}, cv=2),
        lambda parent: CalibratedClassifierCV(parent, cv=2),
        lambda parent: ScoreMap(parent, random_state=0),
        lambda parent: make_pipeline(FunctionTransformer(), parent),
    ],
    ids=["pipeline", "frozen", "tuned", "calibrated", "score map", "nested"],
)
def test_text_passes_the_transformers_of_the_pipeline(wrap):
    parent = wrap(one_hot_pipeline()).fit(FRAME, Y)
    assert needs_row_encoder(FOREST, parent)
    rows = behind_row_encoder(FOREST, parent, FRAME).fit(FRAME, Y)[0].transform(FRAME)
    is_rome = FRAME["city"] == "rome"
    assert np.array_equal(rows, np.column_stack([~is_rome, is_rome, FRAME["size"]]))


def test_text_of_other_parents_is_encoded_by_rank():
    parent = VotingClassifier([("only", one_hot_pipeline())]).fit(FRAME, Y)
    rows = behind_row_encoder(FOREST, parent, FRAME).fit(FRAME, Y)[0].transform(FRAME)
    assert np.array_equal(rows, np.column_stack([FRAME["size"], FRAME["city"] == "rome"]))


def test_columns_that_a_selection_removes_reach_the_forest():
    frame = pd.DataFrame({"a": np.arange(40.0), "b": Y, "gap": [NAN, *np.arange(39.0)]})
    selection = RFE(HistGradientBoostingClassifier(max_iter=2), importance_getter=lambda m: [3, 2])
    rows = behind_row_encoder(FOREST, selection, frame).fit(frame, Y)[0].transform(frame)
    assert rows.shape == (40, 3) and np.isfinite(rows).all()


def test_finite_numbers_are_not_transformed():
    X = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 4.0]])
    parent = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(
        X, [0, 1, 0]
    )
    encoder = behind_row_encoder(FOREST, parent, X).fit(X, [0, 1, 0])[0]
    assert np.array_equal(encoder.transform(X), X)
    assert encoder.transform([[NAN, 9.0]]).tolist() == [[3.0, 9.0]]


def test_only_forests_that_take_fewer_rows_need_an_encoder():
    pipeline = one_hot_pipeline()
    assert needs_row_encoder(ExtraTreesClassifier(), HistGradientBoostingClassifier())
    for forest in (
        None,
        FrozenEstimator(FOREST),
        make_pipeline(StandardScaler(), FOREST),
        HistGradientBoostingClassifier(),
    ):
        assert not needs_row_encoder(forest, pipeline)
    assert not needs_row_encoder(FOREST, LogisticRegression())
