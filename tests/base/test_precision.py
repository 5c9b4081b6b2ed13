"""Warnings about features whose values are lost in float32."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.base.validation import (
    distinct_value_counts,
    uses_single_precision,
    warn_precision_loss,
)
from kdgraph.density import KernelDensityForest

N = 200
OFFSET = 1.7e9
"""Seconds of Unix time in this decade, where float32 has a value every 128 s."""
RNG = np.random.default_rng(0)
SECONDS = OFFSET + np.arange(N) * 3.0  # 10 minutes
X = np.column_stack([RNG.normal(size=N), SECONDS])
Y = (np.arange(N) // 20) % 2


def precision_warnings(parent, X=X, **options) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_precision_loss("custom", parent, X, **options)
    return [str(warning.message) for warning in caught]


TREE = DecisionTreeClassifier(max_depth=1).fit(X, Y)
TIME_LOSS = (
    "custom: of 200 different values of 'time', single precision, in which DecisionTreeClassifier"
    " computes, has 6"
)


def test_warning_names_the_feature_and_the_remedy():
    names = ["a", "time"]
    assert precision_warnings(TREE, names=names, scale="dataset.scale=min_max") == [
        f"{TIME_LOSS}; dataset.scale=min_max takes the offset away"
    ]
    advice = (
        "subtract the offset, or standardise in the parent's pipeline, as in"
        " make_pipeline(StandardScaler(), model)"
    )
    assert precision_warnings(TREE, names=names) == [f"{TIME_LOSS}; {advice}"]
    assert precision_warnings(TREE, pd.DataFrame(X, columns=names)) == [f"{TIME_LOSS}; {advice}"]
    assert precision_warnings(TREE)[0].startswith(
        "custom: of 200 different values of column 1, single precision"
    )


def test_scaling_is_advised_only_if_it_helps():
    small = np.append(np.arange(N - 1) * 1e-6, 1e9)
    assert precision_warnings(TREE, small[:, None], scale="dataset.scale=min_max") == [], (
        "small numbers next to a large one have enough digits"
    )
    shifted = np.append(0.0, 1000 + np.arange(N - 1) * 1e-6)
    (message,) = precision_warnings(TREE, shifted[:, None], scale="dataset.scale=min_max")
    assert message.endswith("; subtract the offset of the column, or take outliers out of it")


def test_no_warning_if_a_pipeline_centres_the_feature():
    assert (
        precision_warnings(
            make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=1)).fit(X, Y)
        )
        == []
    )
    assert (
        len(
            precision_warnings(
                make_pipeline(
                    StandardScaler(with_mean=False), DecisionTreeClassifier(max_depth=1)
                ).fit(X, Y)
            )
        )
        == 1
    )


@pytest.mark.parametrize(
    "parent",
    [LogisticRegression(), HistGradientBoostingClassifier()],
    ids=lambda parent: type(parent).__name__,
)
def test_no_warning_for_models_in_double_precision(parent):
    assert precision_warnings(parent) == []


@pytest.mark.parametrize(
    "rows",
    [RNG.normal(size=(30_000, 2)), RNG.integers(0, 2**24, size=(5000, 2)), np.full((10, 1), 1e12)],
    ids=len,
)
def test_no_warning_for_values_that_float32_can_hold(rows):
    assert precision_warnings(TREE, rows) == []
    assert precision_warnings(TREE, rows.astype(np.float32)) == []


def test_missing_values_do_not_count():
    column = np.where(np.arange(N) % 2 == 0, np.nan, SECONDS)
    double, single = distinct_value_counts(np.column_stack([column, np.full(N, np.nan)]))
    assert double.tolist() == [100, 1] and single.tolist() == [6, 1]
    assert len(precision_warnings(TREE, np.column_stack([X[:, 0], column]))) == 1


def test_no_warning_for_images_and_text():
    assert (
        precision_warnings(TREE, np.full((4, 1, 2, 2), OFFSET)) == []
        and precision_warnings(TREE, np.array([["a"], ["b"]])) == []
    )


def test_estimators_in_single_precision_are_recognised():
    forest = RandomForestClassifier()
    for parent in (
        forest,
        make_pipeline(StandardScaler(), forest),
        FrozenEstimator(forest),
        KernelDensityForest(forest),
    ):
        assert uses_single_precision(parent)
    assert not uses_single_precision(None) and not uses_single_precision(KernelDensityForest(None))


def test_fit_warns_about_its_parent():
    message = (
        "KernelDensityForest: of 140 different values of column 1, single precision, in which"
        " RandomForestClassifier computes, has "
    )
    with pytest.warns(
        UserWarning,
        match=(
            f"^{re.escape(message)}[1-9]; subtract the offset, or standardise in the parent's"
            " pipeline"
        ),
    ):
        KernelDensityForest(
            RandomForestClassifier(n_estimators=3, random_state=0),
            calibration="held_out",
            random_state=0,
        ).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parent = make_pipeline(
            StandardScaler(), RandomForestClassifier(n_estimators=3, random_state=0)
        )
        KernelDensityForest(parent, random_state=0).fit(X, Y)
