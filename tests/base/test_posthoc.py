"""Base classes of calibrators: rows of the parent, held-out rows, and refused arguments."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from kdgraph.base import PostHocClassifier, seeded_clone
from kdgraph.errors import DataError
from kdgraph.parameters import OpenFraction


class Recorder(PostHocClassifier):
    """Calibrator that stores its training and calibration rows."""

    def __init__(self, estimator=None, *, calibration_size: OpenFraction = 0.3, random_state=None):
        self.estimator = estimator
        self.calibration_size = calibration_size
        self.random_state = random_state

    def _fit_after(self, train, calibration):
        self.train_, self.calibration_ = train, calibration

    def predict_proba(self, X):
        return self.estimator_.predict_proba(self._validate_X(X))


def make_numbered_rows(n: int = 60):
    """Return rows whose first feature is their number."""
    return np.column_stack([np.arange(float(n)), np.zeros(n)]), np.where(
        np.arange(n) % 3 == 0, "b", "a"
    )


def make_recorder(**options):
    return Recorder(LogisticRegression(), **options)


def test_rows_are_held_out_once_stratified_and_by_seed():
    X, y = make_numbered_rows()
    first, same_seed, other_seed = (
        make_recorder(random_state=seed).fit(X, y) for seed in (0, 0, 1)
    )
    numbers = np.concatenate([first.train_.X[:, 0], first.calibration_.X[:, 0]])
    assert sorted(numbers) == list(range(60))
    assert len(first.calibration_) == 18
    assert np.bincount(first.calibration_.y).tolist() == [12, 6]
    assert np.array_equal(first.calibration_.X, same_seed.calibration_.X)
    assert not np.array_equal(first.calibration_.X, other_seed.calibration_.X)
    for rows in (first.train_, first.calibration_):
        assert np.array_equal(first.classes_[rows.y], y[rows.X[:, 0].astype(int)])


def test_no_rows_are_held_out_if_calibration_rows_are_passed():
    X, y = make_numbered_rows()
    model = make_recorder().fit(X[:40], y[:40], X_calibration=X[40:], y_calibration=y[40:])
    assert np.array_equal(model.train_.X, X[:40])
    assert np.array_equal(model.calibration_.X, X[40:])
    assert np.array_equal(model.calibration_.weight, np.ones(20))
    assert model.prior_.tolist() == [26 / 40, 14 / 40]


def test_weights_of_passed_calibration_rows_have_mean_one():
    X, y = make_numbered_rows()
    model = make_recorder().fit(
        X[:40],
        y[:40],
        X_calibration=X[40:],
        y_calibration=y[40:],
        sample_weight_calibration=np.arange(20),
    )
    np.testing.assert_allclose(model.calibration_.weight, np.arange(1, 20) / 10)
    assert np.array_equal(model.calibration_.X, X[41:])  # the row of weight 0 is left out
    assert np.array_equal(model.train_.weight, np.ones(40))
    assert model.prior_.tolist() == [26 / 40, 14 / 40]


def test_weights_follow_their_rows_into_prior_and_parent():
    X, y = make_numbered_rows()
    weight = np.arange(60) + 1.0
    model = make_recorder(random_state=0).fit(X, y, sample_weight=weight)
    # Both have the same factor, because they were passed together.
    for rows in (model.train_, model.calibration_):
        np.testing.assert_allclose(rows.weight, (rows.X[:, 0] + 1) / weight.mean())
    is_b = model.train_.y == 1
    assert model.prior_[1] == pytest.approx(
        model.train_.weight[is_b].sum() / model.train_.weight.sum()
    )
    passed_weight = model.train_.X[:, 0] + 1
    expected = LogisticRegression().fit(
        model.train_.X, model.classes_[model.train_.y], sample_weight=passed_weight
    )
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_groups_follow_their_rows():
    X, y = make_numbered_rows()
    groups = np.array([f"g{i}" for i in range(60)])
    model = make_recorder(random_state=0).fit(X, y, groups=groups)
    for rows in (model.train_, model.calibration_):
        assert rows.group.tolist() == [f"g{i:.0f}" for i in rows.X[:, 0]]
    calibration_rows = {"X_calibration": X[40:], "y_calibration": y[40:]}
    model = make_recorder().fit(
        X[:40], y[:40], **calibration_rows, groups=groups[:40], groups_calibration=groups[40:]
    )
    assert (
        model.train_.group.tolist() == groups[:40].tolist()
        and model.calibration_.group.tolist() == groups[40:].tolist()
    )
    assert (
        make_recorder()
        .fit(X[:40], y[:40], **calibration_rows, groups=groups[:40])
        .calibration_.group
        is None
    )
    assert make_recorder().fit(X, y).train_.group is None and not make_recorder().takes_groups


def test_calibration_groups_skip_rows_of_weight_zero():
    X, y = make_numbered_rows()
    calibration_rows = {
        "X_calibration": X[40:],
        "y_calibration": y[40:],
        "sample_weight_calibration": np.arange(20),
    }
    model = make_recorder().fit(
        X[:40], y[:40], **calibration_rows, groups_calibration=np.arange(20) % 3
    )
    assert model.calibration_.group.tolist() == (np.arange(1, 20) % 3).tolist()
    np.testing.assert_allclose(model.calibration_.weight, np.arange(1, 20) / 10)


@pytest.mark.parametrize("name", ["groups", "groups_calibration"])
def test_groups_need_one_value_per_row(name):
    X, y = make_numbered_rows()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        make_recorder().fit(X, y, X_calibration=X, y_calibration=y, **{name: np.zeros(5)})
    assert str(caught.value) == f"{name} must have one for each of 60 rows, got shape (5,)"


def test_unit_weights_are_not_passed_to_the_parent():
    X, y = make_numbered_rows()
    Recorder(KNeighborsClassifier(), random_state=0).fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(TypeError, match="sample_weight"):
        Recorder(KNeighborsClassifier(), random_state=0).fit(X, y, sample_weight=np.arange(60.0))


def test_the_only_row_of_a_class_is_a_training_row():
    X, y = make_numbered_rows()
    y = y.astype("U5")
    y[7] = "alone"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = make_recorder(random_state=0).fit(X, y)
    assert 7 in model.train_.X[:, 0]
    assert not set(model.train_.X[:, 0]) & set(model.calibration_.X[:, 0])
    assert len(model.train_) + len(model.calibration_) == 60


def test_too_few_rows_to_hold_any_out_are_refused():
    """Rows in both roles would calibrate by what the parent has memorised."""
    with pytest.raises(DataError, match="2 rows of as many classes") as caught:
        make_recorder().fit([[0.0], [1.0]], [0, 1])
    assert str(caught.value) == (
        "no row can be held out of 2 rows of as many classes, which the fit needs; pass more rows of"
        " a class, or X_calibration and y_calibration"
    )


def test_predict_returns_the_class_of_the_largest_posterior():
    X, y = make_numbered_rows()
    model = make_recorder(random_state=0).fit(X, y)
    assert np.array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_frozen_parent_may_have_more_classes_than_the_rows():
    X, _ = make_numbered_rows()
    parent = LogisticRegression().fit(X, np.arange(60) // 20)
    model = Recorder(FrozenEstimator(parent), random_state=0).fit(X[20:], np.arange(20, 60) // 20)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.prior_.tolist() == [0, 0.5, 0.5]


def test_seeded_clone_sets_only_unset_nested_seeds():
    forest = RandomForestClassifier(3)
    nested = make_pipeline(
        StandardScaler(),
        VotingClassifier([("a", forest), ("b", RandomForestClassifier(3, random_state=7))]),
    )
    first, second, other_seed = (seeded_clone(nested, seed).get_params() for seed in (0, 0, 1))
    names = [f"votingclassifier__{x}__random_state" for x in "ab"]
    assert [first[name] for name in names] == [second[name] for name in names]
    assert first[names[0]] != other_seed[names[0]]
    assert first[names[1]] == 7
    assert forest.random_state is None


def make_frame_with_gaps(n: int = 60):
    """Return the numbered rows as a data frame, with two missing numbers and a column of words."""
    X, y = make_numbered_rows(n)
    X[5:7, 1] = np.nan
    return (
        pd.DataFrame(
            {"number": X[:, 0], "gaps": X[:, 1], "word": np.where(y == "a", "x", "z")},
            index=np.arange(n)[::-1],
        ),
        y,
    )


def impute_by_name(parent):
    return make_pipeline(
        ColumnTransformer([("numbers", SimpleImputer(), ["number", "gaps"])]), parent
    )


def test_a_pipeline_gets_a_data_frame():
    X, y = make_frame_with_gaps()
    model = Recorder(impute_by_name(LogisticRegression()), random_state=0).fit(
        X, pd.Series(y, index=np.arange(60))
    )
    on_arrays = make_recorder(random_state=0).fit(*make_numbered_rows())
    for rows, expected in (
        (model.train_, on_arrays.train_),
        (model.calibration_, on_arrays.calibration_),
    ):
        assert rows.X.columns.tolist() == ["number", "gaps", "word"]
        assert np.array_equal(rows.X["number"], expected.X[:, 0])
        assert np.array_equal(rows.y, expected.y)
    calibration_rows = Recorder(impute_by_name(LogisticRegression())).fit(
        X[:40], y[:40], X_calibration=X[40:], y_calibration=y[40:]
    )
    assert calibration_rows.calibration_.X.equals(X[40:])
    assert np.array_equal(calibration_rows.predict(X), calibration_rows.estimator_.predict(X))


def test_a_single_estimator_gets_an_array():
    X, y = make_frame_with_gaps()
    numbers = X[["number"]]
    model = make_recorder(random_state=0).fit(numbers, y)
    assert isinstance(model.train_.X, np.ndarray)
    assert model.feature_names_in_.tolist() == ["number"]
    assert np.array_equal(
        model.predict_proba(numbers),
        make_recorder(random_state=0).fit(numbers.to_numpy(), y).predict_proba(numbers.to_numpy()),
    )


@pytest.mark.parametrize(
    "parent",
    [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["alone", "pipeline"],
)
@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_frozen_parent_gets_the_input_type_of_its_fit(parent):
    X, y = make_frame_with_gaps()
    numbers = X[["number"]]
    for rows in (numbers, numbers.to_numpy()):  # in neither case a warning about names
        model = Recorder(FrozenEstimator(clone(parent).fit(rows, y)), random_state=0).fit(
            numbers, y
        )
        assert isinstance(model.train_.X, type(rows))
        assert np.array_equal(model.predict_proba(numbers), model.estimator_.predict_proba(rows))


def test_missing_values_are_passed_to_a_parent_that_takes_them():
    X, y = make_frame_with_gaps()
    values = X[["number", "gaps"]].to_numpy()
    for parent in (
        make_pipeline(SimpleImputer(), LogisticRegression()),
        RandomForestClassifier(3, random_state=0),
    ):
        model = Recorder(parent, random_state=0).fit(values, y)
        assert np.isnan(np.concatenate([model.train_.X, model.calibration_.X])).sum() == 2
        assert np.isfinite(model.predict_proba(values)).all()
        with pytest.raises(ValueError, match=r"^Input X contains infinity"):
            model.predict_proba(np.full((1, 2), np.inf))
    with pytest.raises(
        ValueError, match="Recorder does not accept missing values"
    ):  # raised before the parent is fitted
        make_recorder().fit(values, y)


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y = make_numbered_rows()
    weight = np.arange(60) + 1.0
    model = Recorder(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(
        X, y, sample_weight=weight
    )
    expected = make_pipeline(StandardScaler(), LogisticRegression())
    expected.fit(
        model.train_.X,
        model.classes_[model.train_.y],
        logisticregression__sample_weight=model.train_.X[:, 0] + 1,
    )
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("columns", [["gaps", "number", "word"], ["number", "gaps"]])
def test_columns_that_differ_from_fit_are_refused(columns):
    X, y = make_frame_with_gaps()
    model = Recorder(impute_by_name(LogisticRegression()), random_state=0).fit(X, y)
    with pytest.raises(
        ValueError, match="The feature names should match those that were passed during fit"
    ):
        model.predict(X[columns])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.where(np.arange(60) < 5, np.nan, 1.0), "Input y contains NaN"),
        (["a", "b"], "inconsistent numbers of samples"),
    ],
    ids=["missing label", "too few labels"],
)
def test_labels_that_do_not_match_a_frame_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        Recorder(impute_by_name(LogisticRegression()), random_state=0).fit(
            make_frame_with_gaps()[0], labels
        )


X, Y = make_numbered_rows()
FROZEN = FrozenEstimator(LogisticRegression().fit(X, Y))


@pytest.mark.parametrize(
    ("model", "arguments", "kind", "message"),
    [
        (
            make_recorder(),
            {"y": np.full(60, "a")},
            ValueError,
            "Recorder needs rows of at least two classes, got one class: ['a']",
        ),
        (
            make_recorder(),
            {"sample_weight": (Y == "a").astype(float)},
            ValueError,
            "Recorder needs rows of at least two classes, got one class: ['a']",
        ),
        (
            make_recorder(),
            {"X_calibration": X[:2], "y_calibration": ["a", "z"]},
            ValueError,
            "calibration labels ['z'] are not among the training labels ['a', 'b']",
        ),
        (
            make_recorder(),
            {"X_calibration": X[:2]},
            ValueError,
            "X_calibration needs y_calibration",
        ),
        (
            make_recorder(),
            {"y_calibration": Y[:2]},
            ValueError,
            "y_calibration needs X_calibration",
        ),
        (
            make_recorder(),
            {"sample_weight_calibration": np.ones(60)},
            ValueError,
            (
                "sample_weight_calibration needs X_calibration; rows that are held out keep their"
                " sample_weight"
            ),
        ),
        (
            make_recorder(),
            {"X_calibration": X[:2], "y_calibration": Y[:2], "sample_weight_calibration": [1.0]},
            ValueError,
            "sample_weight.shape == (1,), expected (2,)!",
        ),
        (
            make_recorder(),
            {"X_calibration": X[:2, :1], "y_calibration": Y[:2]},
            ValueError,
            "X has 1 features, but Recorder is expecting 2 features as input.",
        ),
        (
            Recorder(FROZEN),
            {"y": np.where(Y == "a", "c", "b")},
            ValueError,
            "labels ['c'] are not among the classes of the frozen parent, ['a', 'b']",
        ),
        (Recorder(None), {}, ValueError, "Recorder needs an estimator, got None"),
        (
            Recorder(LinearSVC()),
            {},
            TypeError,
            (
                "Recorder needs an estimator with predict_proba, got LinearSVC; convert its scores"
                " to probabilities: CalibratedClassifierCV(LinearSVC())"
            ),
        ),
        (
            make_recorder(calibration_size=0),
            {},
            ValueError,
            "calibration_size must be in (0, 1), got 0",
        ),
    ],
)
def test_invalid_arguments_are_refused(model, arguments, kind, message):
    with pytest.raises(kind) as caught:
        model.fit(**({"X": X, "y": Y} | arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(value):
    not_finite = X.copy()
    not_finite[3, 1] = value
    word = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"^Input X contains {word}"):
        make_recorder().fit(not_finite, Y)
    with pytest.raises(ValueError, match=rf"^Input X contains {word}"):
        make_recorder(random_state=0).fit(X, Y).predict_proba(not_finite)


def test_weights_reach_a_pipeline_whose_last_step_requests_them():
    """With metadata routing enabled, a pipeline does not take weights by step names."""
    weight = np.arange(60) + 1.0
    expected = Recorder(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(
        X, Y, sample_weight=weight
    )
    with config_context(enable_metadata_routing=True):
        steps = (
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        routed = Recorder(make_pipeline(*steps), random_state=0).fit(X, Y, sample_weight=weight)
    assert np.array_equal(routed.predict_proba(X), expected.predict_proba(X))
