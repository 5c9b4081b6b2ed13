"""Calibration by group against separate calibrators of each group's rows."""

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
    """Return calibration rows, labels and groups; rows to predict and their groups."""
    X, y = make_classification(500, 5, flip_y=0.2, random_state=0)
    groups = np.array(["Ada", "Bob", "Cyd"])[np.random.default_rng(0).integers(3, size=500)]
    return X[100:400], y[100:400], groups[100:400], X[400:], groups[400:]


@pytest.fixture(scope="module")
def parent():
    X, y = make_classification(500, 5, flip_y=0.2, random_state=0)
    return FrozenEstimator(
        RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:100], y[:100])
    )


def fit_groupwise(parent, rows, calibrator, **options) -> GroupWise:
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


def fit_on_subset(calibrator, parent, rows, mask):
    X, y, *_ = rows
    return calibrator(parent).fit(X[:50], y[:50], X_calibration=X[mask], y_calibration=y[mask])


@pytest.mark.parametrize(
    ("calibrator", "method"),
    [
        (lambda parent: ScoreMap(parent, method="temperature"), "predict_proba"),
        (lambda parent: ScoreMap(parent, method="isotonic"), "predict_proba"),
        (lambda parent: HistogramBinning(parent, by_class=False, bins=5), "predict_confidence"),
        (TemperatureScaling, "predict_confidence"),
    ],
    ids=["temperature", "isotonic", "histogram", "top-label temperature"],
)
def test_each_group_has_its_own_calibrator(calibrator, method, parent, rows):
    _, _, groups, new, new_groups = rows
    model = fit_groupwise(parent, rows, calibrator(None))
    assert model.groups_.tolist() == ["Ada", "Bob", "Cyd"] and model.without_ == {}
    predictions = getattr(model, method)(new, new_groups)
    for group in model.groups_:
        reference = fit_on_subset(calibrator, parent, rows, groups == group)
        np.testing.assert_array_equal(
            predictions[new_groups == group], getattr(reference, method)(new[new_groups == group])
        )
    shared = fit_on_subset(calibrator, parent, rows, slice(None))
    np.testing.assert_array_equal(getattr(model, method)(new), getattr(shared, method)(new))
    np.testing.assert_array_equal(
        getattr(model, method)(new, np.full(len(new), "Dan")), getattr(shared, method)(new)
    )
    assert hasattr(model, method) and hasattr(model, "predict_proba") == (method == "predict_proba")


def test_small_groups_use_the_shared_calibrator(parent, rows):
    X, y, groups, new, _ = rows
    groups = groups.copy()
    groups[[*np.flatnonzero(y == 0)[:2], *np.flatnonzero(y == 1)[:1]]] = "Eve"
    model = fit_groupwise(parent, (X, y, groups), ScoreMap(None, method="temperature"), min_rows=4)
    assert model.groups_.tolist() == ["Ada", "Bob", "Cyd"] and model.without_ == {
        "Eve": "3 calibration rows"
    }
    assert model.describe() == {"groups": 3, "without": {"Eve": "3 calibration rows"}}
    np.testing.assert_array_equal(
        model.predict_proba(new, np.full(100, "Eve")), model.predict_proba(new)
    )
    assert (
        "Eve"
        in fit_groupwise(
            parent, (X, y, groups), ScoreMap(None, method="temperature"), min_rows=3
        ).groups_
    )


def test_all_groups_share_one_calibrator_if_none_is_large_enough(parent, rows):
    *_, new, new_groups = rows
    model = fit_groupwise(parent, rows, ScoreMap(None, method="temperature"), min_rows=1000)
    assert len(model.groups_) == 0 and len(model.without_) == 3
    np.testing.assert_array_equal(model.predict_proba(new, new_groups), model.predict_proba(new))


class TwoClassCalibrator(PostHocClassifier):
    """Calibrator that cannot be fitted to rows of one class."""

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


def test_error_of_a_group_is_recorded(parent, rows):
    X, y, groups, new, _ = rows
    model = fit_groupwise(
        parent, (X, y, np.where(y == 1, groups, "one class")), TwoClassCalibrator()
    )
    assert model.without_ == {
        "Ada": "rows of one class",
        "Bob": "rows of one class",
        "Cyd": "rows of one class",
        "one class": "rows of one class",
    }
    np.testing.assert_array_equal(
        model.predict_proba(new, np.full(100, "Ada")), parent.predict_proba(new)
    )


def test_group_of_one_class_has_finite_probabilities(parent, rows):
    X, y, groups, new, new_groups = rows
    for method in ("temperature", "isotonic", "sigmoid"):
        model = fit_groupwise(
            parent, (X, y, np.where(y == 1, "right", groups)), ScoreMap(None, method=method)
        )
        requirement = (
            "two classes, the calibration rows have only [1]" if method == "temperature" else None
        )
        requirement = requirement or "every class, the calibration rows have none of [0]"
        assert model.without_["right"] == (
            f"{method} calibration needs rows of {requirement}; fit it to more rows, of which some"
            " are held out, or pass X_calibration and y_calibration"
        )
        proba = model.predict_proba(new, np.where(np.arange(100) < 50, "right", new_groups))
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


def test_weights_and_held_out_rows_are_split_by_group(rows):
    X, y, groups, new, new_groups = rows
    forest, weight = RandomForestClassifier(10, random_state=0), np.arange(300) % 2 + 1.0
    model = GroupWise(forest, HistogramBinning(None, by_class=False, bins=3), random_state=0)
    model.fit(X, y, weight, groups=groups)
    seed = check_random_state(0).randint(np.iinfo(np.int32).max)
    _, held_out = train_test_split(np.arange(300), test_size=0.3, stratify=y, random_state=seed)
    bob_rows = held_out[groups[held_out] == "Bob"]
    reference = HistogramBinning(FrozenEstimator(model.estimator_), by_class=False, bins=3)
    reference.fit(
        X,
        y,
        X_calibration=X[bob_rows],
        y_calibration=y[bob_rows],
        sample_weight_calibration=weight[bob_rows],
    )
    is_bob = new_groups == "Bob"
    np.testing.assert_array_equal(
        model.predict_confidence(new, new_groups)[is_bob], reference.predict_confidence(new[is_bob])
    )


def test_seed_makes_all_groups_reproducible(parent, rows):
    *_, new, new_groups = rows
    calibrator = LocalRecalibration(None, features=FeatureMap(dimensions=3))
    first, second = (fit_groupwise(parent, rows, calibrator) for _ in range(2))
    assert np.array_equal(
        first.predict_confidence(new, new_groups), second.predict_confidence(new, new_groups)
    )
    assert calibrator.random_state is None and not hasattr(calibrator, "estimator_")


def test_data_frame_is_split_by_group(rows):
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
        mask = groups == group
        np.testing.assert_array_equal(proba[mask], model.predict_proba(frame[mask], groups[mask]))


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the calibration rows are training rows
def test_missing_calibrator_or_groups_raise_one_line(parent, rows):
    X, y, groups, new, _ = rows
    remedy = f"({(groups == 'Ada').sum()} such); name one, or leave the row out"
    missing_group = (
        "GroupWise needs the group of each row, got {} among those of the calibration rows"
        f" {remedy}"
    )
    cases = [
        (
            lambda: GroupWise(parent).fit(X, y, groups=groups),
            "GroupWise needs a calibrator, got None; pass one without a parent, such as"
            " calibrator=ScoreMap(None)",
        ),
        (
            lambda: GroupWise(parent, ScoreMap(None)).fit(X, y),
            (
                "GroupWise needs the group of each row: groups, and groups_calibration where there"
                " are calibration rows"
            ),
        ),
        (
            lambda: fit_groupwise(
                parent, (X, y, np.where(groups == "Ada", None, groups)), ScoreMap(None)
            ),
            missing_group.format(None),
        ),
        (
            lambda: fit_groupwise(
                parent, (X, y, np.where(groups == "Ada", np.nan, 1.0)), ScoreMap(None)
            ),
            missing_group.format(np.nan),
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
            lambda: fit_groupwise(parent, rows, ScoreMap(None, method="temperature")).predict_proba(
                new, groups
            ),
            "groups must have one for each of 100 rows, got shape (300,)",
        ),
    ]
    for call, sentence in cases:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
            call()
        assert str(caught.value) == sentence
    lore = LocalRecalibration(parent, kernel="group")
    with pytest.raises(
        ValueError,
        match=(
            r"^LocalRecalibration with kernel=group needs the group of each row, got None among"
            r" those of"
        ),
    ):
        lore.fit(
            X,
            y,
            X_calibration=X,
            y_calibration=y,
            groups_calibration=np.where(groups == "Ada", None, groups),
        )
