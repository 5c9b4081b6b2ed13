"""Encoder of columns against hand-computed numbers, and its use in front of parents."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from kdgraph.data.dataset import Dataset
from kdgraph.errors import ParameterError
from kdgraph.parents import NoPreprocessing, Preprocess, column_encoder

NAN = np.nan
TRAIN = np.array([[1.0, 0.0, 7.0], [NAN, 2.0, 7.0], [5.0, NAN, 7.0], [9.0, 2.0, 7.0]])
"""A number, a category of which code 1 does not occur, and a constant."""
CATEGORICAL = [False, True, False]


def make_mixed_dataset(X: np.ndarray = TRAIN, categorical: bool = True) -> Dataset:
    return Dataset.from_labels(
        "table",
        X,
        np.arange(len(X)) % 2,
        categories=(None, ("a", "b", "c"), None) if categorical else (),
    )


def test_one_hot_columns():
    encoder = column_encoder(CATEGORICAL).fit(TRAIN)
    assert encoder.get_feature_names_out(["age", "colour", "site"]).tolist() == [
        "age",
        "site",
        "colour_0.0",
        "colour_2.0",
        "colour_nan",
    ]
    assert encoder.transform(TRAIN).tolist() == [
        [1, 7, 1, 0, 0],
        [5, 7, 0, 1, 0],
        [5, 7, 0, 0, 1],
        [9, 7, 0, 1, 0],
    ]
    assert encoder.transform([[NAN, 1, NAN]]).tolist() == [[5, 7, 0, 0, 0]]


def test_ordinal_codes_keep_unknown_and_missing_apart():
    encoder = column_encoder(CATEGORICAL, categories="ordinal").fit(TRAIN)
    assert encoder.transform(TRAIN)[:, 2].tolist() == [0, 1, -2, 1]
    assert encoder.transform([[0, 1, 0], [0, 99, 0], [0, NAN, 0]])[:, 2].tolist() == [-1, -1, -2]
    complete = column_encoder(CATEGORICAL, categories="ordinal").fit(TRAIN[[0, 1, 3]])
    assert complete.transform([[0, NAN, 0]])[:, 2].tolist() == [-1]


def test_a_tree_treats_unknown_categories_like_missing_ones():
    codes = column_encoder([True], categories="ordinal").fit([[0.0], [3.0], [NAN]])
    tree = DecisionTreeClassifier(random_state=0).fit(
        codes.transform([[0.0], [3.0], [NAN]]), ["known", "known", "missing"]
    )
    assert tree.predict(codes.transform([[1.0], [0.0]])).tolist() == ["missing", "known"]


@pytest.mark.parametrize(
    ("missing", "filled"), [("median", 2.5), ("mean", 4.0), ("most_frequent", 2.0)]
)
def test_missing_numbers_are_imputed(missing, filled):
    X = np.array([[2.0], [2.0], [3.0], [9.0], [NAN]])
    assert column_encoder([False], missing=missing).fit(X).transform(X)[4, 0] == filled


def test_indicators_and_standard_scores_leave_zeros_and_ones():
    encoder = column_encoder(CATEGORICAL, indicator=True, standardize=True).fit(TRAIN)
    encoded = encoder.transform(TRAIN)
    assert encoder.get_feature_names_out()[:3].tolist() == ["x0", "x2", "missingindicator_x0"]
    np.testing.assert_allclose(encoded[:, 0], (np.array([1, 5, 5, 9]) - 5) / np.sqrt(8))
    assert encoded[:, 1].tolist() == [0, 0, 0, 0]
    assert encoded[:, 2].tolist() == [0, 1, 0, 0]
    assert set(np.unique(encoded[:, 2:])) == {0, 1}
    assert encoder.transform([[0, 0, NAN]])[0, :3].tolist() == [
        -5 / np.sqrt(8),
        0,
        0,
    ]  # missing where training rows never are


def test_the_rarest_categories_share_a_column():
    X = np.array([0, 0, 0, 1, 1, 2, 3, NAN])[:, None]
    encoder = column_encoder([True], max_categories=3).fit(X)
    assert encoder.transform(X).tolist() == [[1, 0, 0]] * 3 + [[0, 1, 0]] * 2 + [[0, 0, 1]] * 3
    assert encoder.transform([[4.0]]).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("categories", ["ordinal", "one_hot"])
def test_columns_without_any_value_become_zero(categories):
    X = np.full((3, 2), NAN)
    encoder = column_encoder([False, True], categories=categories, standardize=True).fit(X)
    assert np.isfinite(encoder.transform(X)).all()
    assert np.isfinite(encoder.transform([[4.0, 1.0]])).all()


def test_infinity_is_refused():
    with pytest.raises(ValueError, match="infinity"):
        column_encoder(CATEGORICAL).fit(TRAIN).transform([[np.inf, 0, 0]])


cells = st.one_of(st.just(NAN), st.integers(0, 4).map(float))


@given(
    hnp.arrays(float, (6, 4), elements=cells),
    hnp.arrays(float, (3, 4), elements=cells),
    hnp.arrays(bool, 4),
)
@settings(max_examples=60, deadline=None)
def test_encoder_matches_numpy(train, rows, categorical):
    encoded = column_encoder(categorical, indicator=True).fit(train).transform(rows)
    numbers = [j for j in range(4) if not categorical[j]]
    medians = [
        np.median(present) if len(present := train[~np.isnan(train[:, j]), j]) else 0.0
        for j in numbers
    ]
    columns = [
        np.where(np.isnan(rows[:, j]), median, rows[:, j])
        for j, median in zip(numbers, medians, strict=True)
    ]
    columns += [np.isnan(rows[:, j]) for j in numbers if np.isnan(train[:, j]).any()]
    for j in np.flatnonzero(categorical):
        values = train[:, j]
        columns += [rows[:, j] == value for value in np.unique(values[~np.isnan(values)])]
        columns += [np.isnan(rows[:, j])] if np.isnan(values).any() else []
    assert encoded.dtype == np.float64
    assert np.array_equal(encoded, np.array(columns, dtype=float).T)


@given(
    hnp.arrays(float, (5, 3), elements=cells),
    hnp.arrays(float, (4, 3), elements=cells),
    st.sampled_from(["ordinal", "one_hot"]),
)
@settings(max_examples=40, deadline=None)
def test_encoding_of_a_row_does_not_depend_on_other_rows(train, rows, categories):
    encoder = column_encoder(
        [False, True, True], categories=categories, indicator=True, standardize=True
    ).fit(train)
    together = encoder.transform(rows)
    assert np.isfinite(together).all()
    assert np.array_equal(
        together, np.concatenate([encoder.transform(rows[i : i + 1]) for i in range(4)])
    )


class TestWrap:
    """Pipelines that a run fits in place of a parent."""

    @pytest.mark.parametrize(
        ("parent", "encoder"),
        [
            (RandomForestClassifier(), OrdinalEncoder),
            (ExtraTreesClassifier(), OrdinalEncoder),
            (DecisionTreeClassifier(), OrdinalEncoder),
            (HistGradientBoostingClassifier(), OrdinalEncoder),
            (LogisticRegression(), OneHotEncoder),
        ],
        ids=["forest", "extra trees", "tree", "boosting", "linear"],
    )
    def test_auto_is_ordinal_for_trees_alone(self, parent, encoder):
        pipeline = Preprocess().wrap(parent, make_mixed_dataset())
        assert [name for name, _ in pipeline.steps] == ["columns", "model"]
        assert pipeline["model"] is parent
        assert isinstance(pipeline["columns"].transformers[-1][1], encoder)

    def test_categories_can_be_chosen(self):
        one_hot = Preprocess(categories="one_hot", max_categories=2).wrap(
            RandomForestClassifier(), make_mixed_dataset()
        )
        assert one_hot["columns"].transformers[-1][1].max_categories == 2

    def test_a_parent_is_returned_unchanged_if_nothing_has_to_be_encoded(self):
        parent, numbers = (
            LogisticRegression(),
            make_mixed_dataset(np.nan_to_num(TRAIN), categorical=False),
        )
        images = Dataset.from_labels("images", np.zeros((4, 1, 2, 2)), np.arange(4) % 2)
        assert Preprocess().wrap(parent, numbers) is parent
        assert Preprocess(standardize=True).wrap(parent, images) is parent
        assert Preprocess(standardize=True).wrap(parent, numbers) is not parent
        assert Preprocess().wrap(parent, make_mixed_dataset(TRAIN, categorical=False)) is not parent

    def test_missing_values_may_occur_only_outside_the_training_rows(self):
        X = np.nan_to_num(TRAIN)
        pipeline = (
            Preprocess()
            .wrap(LogisticRegression(), make_mixed_dataset(X, categorical=False), has_missing=True)
            .fit(X, [0, 1, 0, 1])
        )
        filled = pipeline.predict_proba(np.median(X, axis=0, keepdims=True))
        assert np.array_equal(pipeline.predict_proba(np.full((1, 3), NAN)), filled)

    def test_no_preprocessing_only_names_the_categories(self):
        """To a parent that takes them; one whose columns are set is unchanged."""
        data, forest = make_mixed_dataset(), RandomForestClassifier()
        assert NoPreprocessing().wrap(forest, data, has_missing=True) is forest
        wrapped = NoPreprocessing().wrap(HistGradientBoostingClassifier(max_iter=5), data)
        assert (
            wrapped.get_params()
            == HistGradientBoostingClassifier(
                max_iter=5, categorical_features=data.is_categorical.tolist()
            ).get_params()
        )
        chosen = HistGradientBoostingClassifier(categorical_features=[0])
        assert NoPreprocessing().wrap(chosen, data) is chosen
        numbers = make_mixed_dataset(TRAIN, categorical=False)
        boosted = HistGradientBoostingClassifier()
        assert NoPreprocessing().wrap(boosted, numbers) is boosted

    def test_it_can_be_pickled(self):
        pipeline = (
            Preprocess()
            .wrap(RandomForestClassifier(3, random_state=0), make_mixed_dataset())
            .fit(TRAIN, [0, 1, 0, 1])
        )
        assert np.array_equal(
            pickle.loads(pickle.dumps(pipeline)).predict_proba(TRAIN), pipeline.predict_proba(TRAIN)
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"categories": "target"},
            "categories must be one of auto, ordinal, one_hot, got 'target'",
        ),
        ({"missing": "zero"}, "missing must be one of median, mean, most_frequent, got 'zero'"),
        ({"max_categories": 0}, "max_categories must be in [1, inf) or null, got 0"),
    ],
    ids=["categories", "missing", "max_categories"],
)
def test_values_out_of_range_are_refused(options, message):
    with pytest.raises(ParameterError) as caught:
        Preprocess(**options)
    assert str(caught.value) == message
