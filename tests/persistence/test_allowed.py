"""The closed lists of names of scikit-learn fit the installed version."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import scipy.special
import sklearn.metrics
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomTreesEmbedding,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.gaussian_process import kernels
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import BaseCrossValidator, BaseShuffleSplit
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, RadiusNeighborsTransformer
from sklearn.svm import NuSVR
from sklearn.tree import ExtraTreeRegressor
from sklearn.utils import all_estimators

from kdgraph.persistence.allowed import import_class, import_function, is_public_class
from kdgraph.persistence.kinds import _COMPILED_LOSSES
from kdgraph.persistence.predictor_checks import omitted_attribute, post_load_hook
from kdgraph.persistence.sklearn_names import CLASSES, FUNCTIONS, PLACES


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_listed_class_exists(name):
    assert import_class(name).__module__.startswith("sklearn.")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_listed_function_exists(name):
    assert import_function(name).__module__.startswith("sklearn.")


def concrete_subclasses(cls: type) -> set[type]:
    """Return the public subclasses of a class of scikit-learn that can be instantiated."""
    below = set(cls.__subclasses__())
    for subclass in cls.__subclasses__():
        below |= concrete_subclasses(subclass)
    return {
        subclass
        for subclass in below
        if subclass.__module__.startswith("sklearn.")
        and ".tests." not in subclass.__module__
        and not subclass.__name__.startswith("_")
        and not inspect.isabstract(subclass)
    }


def public_parts() -> set[type]:
    """Return public estimators and what users give to them: kernels and splitters."""
    parts = {cls for _, cls in all_estimators()}
    for base in (kernels.Kernel, BaseCrossValidator, BaseShuffleSplit):
        parts |= concrete_subclasses(base)
    return parts


def test_every_public_estimator_is_listed():
    """A class of a new version is read, and then listed or given a reason here."""
    names = {f"{cls.__module__}:{cls.__qualname__}" for cls in public_parts()}
    assert names - CLASSES == set()
    assert len(names) > 230


def test_listed_classes_are_estimators_or_parts_of_them():
    known = {f"{cls.__module__}:{cls.__qualname__}" for cls in public_parts()}
    packages = ("._loss.", "._scorer:", "._stochastic_optimizers:", ".utils.", "._split:")
    others = {
        name
        for name in CLASSES - known
        if not name.partition(":")[2].startswith("_") and not any(p in name for p in packages)
    }
    assert {name.partition(":")[2] for name in others} == {"TreePredictor", "make_column_selector"}


def test_functions_of_all_scorers_are_listed():
    scorers: list[Any] = [
        sklearn.metrics.get_scorer(name) for name in sklearn.metrics.get_scorer_names()
    ]
    functions = {scorer._score_func for scorer in scorers}
    names = {f"{function.__module__}:{function.__qualname__}" for function in functions}
    assert names <= PLACES["_score_func"]


def test_elementwise_functions_keep_the_shape_of_their_argument():
    names = sorted(name for name in PLACES["func"] if not name.startswith("sklearn."))
    values = np.random.default_rng(0).uniform(0.1, 0.9, (3, 2))
    for name in names:
        module, _, function = name.partition(":")
        target = getattr({"numpy": np, "scipy.special": scipy.special}[module], function)
        arguments = (0.2, 0.8) if name == "numpy:clip" else ()
        with np.errstate(invalid="ignore"):
            assert target(values, *arguments).shape == values.shape, name


@pytest.mark.parametrize(
    "name",
    [
        "sklearn.datasets._base:load_files",
        "sklearn.tree._tree:Tree",
        "sklearn.externals._arff:ArffDecoder",
        "sklearn.ensemble._forest:BaseForest",
        "kdgraph.fitted.parent:FittedParent",
        "numpy:ndarray",
        "numpy:load",
        "subprocess:Popen",
        "torch.nn.modules.linear:Linear",
    ],
)
def test_other_names_are_not_public(name):
    assert not is_public_class(name)


@pytest.mark.parametrize("module", _COMPILED_LOSSES)
def test_listed_module_exists(module):
    import_module(module)


@pytest.mark.parametrize(
    "cls",
    [
        ExtraTreeRegressor,
        RandomTreesEmbedding,
        GradientBoostingRegressor,
        HistGradientBoostingRegressor,
        IsolationForest,
        NuSVR,
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
