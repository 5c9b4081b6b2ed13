"""The lists of private names of scikit-learn fit the installed version."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest
import sklearn.feature_selection
import sklearn.metrics
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, RadiusNeighborsTransformer
from sklearn.tree import ExtraTreeRegressor

from kdgraph.persistence import allowed
from kdgraph.persistence.allowed import import_class, import_function
from kdgraph.persistence.checks import omitted_attribute, post_load_hook
from kdgraph.persistence.kinds import _COMPILED_LOSSES

PUBLIC_MODULES = (sklearn.feature_selection, sklearn.metrics, sklearn.metrics.pairwise)
FUNCTION_MODULES = [name for name in allowed._FUNCTION_MODULES if name.startswith("sklearn.")]


@pytest.mark.parametrize("name", sorted(allowed._SKLEARN_PRIVATE_CLASSES))
def test_listed_private_class_exists(name):
    assert import_class(name).__module__.startswith("sklearn.")


@pytest.mark.parametrize("name", allowed._PRIVATE_FUNCTIONS)
def test_listed_private_function_exists(name):
    assert callable(import_function(name))


@pytest.mark.parametrize(
    "module",
    [
        *(f"sklearn.{package}" for package in allowed._SKLEARN_PACKAGES.split()),
        *allowed._SKLEARN_MODULES,
        *_COMPILED_LOSSES,
    ],
)
def test_listed_module_exists(module):
    import_module(module)


@pytest.mark.parametrize("module", FUNCTION_MODULES)
def test_functions_of_a_listed_module_are_public(module):
    functions = [
        function
        for name, function in vars(import_module(module)).items()
        if inspect.isfunction(function)
        and function.__module__ == module
        and not name.startswith("_")
    ]
    assert functions
    for function in functions:
        assert any(
            getattr(public, function.__name__, None) is function for public in PUBLIC_MODULES
        )


@pytest.mark.parametrize(
    "cls",
    [
        ExtraTreeRegressor,
        RandomTreesEmbedding,
        GradientBoostingRegressor,
        HistGradientBoostingRegressor,
        LocalOutlierFactor,
        RadiusNeighborsTransformer,
    ],
)
def test_estimator_with_compiled_trees_has_a_post_load_hook(cls):
    user_class = type("UserClass", (cls,), {})
    assert post_load_hook(cls) is not None and post_load_hook(user_class) is not None


def test_forest_of_quantile_forest_has_a_post_load_hook():
    quantile_forest = pytest.importorskip("quantile_forest")
    assert post_load_hook(quantile_forest.RandomForestQuantileRegressor) is not None


@pytest.mark.parametrize("cls", [BaggingClassifier, LinearRegression, KernelDensity, object])
def test_other_class_has_no_post_load_hook(cls):
    assert post_load_hook(cls) is None and omitted_attribute(cls) is None


def test_only_the_tree_of_a_neighbour_search_is_omitted():
    assert omitted_attribute(LocalOutlierFactor) == "_tree"
    assert omitted_attribute(RandomTreesEmbedding) is None
