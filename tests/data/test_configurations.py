"""The YAML of every data set and every set of rows out of distribution says what its class says."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from kdgraph.data.dataset import Simulation, Table

CONF = Path(__file__).parents[2] / "conf"
OF_THE_SPLIT = {"n_train", "n_calibration", "n_test", "scale"}
FILES = sorted([*CONF.glob("dataset/*.yaml"), *CONF.glob("ood/*.yaml")])


def node(path: Path) -> dict:
    return {key: value for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items() if key != "defaults"}


def target(path: Path):
    where, _, what = node(path)["_target_"].rpartition(".")
    return getattr(import_module(where), what)


built = pytest.mark.parametrize("path", [p for p in FILES if node(p)["_target_"]], ids=lambda p: f"{p.parent.name}-{p.stem}")


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_name_is_the_files(path):
    assert node(path)["name"] == path.stem


@built
def test_all_parameters_are_listed_with_their_defaults(path):
    listed = {key: value for key, value in node(path).items() if key not in {"name", "_target_", *OF_THE_SPLIT}}
    parameters = inspect.signature(target(path)).parameters
    assert listed.keys() == parameters.keys()
    for name, parameter in parameters.items():
        default = list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default
        assert default is inspect.Parameter.empty or listed[name] == default


@built
def test_the_node_builds_what_its_group_needs(path):
    settings = {key: value for key, value in node(path).items() if key not in {"name", "_target_", *OF_THE_SPLIT}}
    component = target(path)(**settings)
    if path.parent.name == "dataset":
        assert isinstance(component, Simulation | Table)
        assert component.name == path.stem
        assert OF_THE_SPLIT.issubset(node(path))
    else:
        assert callable(component.sets)
