"""Errors of components name keys that a command line takes."""

from __future__ import annotations

import pickle
import sys

import pytest

from kdgraph.config import plan
from kdgraph.config.components import errors_by_key, parameters_of, target_of
from kdgraph.config.messages import unknown_group, unknown_option
from kdgraph.errors import ConfigError, DataError, ParameterError

NODE = {
    "name": "a",
    "degree": 1,
    "method": "x",
    "features": {"_target_": "b", "reduce": "tsne", "scale": 1},
    "other": {"scale": 2},
}
SENTENCES = {
    "degree=1 needs coordinates; use degree=0": (
        "gate.degree=1 needs coordinates; use gate.degree=0"
    ),
    "reduce=tsne has no place for new rows": "gate.features.reduce=tsne has no place for new rows",
    "features.reduce=tsne is slow": "gate.features.reduce=tsne is slow",
    "scale=1 stands in two nodes": "scale=1 stands in two nodes",
    "choose method=isotonic or parent=mlp": "choose method=isotonic or parent=mlp",
    "gate.degree=1, xdegree=1 and /degree=1 stay": "gate.degree=1, xdegree=1 and /degree=1 stay",
    "no key": "no key",
}


@pytest.mark.parametrize(("message", "named"), SENTENCES.items())
@pytest.mark.parametrize("error", [ParameterError, DataError])
def test_parameters_in_messages_become_keys_of_the_config(message, named, error):
    with pytest.raises(error) as raised, errors_by_key("gate", NODE):
        raise error(message)
    assert type(raised.value) is error and str(raised.value) == named


def test_another_error_is_not_touched():
    with pytest.raises(ValueError, match=r"^degree=1$"), errors_by_key("gate", NODE):
        raise ValueError("degree=1")


@pytest.mark.parametrize("name", ["submitit_slurm", "submitit_local"])
def test_a_launcher_of_a_cluster_without_its_extra_names_the_extra(name):
    expected = f"hydra/launcher={name} needs submitit: pip install 'kdgraph[cluster]'"
    assert str(unknown_option("hydra/launcher", name, ["basic", "processes"])) == expected


def test_a_group_set_to_none_differs_from_an_option():
    message = str(unknown_group("hydra/launchr", ["dataset", "hydra/launcher"]))
    assert (
        message
        == "no config group named 'hydra/launchr'; did you mean 'hydra/launcher'? (there are:"
        " dataset, hydra/launcher)"
    )


@pytest.mark.parametrize(
    ("library", "target", "package"),
    [
        ("catboost", "catboost.CatBoostClassifier", "'kdgraph[boosting]'"),
        ("torch", "kdgraph.parents.networks.MultilayerPerceptron", "'kdgraph[torch]'"),
        ("quantile_forest", "quantile_forest.RandomForestQuantileRegressor", "quantile-forest"),
    ],
)
def test_an_absent_library_is_named_with_its_installation(library, target, package, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    for module in [name for name in sys.modules if name.startswith("kdgraph.parents.networks")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ConfigError) as caught:
        target_of({"_target_": target}, "parent.estimator")
    assert str(caught.value) == (
        f"parent.estimator._target_: {target} needs {library}: pip install {package}"
    )


def test_a_class_of_a_paper_that_is_absent_needs_a_checkout():
    with pytest.raises(ConfigError) as caught:
        target_of({"_target_": "experiments.no_paper.Model"}, "parent")
    assert str(caught.value) == (
        "parent._target_: cannot import 'experiments.no_paper.Model' (No module named"
        " 'experiments.no_paper'); run kdg in a checkout of kdgraph"
    )


def test_parameters_that_a_class_passes_on_are_those_of_its_base():
    class Base:
        def __init__(self, depth: int = 3, rounds: int = 10):
            self.depth, self.rounds = depth, rounds

    class Mixin:
        pass

    class Model(Mixin, Base):
        def __init__(self, *, objective: str = "log", **others):
            super().__init__(**others)
            self.objective = objective

    class Closed(Base):
        def __init__(self, depth: int = 5):
            super().__init__(depth)

    assert set(parameters_of(Model)) == {"objective", "depth", "rounds"}
    assert parameters_of(Closed)["depth"].default == 5
    assert "rounds" not in parameters_of(Closed)


def test_components_of_a_config_are_resolved_and_built_once():
    config = plan(["method=gated_isotonic"]).jobs[0].config
    parent = config.resolved("parent")
    assert config.resolved("parent") is parent
    assert config.components is config.components
    assert parent.build() is not parent.build()  # what a stage fits is its own
    assert pickle.loads(pickle.dumps(config)) == config
    other = pickle.loads(pickle.dumps(config))
    assert other.resolved("parent").target is parent.target


def test_configs_of_other_seeds_have_equal_options():
    first, second, other = (
        plan(words).jobs[0].config for words in (["seed=0"], ["seed=1", "n_jobs=2"], ["cv=3"])
    )
    assert first.options_but_seed == second.options_but_seed != other.options_but_seed
