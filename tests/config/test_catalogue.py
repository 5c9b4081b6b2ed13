"""Catalogue of conf/: tasks, keys, numbers of OpenML."""

from __future__ import annotations

import pytest

from kdgraph.config import check, compose, conf_dir
from kdgraph.config.catalogue import (
    GROUPS,
    REPAIRED,
    TASKS,
    Catalogue,
    first_comment,
    flat,
    read_component,
)
from kdgraph.config.yaml_files import load_yaml
from kdgraph.errors import ConfigError

CATALOGUE = Catalogue([conf_dir()])
ON_NETWORKS = [
    name
    for name, path in CATALOGUE.groups["method"].items()
    if not name.startswith("paper/")
    and {"override /parent": "${network}"} in load_yaml(path).get("defaults", [])
]
"""Methods whose parent is the network that was chosen, trained as usual."""
assert len(ON_NETWORKS) > 20


def test_every_group_has_a_purpose_and_the_order_of_the_overview():
    assert list(CATALOGUE.groups) == [group for group in GROUPS if group in CATALOGUE.groups]
    assert max(map(len, GROUPS.values())) <= 60


def test_every_method_and_calibrator_has_a_task():
    for group in ("method", "calibrator"):
        for option in CATALOGUE.groups[group]:
            assert CATALOGUE.task(group, option) in TASKS


@pytest.mark.parametrize("method", ["kdf", "isotonic", "sts", "lore", "knn", "kdn", "local_pit"])
def test_the_class_of_a_component_is_that_of_the_composed_config(method):
    config = compose([f"method={method}"] + ["dataset=heteroscedastic"] * (method == "local_pit"))
    choices = CATALOGUE.method_choices(method)
    for group in ("parent", "calibrator", "detector", "recalibrator"):
        if group in choices:
            component = CATALOGUE.component(group, choices[group])
            node = getattr(config, group)
            assert component.target == (node["_target_"] or "")
            assert {key.partition(".")[0] for key in component.keys} == set(node) - {
                "name",
                "_target_",
            }


@pytest.mark.parametrize("method", [name for name in ON_NETWORKS if name.startswith("network_")])
def test_method_without_network_prefix_is_on_a_forest(method):
    on_network, on_forest = (
        str(load_yaml(CATALOGUE.groups["method"][name]))
        for name in (method, method.removeprefix("network_"))
    )
    as_on_forest = on_network.replace("${network}", "random_forest").replace("network_", "")
    assert as_on_forest == on_forest


@pytest.mark.parametrize(
    "method", [name for name in ON_NETWORKS if not name.startswith("network_")]
)
def test_network_methods_are_refused_on_forests(method):
    with pytest.raises(ConfigError, match="needs the partition of a network, and parent=random_fo"):
        check(compose([f"method={method}", "parent=random_forest"]))


def test_keys_of_nodes_are_flat_and_their_values_yaml():
    node = {"a": 1.0e-9, "b": {"c": None, "d": {}}, "e": [True, "x"], "f": "${seed}"}
    assert flat(node) == {
        "a": "1.0e-09",
        "b.c": "null",
        "b.d": "{}",
        "e": "[true, x]",
        "f": "'${seed}'",
    }


def test_a_file_takes_over_the_keys_of_its_bases(tmp_path):
    folder = tmp_path / "parent"
    folder.mkdir()
    (folder / "_net.yaml").write_text("_target_: m.Net\na: 1\nb: {c: 1}\ne: {f: 1, g: 2}\n")
    (folder / "net.yaml").write_text(
        "# A net\ndefaults: [_net, /parent/_extra@extra, _self_]\nname: net\na: 2\nb: null\n"
        "e: {g: 3}\n"
    )
    (folder / "_extra.yaml").write_text("_target_: m.Extra\nd: 3\n")
    component = read_component(folder / "net.yaml", [tmp_path])
    assert component.target == "m.Net"
    assert component.keys == {
        "a": "2",
        "b": "null",
        "e.f": "1",
        "e.g": "3",
        "extra._target_": "m.Extra",
        "extra.d": "3",
    }


def test_summaries_are_first_comments(tmp_path):
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "x.yaml").write_text("# A gate\nalpha: 1\n")
    (tmp_path / "gate" / "y.yaml").write_text("alpha: 1\n")
    catalogue = Catalogue([tmp_path])
    assert catalogue.summaries({"gate": "x", "ood": "none"}) == {"gate": "A gate"}
    assert catalogue.summaries({"gate": "y"}) == {}


def test_the_first_comment_is_no_directive(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("# @package _global_\nname: x  # behind a key\n#  Two words \n# More\n")
    assert first_comment(path) == "Two words"
    path.write_text("name: x\n")
    assert first_comment(path) == ""


def test_numbers_of_openml_are_of_a_file_or_of_its_base(tmp_path):
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "_base.yaml").write_text("id: 7\n")
    (folder / "a.yaml").write_text("defaults: [_base, _self_]\nname: a\n")
    (folder / "b.yaml").write_text("id: 8\nname: b\n")
    (folder / "c.yaml").write_text("name: c\n")
    assert Catalogue([tmp_path]).openml_ids() == {"_base": 7, "a": 7, "b": 8}
    (folder / "d.yaml").write_text("a: [\n")
    with pytest.raises(ConfigError, match=r"d\.yaml"):
        Catalogue([tmp_path]).openml_ids()


def test_methods_that_kdg_check_compares_are_marked_in_their_files(tmp_path):
    scores = ["temperature", "sigmoid", "isotonic"]
    gated = [f"gated_{name}" for name in scores]
    repairs = CATALOGUE.repairs()
    assert list(repairs) == [*scores, "group_temperature", *gated, "kdf", "kdn"]
    assert {use: [name for name in repairs if repairs[name] == use] for use in REPAIRED} == {
        "any model": [*scores, *gated],
        "groups of rows": ["group_temperature"],
        "trees": ["kdf"],
        "a network": ["kdn"],
    }
    (tmp_path / "method").mkdir()
    file = tmp_path / "method" / "custom.yaml"
    file.write_text("# Custom\n# place in kdg check: 2, for trees\ndefaults: []\n")
    repairs = Catalogue([conf_dir(), tmp_path]).repairs()
    assert (list(repairs)[1], repairs["custom"]) == ("custom", "trees")
    file.write_text("# place in kdg check: 2, for forests\n")
    with pytest.raises(ConfigError, match=r"for one of any model, .*, got 'forests'"):
        Catalogue([conf_dir(), tmp_path]).repairs()
