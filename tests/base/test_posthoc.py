"""What every calibrator inherits: which rows reach the parent, which are held out, and what is
refused in which words.
"""

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
from kdgraph.parameters import OpenFraction


class Recorder(PostHocClassifier):
    """Keeps the rows that it is given."""

    def __init__(self, estimator=None, *, calibration_size: OpenFraction = 0.3, random_state=None):
        self.estimator = estimator
        self.calibration_size = calibration_size
        self.random_state = random_state

    def _fit_after(self, train, calibration):
        self.train_, self.calibration_ = train, calibration

    def predict_proba(self, X):
        return self.estimator_.predict_proba(self._validate_X(X))


def table(n: int = 60):
    """Rows that can be told apart by their first feature."""
    return np.column_stack([np.arange(float(n)), np.zeros(n)]), np.where(
        np.arange(n) % 3 == 0, "b", "a"
    )


def recorder(**options):
    return Recorder(LogisticRegression(), **options)


def test_rows_are_held_out_once_stratified_and_by_seed():
    X, y = table()
    first, same, other = (recorder(random_state=seed).fit(X, y) for seed in (0, 0, 1))
    numbers = np.concatenate([first.train_.X[:, 0], first.calibration_.X[:, 0]])
    assert sorted(numbers) == list(range(60))
    assert len(first.calibration_) == 18
    assert np.bincount(first.calibration_.y).tolist() == [12, 6]
    assert np.array_equal(first.calibration_.X, same.calibration_.X)
    assert not np.array_equal(first.calibration_.X, other.calibration_.X)
    for rows in (first.train_, first.calibration_):
        assert np.array_equal(first.classes_[rows.y], y[rows.X[:, 0].astype(int)])


def test_given_calibration_rows_are_used_and_none_are_held_out():
    X, y = table()
    model = recorder().fit(X[:40], y[:40], X_calibration=X[40:], y_calibration=y[40:])
    assert np.array_equal(model.train_.X, X[:40])
    assert np.array_equal(model.calibration_.X, X[40:])
    assert np.array_equal(model.calibration_.weight, np.ones(20))
    assert model.prior_.tolist() == [26 / 40, 14 / 40]


def test_weights_of_given_calibration_rows_are_theirs_alone_with_mean_one():
    X, y = table()
    model = recorder().fit(
        X[:40],
        y[:40],
        X_calibration=X[40:],
        y_calibration=y[40:],
        sample_weight_calibration=np.arange(20),
    )
    np.testing.assert_allclose(model.calibration_.weight, np.arange(1, 20) / 10)
    assert np.array_equal(model.calibration_.X, X[41:])  # one of weight 0 is left out
    assert np.array_equal(model.train_.weight, np.ones(40))
    assert model.prior_.tolist() == [26 / 40, 14 / 40]


def test_weights_follow_their_rows_into_prior_and_parent():
    X, y = table()
    weight = np.arange(60) + 1.0
    model = recorder(random_state=0).fit(X, y, sample_weight=weight)
    for rows in (
        model.train_,
        model.calibration_,
    ):  # one factor for both, which were passed together
        np.testing.assert_allclose(rows.weight, (rows.X[:, 0] + 1) / weight.mean())
    of_b = model.train_.y == 1
    assert model.prior_[1] == pytest.approx(
        model.train_.weight[of_b].sum() / model.train_.weight.sum()
    )
    as_given = model.train_.X[:, 0] + 1
    expected = LogisticRegression().fit(
        model.train_.X, model.classes_[model.train_.y], sample_weight=as_given
    )
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_groups_follow_their_rows_given_or_held_out():
    X, y = table()
    groups = np.array([f"g{i}" for i in range(60)])
    model = recorder(random_state=0).fit(X, y, groups=groups)
    for rows in (model.train_, model.calibration_):
        assert rows.group.tolist() == [f"g{i:.0f}" for i in rows.X[:, 0]]
    given = {"X_calibration": X[40:], "y_calibration": y[40:]}
    model = recorder().fit(
        X[:40], y[:40], **given, groups=groups[:40], groups_calibration=groups[40:]
    )
    assert (
        model.train_.group.tolist() == groups[:40].tolist()
        and model.calibration_.group.tolist() == groups[40:].tolist()
    )
    assert recorder().fit(X[:40], y[:40], **given, groups=groups[:40]).calibration_.group is None
    assert recorder().fit(X, y).train_.group is None and not recorder().takes_groups


def test_groups_and_weights_of_calibration_rows_go_together():
    X, y = table()
    given = {
        "X_calibration": X[40:],
        "y_calibration": y[40:],
        "sample_weight_calibration": np.arange(20),
    }
    model = recorder().fit(X[:40], y[:40], **given, groups_calibration=np.arange(20) % 3)
    assert model.calibration_.group.tolist() == (np.arange(1, 20) % 3).tolist()
    np.testing.assert_allclose(model.calibration_.weight, np.arange(1, 20) / 10)


@pytest.mark.parametrize("name", ["groups", "groups_calibration"])
def test_groups_must_be_one_for_each_row(name):
    X, y = table()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        recorder().fit(X, y, X_calibration=X, y_calibration=y, **{name: np.zeros(5)})
    assert str(caught.value) == f"{name} must have one for each of 60 rows, got shape (5,)"


def test_a_parent_that_takes_no_weights_is_fine_as_long_as_they_are_all_one():
    X, y = table()
    Recorder(KNeighborsClassifier(), random_state=0).fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(TypeError, match="sample_weight"):
        Recorder(KNeighborsClassifier(), random_state=0).fit(X, y, sample_weight=np.arange(60.0))


def test_the_only_row_of_a_class_stays_with_the_training_rows():
    X, y = table()
    y = y.astype("U5")
    y[7] = "alone"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = recorder(random_state=0).fit(X, y)
    assert 7 in model.train_.X[:, 0]
    assert not set(model.train_.X[:, 0]) & set(model.calibration_.X[:, 0])
    assert len(model.train_) + len(model.calibration_) == 60


def test_too_few_rows_to_hold_any_out_are_used_twice_with_a_warning():
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    with pytest.warns(UserWarning, match="too few") as caught:
        model = recorder().fit(X, y)
    assert (
        str(caught[0].message)
        == "2 rows are too few to hold any out: Recorder is calibrated on its training rows"
    )
    assert caught[0].filename == __file__
    assert np.array_equal(model.train_.X, model.calibration_.X)


def test_predict_takes_the_class_of_the_largest_posterior():
    X, y = table()
    model = recorder(random_state=0).fit(X, y)
    assert np.array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_frozen_parent_may_know_more_classes_than_the_rows():
    X, _ = table()
    parent = LogisticRegression().fit(X, np.arange(60) // 20)
    model = Recorder(FrozenEstimator(parent), random_state=0).fit(X[20:], np.arange(20, 60) // 20)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.prior_.tolist() == [0, 0.5, 0.5]


def test_seeds_reach_every_nested_parameter_and_only_where_unset():
    forest = RandomForestClassifier(3)
    nested = make_pipeline(
        StandardScaler(),
        VotingClassifier([("a", forest), ("b", RandomForestClassifier(3, random_state=7))]),
    )
    first, second, other = (seeded_clone(nested, seed).get_params() for seed in (0, 0, 1))
    names = [f"votingclassifier__{x}__random_state" for x in "ab"]
    assert [first[name] for name in names] == [second[name] for name in names]
    assert first[names[0]] != other[names[0]]
    assert first[names[1]] == 7
    assert forest.random_state is None


def frame(n: int = 60):
    """The rows of ``table``, two numbers missing, with a column of words."""
    X, y = table(n)
    X[5:7, 1] = np.nan
    return (
        pd.DataFrame(
            {"number": X[:, 0], "gaps": X[:, 1], "word": np.where(y == "a", "x", "z")},
            index=np.arange(n)[::-1],
        ),
        y,
    )


def by_name(parent):
    return make_pipeline(
        ColumnTransformer([("numbers", SimpleImputer(), ["number", "gaps"])]), parent
    )


def test_a_frame_stays_a_frame_for_a_pipeline_and_its_rows_stay_with_their_labels():
    X, y = frame()
    model = Recorder(by_name(LogisticRegression()), random_state=0).fit(
        X, pd.Series(y, index=np.arange(60))
    )
    on_arrays = recorder(random_state=0).fit(*table())
    for rows, expected in (
        (model.train_, on_arrays.train_),
        (model.calibration_, on_arrays.calibration_),
    ):
        assert rows.X.columns.tolist() == ["number", "gaps", "word"]
        assert np.array_equal(rows.X["number"], expected.X[:, 0])
        assert np.array_equal(rows.y, expected.y)
    given = Recorder(by_name(LogisticRegression())).fit(
        X[:40], y[:40], X_calibration=X[40:], y_calibration=y[40:]
    )
    assert given.calibration_.X.equals(X[40:])
    assert np.array_equal(given.predict(X), given.estimator_.predict(X))


def test_a_frame_becomes_an_array_for_a_parent_that_stands_alone():
    X, y = frame()
    numbers = X[["number"]]
    model = recorder(random_state=0).fit(numbers, y)
    assert isinstance(model.train_.X, np.ndarray)
    assert model.feature_names_in_.tolist() == ["number"]
    assert np.array_equal(
        model.predict_proba(numbers),
        recorder(random_state=0).fit(numbers.to_numpy(), y).predict_proba(numbers.to_numpy()),
    )


@pytest.mark.parametrize(
    "parent", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())]
)
@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_frozen_parent_gets_what_it_was_fitted_on(parent):
    X, y = frame()
    numbers = X[["number"]]
    for rows in (numbers, numbers.to_numpy()):  # in neither case a warning about names
        model = Recorder(FrozenEstimator(clone(parent).fit(rows, y)), random_state=0).fit(
            numbers, y
        )
        assert isinstance(model.train_.X, type(rows))
        assert np.array_equal(model.predict_proba(numbers), model.estimator_.predict_proba(rows))


def test_missing_values_come_to_a_parent_that_takes_them():
    X, y = frame()
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
    ):  # before the parent, who may not look
        recorder().fit(values, y)


def test_weights_reach_the_last_step_of_a_pipeline():
    X, y = table()
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
def test_other_columns_than_in_fit_are_refused(columns):
    X, y = frame()
    model = Recorder(by_name(LogisticRegression()), random_state=0).fit(X, y)
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
)
def test_labels_that_do_not_fit_a_frame(labels, message):
    with pytest.raises(ValueError, match=message):
        Recorder(by_name(LogisticRegression()), random_state=0).fit(frame()[0], labels)


X, Y = table()
FROZEN = FrozenEstimator(LogisticRegression().fit(X, Y))


@pytest.mark.parametrize(
    ("model", "arguments", "kind", "message"),
    [
        (
            recorder(),
            {"y": np.full(60, "a")},
            ValueError,
            "Recorder needs rows of at least two classes, got one class: ['a']",
        ),
        (
            recorder(),
            {"sample_weight": (Y == "a").astype(float)},
            ValueError,
            "Recorder needs rows of at least two classes, got one class: ['a']",
        ),
        (
            recorder(),
            {"X_calibration": X[:2], "y_calibration": ["a", "z"]},
            ValueError,
            "calibration labels ['z'] are not among the training labels ['a', 'b']",
        ),
        (recorder(), {"X_calibration": X[:2]}, ValueError, "X_calibration needs y_calibration"),
        (recorder(), {"y_calibration": Y[:2]}, ValueError, "y_calibration needs X_calibration"),
        (
            recorder(),
            {"sample_weight_calibration": np.ones(60)},
            ValueError,
            (
                "sample_weight_calibration needs X_calibration; rows that are held out keep their"
                " sample_weight"
            ),
        ),
        (
            recorder(),
            {"X_calibration": X[:2], "y_calibration": Y[:2], "sample_weight_calibration": [1.0]},
            ValueError,
            "sample_weight.shape == (1,), expected (2,)!",
        ),
        (
            recorder(),
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
                "Recorder needs an estimator with predict_proba, got LinearSVC; convert its scores to"
                " probabilities: CalibratedClassifierCV(LinearSVC())"
            ),
        ),
        (recorder(calibration_size=0), {}, ValueError, "calibration_size must be in (0, 1), got 0"),
    ],
)
def test_what_is_refused(model, arguments, kind, message):
    with pytest.raises(kind) as caught:
        model.fit(**({"X": X, "y": Y} | arguments))
    assert str(caught.value) == message


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad):
    spoilt = X.copy()
    spoilt[3, 1] = bad
    word = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=rf"^Input X contains {word}"):
        recorder().fit(spoilt, Y)
    with pytest.raises(ValueError, match=rf"^Input X contains {word}"):
        recorder(random_state=0).fit(X, Y).predict_proba(spoilt)


def test_weights_reach_a_pipeline_whose_last_step_requests_them():
    """With metadata routing on, a pipeline takes no names of steps."""
    weight = np.arange(60) + 1.0
    plain = Recorder(make_pipeline(StandardScaler(), LogisticRegression()), random_state=0).fit(
        X, Y, sample_weight=weight
    )
    with config_context(enable_metadata_routing=True):
        steps = (
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression().set_fit_request(sample_weight=True),
        )
        routed = Recorder(make_pipeline(*steps), random_state=0).fit(X, Y, sample_weight=weight)
    assert np.array_equal(routed.predict_proba(X), plain.predict_proba(X))
