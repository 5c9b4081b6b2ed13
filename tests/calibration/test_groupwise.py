"""A calibrator for each group, against calibrators fitted by hand on each group's rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import check_random_state

from kdgraph.base import PostHocClassifier
from kdgraph.calibration import GroupWise, ScoreMap
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning, TemperatureScaling
from kdgraph.features import FeatureMap


@pytest.fixture(scope="module")
def rows():
    """Calibration rows, labels, their groups; rows to predict and theirs."""
    X, y = make_classification(500, 5, flip_y=0.2, random_state=0)
    groups = np.array(["Ada", "Bob", "Cyd"])[np.random.default_rng(0).integers(3, size=500)]
    return X[100:400], y[100:400], groups[100:400], X[400:], groups[400:]


@pytest.fixture(scope="module")
def parent():
    X, y = make_classification(500, 5, flip_y=0.2, random_state=0)
    return FrozenEstimator(
        RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:100], y[:100])
    )


def fitted(parent, rows, calibrator, **options) -> GroupWise:
    X, y, groups, *_ = rows
    model = GroupWise(parent, calibrator, random_state=0, **options)
    return model.fit(
        X[:50],
        y[:50],
        groups=groups[:50],
        X_calibration=X,
        y_calibration=y,
        groups_calibration=groups,
    )


def by_hand(calibrator, parent, rows, mine):
    X, y, *_ = rows
    return calibrator(parent).fit(X[:50], y[:50], X_calibration=X[mine], y_calibration=y[mine])


@pytest.mark.parametrize(
    ("calibrator", "method"),
    [
        (lambda parent: ScoreMap(parent, method="temperature"), "predict_proba"),
        (lambda parent: ScoreMap(parent, method="isotonic"), "predict_proba"),
        (lambda parent: HistogramBinning(parent, by_class=False, bins=5), "predict_confidence"),
        (lambda parent: TemperatureScaling(parent), "predict_confidence"),
    ],
    ids=["temperature", "isotonic", "histogram", "top-label temperature"],
)
def test_each_group_has_a_separate_calibrator(calibrator, method, parent, rows):
    _, _, groups, new, of_new = rows
    model = fitted(parent, rows, calibrator(None))
    assert model.groups_.tolist() == ["Ada", "Bob", "Cyd"] and model.without_ == {}
    result = getattr(model, method)(new, of_new)
    for group in model.groups_:
        alone = by_hand(calibrator, parent, rows, groups == group)
        np.testing.assert_array_equal(
            result[of_new == group], getattr(alone, method)(new[of_new == group])
        )
    shared = by_hand(calibrator, parent, rows, slice(None))
    np.testing.assert_array_equal(getattr(model, method)(new), getattr(shared, method)(new))
    np.testing.assert_array_equal(
        getattr(model, method)(new, np.full(len(new), "Dan")), getattr(shared, method)(new)
    )
    assert hasattr(model, method) and hasattr(model, "predict_proba") == (method == "predict_proba")


def test_small_groups_have_the_calibrator_of_all_rows(parent, rows):
    X, y, groups, new, _ = rows
    groups = groups.copy()
    groups[[*np.flatnonzero(y == 0)[:2], *np.flatnonzero(y == 1)[:1]]] = "Eve"
    model = fitted(parent, (X, y, groups), ScoreMap(None, method="temperature"), min_rows=4)
    assert model.groups_.tolist() == ["Ada", "Bob", "Cyd"] and model.without_ == {
        "Eve": "3 calibration rows"
    }
    assert model.describe() == {"groups": 3, "without": {"Eve": "3 calibration rows"}}
    np.testing.assert_array_equal(
        model.predict_proba(new, np.full(100, "Eve")), model.predict_proba(new)
    )
    assert (
        "Eve"
        in fitted(parent, (X, y, groups), ScoreMap(None, method="temperature"), min_rows=3).groups_
    )


def test_small_groups_share_one_calibrator(parent, rows):
    *_, new, of_new = rows
    model = fitted(parent, rows, ScoreMap(None, method="temperature"), min_rows=1000)
    assert len(model.groups_) == 0 and len(model.without_) == 3
    np.testing.assert_array_equal(model.predict_proba(new, of_new), model.predict_proba(new))


class Picky(PostHocClassifier):
    """Says nothing of rows of one class."""

    def __init__(self, estimator=None, *, calibration_size=0.3, random_state=None):
        self.estimator, self.calibration_size, self.random_state = (
            estimator,
            calibration_size,
            random_state,
        )

    def _fit_after(self, train, calibration):
        if len(np.unique(calibration.y)) < 2:
            raise ValueError("rows of one class")

    def predict_proba(self, X):
        return self.estimator_.predict_proba(X)


def test_group_that_cannot_be_fitted_uses_the_shared_calibrator(parent, rows):
    X, y, groups, new, _ = rows
    model = fitted(parent, (X, y, np.where(y == 1, groups, "one class")), Picky())
    assert model.without_ == {
        "Ada": "rows of one class",
        "Bob": "rows of one class",
        "Cyd": "rows of one class",
        "one class": "rows of one class",
    }
    np.testing.assert_array_equal(
        model.predict_proba(new, np.full(100, "Ada")), parent.predict_proba(new)
    )


def test_a_group_of_one_class_has_finite_probabilities(parent, rows):
    X, y, groups, new, of_new = rows
    for method in ("temperature", "isotonic", "sigmoid"):
        model = fitted(
            parent, (X, y, np.where(y == 1, "right", groups)), ScoreMap(None, method=method)
        )
        needed = (
            "two classes, the calibration rows have only [1]" if method == "temperature" else None
        )
        needed = needed or "every class, the calibration rows have none of [0]"
        assert model.without_["right"] == f"{method} calibration needs rows of {needed}"
        proba = model.predict_proba(new, np.where(np.arange(100) < 50, "right", of_new))
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


def test_weights_and_held_out_rows_are_split_by_group(rows):
    X, y, groups, new, of_new = rows
    forest, weight = RandomForestClassifier(10, random_state=0), np.arange(300) % 2 + 1.0
    model = GroupWise(forest, HistogramBinning(None, by_class=False, bins=3), random_state=0)
    model.fit(X, y, weight, groups=groups)
    seed = check_random_state(0).randint(np.iinfo(np.int32).max)
    _, held = train_test_split(np.arange(300), test_size=0.3, stratify=y, random_state=seed)
    mine = held[groups[held] == "Bob"]
    alone = HistogramBinning(FrozenEstimator(model.estimator_), by_class=False, bins=3)
    alone.fit(
        X, y, X_calibration=X[mine], y_calibration=y[mine], sample_weight_calibration=weight[mine]
    )
    of_bob = of_new == "Bob"
    np.testing.assert_array_equal(
        model.predict_confidence(new, of_new)[of_bob], alone.predict_confidence(new[of_bob])
    )


def test_seed_determines_all_calibrators(parent, rows):
    *_, new, of_new = rows
    calibrator = LocalRecalibration(None, features=FeatureMap(dimensions=3))
    one, two = (fitted(parent, rows, calibrator) for _ in range(2))
    assert np.array_equal(one.predict_confidence(new, of_new), two.predict_confidence(new, of_new))
    assert calibrator.random_state is None and not hasattr(calibrator, "estimator_")


def test_data_frames_reach_the_calibrators_unchanged(rows):
    X, y, groups, *_ = rows
    frame = pd.DataFrame({"town": groups, "size": X[:, 0]}, index=np.arange(300)[::-1])
    encoded = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough"),
        RandomForestClassifier(5, random_state=0),
    )
    model = GroupWise(encoded, ScoreMap(None, method="temperature"), random_state=0).fit(
        frame, y, groups=groups
    )
    proba = model.predict_proba(frame, groups)
    for group in ("Ada", "Bob", "Cyd"):
        mine = groups == group
        np.testing.assert_array_equal(proba[mine], model.predict_proba(frame[mine], groups[mine]))


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_missing_groups_are_refused_in_one_line(parent, rows):
    X, y, groups, new, _ = rows
    such = f"({(groups == 'Ada').sum()} such); name one, or leave the row out"
    nobody = (
        "GroupWise needs the group of each row, got {} among those of the calibration rows"
        f" {such}"
    )
    cases = [
        (
            lambda: GroupWise(parent).fit(X, y, groups=groups),
            "GroupWise needs a calibrator, got None",
        ),
        (
            lambda: GroupWise(parent, ScoreMap(None)).fit(X, y),
            (
                "GroupWise needs the group of each row: groups, and groups_calibration where there"
                " are calibration rows"
            ),
        ),
        (
            lambda: fitted(parent, (X, y, np.where(groups == "Ada", None, groups)), ScoreMap(None)),
            nobody.format(None),
        ),
        (
            lambda: fitted(parent, (X, y, np.where(groups == "Ada", np.nan, 1.0)), ScoreMap(None)),
            nobody.format(np.nan),
        ),
        (
            lambda: GroupWise(parent, ScoreMap(None)).fit(X, y, groups=groups[:5]),
            "groups must have one for each of 300 rows, got shape (5,)",
        ),
        (
            lambda: GroupWise(parent, ScoreMap(None)).fit(
                X, y, groups=groups, X_calibration=X, y_calibration=y, groups_calibration=[0]
            ),
            "groups_calibration must have one for each of 300 rows, got shape (1,)",
        ),
        (
            lambda: fitted(parent, rows, ScoreMap(None, method="temperature")).predict_proba(
                new, groups
            ),
            "groups must have one for each of 100 rows, got shape (300,)",
        ),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
            call()
        assert str(caught.value) == sentence
    local = LocalRecalibration(parent, kernel="group")
    with pytest.raises(
        ValueError,
        match=(
            r"^LocalRecalibration with kernel=group needs the group of each row, got None among"
            r" those of"
        ),
    ):
        local.fit(
            X,
            y,
            X_calibration=X,
            y_calibration=y,
            groups_calibration=np.where(groups == "Ada", None, groups),
        )
