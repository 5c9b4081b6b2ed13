"""Every YAML file of conf/: it composes, passes the typed check, and says what its class says."""

from __future__ import annotations

import inspect

import pytest
import yaml

from kdgraph.components import INJECTED, parameters_of, target_of
from kdgraph.config import compose, conf_dir, plan
from kdgraph.report.options import first_comment
from kdgraph.run_config import COMPONENTS, check

FILES = sorted(path for path in conf_dir().rglob("*.yaml") if path.name != "config.yaml")
IDS = [path.relative_to(conf_dir()).with_suffix("").as_posix() for path in FILES]
NEEDS = {"metrics/posterior": ["dataset=spiral"]}
"""Options that fit only together with others."""


COMPONENT_FILES = [path for path in FILES if path.parent.name in COMPONENTS]
COMPONENT_IDS = [name for path, name in zip(FILES, IDS, strict=True) if path in COMPONENT_FILES]


@pytest.mark.parametrize(("path", "name"), list(zip(FILES, IDS, strict=True)), ids=IDS)
def test_it_composes_and_passes_the_check(path, name):
    group, _, option = name.partition("/")
    planned = plan([*NEEDS.get(name, []), f"{group}={option}", *_one_value_each(path)])
    for job in planned.jobs:
        check(job.config)


def _one_value_each(path) -> list[str]:
    """Of the values that a sweep gives a number or a word, one: options of groups compose differently, values do not."""
    swept = ((yaml.safe_load(path.read_text()) or {}).get("hydra") or {}).get("sweeper", {}).get("params", {})
    values = {key: str(given).split(",")[0] for key, given in swept.items() if "." in key}
    return [f"{key}={value}" for key, value in values.items()] + (["seed=0"] if "seed" in swept else [])


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_it_begins_with_a_line_for_kdg_list(path):
    assert first_comment(path), f"{path} needs a first comment: 'kdg list' shows it"


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_its_name_is_the_name_of_the_file(path):
    assert yaml.safe_load(path.read_text())["name"] == path.stem


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_it_lists_every_parameter_of_its_class(path):
    node = yaml.safe_load(path.read_text())
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("the parameters of other libraries are theirs to grow")
    expected = set(parameters_of(target)) - INJECTED
    assert expected <= set(node), f"not listed: {expected - set(node)}"


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_what_it_lists_are_the_defaults_of_its_class(path):
    node = yaml.safe_load(path.read_text())
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("other libraries' defaults are not ours")
    for key, parameter in parameters_of(target).items():
        default = parameter.default
        if key in node and default is not inspect.Parameter.empty and path.parent.name != "method" and not _chooses(path, key):
            listed = tuple(node[key]) if isinstance(node[key], list) else node[key]
            assert listed == (tuple(default) if isinstance(default, list) else default), key


def _chooses(path, key) -> bool:
    """A file whose purpose is that value: options that share a class and differ in this parameter."""
    target = yaml.safe_load(path.read_text())["_target_"]
    others = [yaml.safe_load(other.read_text()) for other in path.parent.glob("*.yaml") if other != path]
    here = yaml.safe_load(path.read_text())[key]
    return any(other["_target_"] == target and other.get(key) != here for other in others)


def test_the_default_config_is_complete():
    config = compose()
    assert all(getattr(config, part) for part in (*COMPONENTS, "metrics", "figures"))
