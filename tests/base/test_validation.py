"""Inputs that an estimator accepts: missing values, data frames, weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.base.posthoc import sample_weight_kwargs
from kdgraph.base.validation import accepts_dataframe, allows_missing, has_transformer_steps
from kdgraph.calibration import ScoreMap
from kdgraph.parents import column_encoder

IMPUTED = make_pipeline(SimpleImputer(), LogisticRegression())
ENCODED = make_pipeline(column_encoder([False, True]), LogisticRegression())
BY_NAME = make_pipeline(make_column_transformer((SimpleImputer(), ["a"])), LogisticRegression())
X, Y = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]}), [0, 1, 0, 1]


@pytest.mark.parametrize(
    "estimator",
    [
        IMPUTED,
        ENCODED,
        BY_NAME,
        FrozenEstimator(IMPUTED),
        CalibratedClassifierCV(ENCODED),
        GridSearchCV(IMPUTED, {}),
        VotingClassifier([("a", IMPUTED), ("b", GaussianNB())]),
        RandomForestClassifier(),
        HistGradientBoostingClassifier(),
        ScoreMap(RandomForestClassifier()),
        KernelDensityForest(ENCODED),
        DensityGate(ScoreMap(ENCODED)),
        DensityGate(RandomForestClassifier(), partition=FrozenEstimator(ENCODED)),
        DensityGate(ENCODED, partition=RandomForestClassifier()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_missing_values_are_allowed_if_a_step_may_take_them(estimator):
    assert allows_missing(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        FrozenEstimator(GaussianNB()),
        SimpleImputer(missing_values=-1),
        object(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_missing_values_are_not_allowed_for_other_estimators(estimator):
    assert not allows_missing(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        KernelDensityForest(),
        KernelDensityForest(RandomForestClassifier()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_distances_need_a_pipeline_to_allow_missing_values(estimator):
    assert not estimator.__sklearn_tags__().input_tags.allow_nan
    assert KernelDensityForest(ENCODED).__sklearn_tags__().input_tags.allow_nan


def test_meta_estimators_and_models_fitted_on_frames_accept_frames():
    assert (
        accepts_dataframe(IMPUTED)
        and accepts_dataframe(CalibratedClassifierCV(IMPUTED))
        and accepts_dataframe(KernelDensityForest(IMPUTED))
    )
    assert not accepts_dataframe(LogisticRegression()) and not accepts_dataframe(
        RandomForestClassifier()
    )
    for estimator in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        assert accepts_dataframe(FrozenEstimator(estimator.fit(X, Y)))
        assert not accepts_dataframe(FrozenEstimator(estimator.fit(X.to_numpy(), Y)))


def test_transformer_steps_are_found_inside_wrappers():
    for estimator in (
        IMPUTED,
        FrozenEstimator(IMPUTED),
        CalibratedClassifierCV(IMPUTED),
        ScoreMap(FrozenEstimator(IMPUTED)),
    ):
        assert has_transformer_steps(estimator)
    for estimator in (
        RandomForestClassifier(),
        FrozenEstimator(GaussianNB()),
        Pipeline([("model", GaussianNB())]),
    ):
        assert not has_transformer_steps(estimator)


def test_sample_weight_goes_to_the_last_step():
    weight = np.array([1.0, 2.0])
    nested = Pipeline([("scale", StandardScaler()), ("inner", Pipeline([("model", GaussianNB())]))])
    assert sample_weight_kwargs(nested, np.ones(2)) == {}
    assert sample_weight_kwargs(nested, weight) == {"inner__model__sample_weight": weight}
    assert sample_weight_kwargs(GaussianNB(), weight) == {"sample_weight": weight}
