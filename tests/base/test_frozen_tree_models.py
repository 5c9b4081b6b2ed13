"""Base classes of trees and forests: every forest has them, no other ensemble does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaseEnsemble,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeRegressor

from kdgraph.base.frozen import FOREST_BASE, TREE_MODELS, was_fitted_on

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 3)), np.arange(80) % 2


class UserForest(RandomForestClassifier):
    """Subclass of a public forest, as users write them."""


class ThirdPartyForest(FOREST_BASE):
    """Subclass of the common base alone, as other libraries write them."""


@pytest.mark.parametrize(
    "cls",
    [
        RandomForestClassifier,
        RandomForestRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        RandomTreesEmbedding,
        UserForest,
        ThirdPartyForest,
    ],
)
def test_forests_share_the_base_class(cls):
    assert issubclass(cls, FOREST_BASE) and issubclass(cls, TREE_MODELS)


@pytest.mark.parametrize(
    "cls",
    [
        AdaBoostClassifier,
        BaggingClassifier,
        BaseEnsemble,
        DecisionTreeClassifier,
        DummyClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        IsolationForest,
    ],
)
def test_no_other_ensemble_is_a_forest(cls):
    assert not issubclass(cls, FOREST_BASE)


def test_single_precision_models_have_compiled_sklearn_trees():
    assert issubclass(DecisionTreeClassifier, TREE_MODELS)
    assert issubclass(ExtraTreeRegressor, TREE_MODELS)
    assert issubclass(GradientBoostingClassifier, TREE_MODELS)
    assert not issubclass(HistGradientBoostingClassifier, TREE_MODELS)
    assert not issubclass(BaggingClassifier, TREE_MODELS)


def test_forest_of_a_user_recognises_its_training_rows():
    forest = UserForest(4, random_state=0).fit(X, Y)
    assert was_fitted_on(forest, X) is True
    assert was_fitted_on(forest, X[::-1].copy()) is False
