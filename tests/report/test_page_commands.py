"""The command of a run: composed again, it gives the run's own id and folder."""

from __future__ import annotations

import json

import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose, run_id
from kdgraph.config.composer import Composer
from kdgraph.report.page.commands import NOT_FOUND, Commands
from kdgraph.report.page.yaml_nodes import read_node

pytestmark = pytest.mark.slow

RUNS = {
    "a preset": ["dataset=spiral", "method=isotonic"],
    "a value": ["dataset=wine", "dataset.n_test=0.4", "method=kdf", "parent.n_estimators=20"],
    "a network": [
        "dataset=cc18/adult",
        "dataset.max_learn=2860",
        "network=tabular_mlp",
        "method=kdn",
        "preprocess=standardized",
    ],
    "a data set that chooses the network": [
        "dataset=cifar10",
        "method=kdn",
        "ood=dataset",
        "ood.name=svhn",
    ],
    "no preset": [
        "dataset=digits",
        "parent=extra_trees",
        "calibrator=sigmoid",
        "gate=density",
        "ood.radii=[1,2.5]",
    ],
    "a name from a path": [
        "dataset=table",
        "dataset.path='my data.csv'",
        "dataset.target=label",
        "method=kdf",
    ],
    "a metric more and one less": [
        "dataset=circle",
        "metrics.test.ece.bins=10",
        "~metrics.test.brier",
        "method=gated_isotonic",
    ],
    "fitted on test rows": ["dataset=wine", "method=isotonic", "protocol=paper"],
    "the same, no preset": [
        "dataset=cifar10",
        "protocol=paper",
        "parent=cnn",
        "calibrator=sigmoid",
        "ood.n=7",
    ],
    "figures": ["dataset=moons", "method=none", "figures=none", "metrics=published"],
}


@pytest.fixture(scope="module")
def commands():
    return Commands()


def record_of(config):
    science = json.loads(json.dumps(config.science()))
    return {"config": science, "method": config.method, "run_id": config.run_id}


@pytest.mark.parametrize("overrides", RUNS.values(), ids=RUNS)
def test_it_composes_to_the_same_run(commands, overrides):
    config = compose([*overrides, "seed=3"])
    command = commands.of(record_of(config))
    again = compose([*command.words, "seed=3"])
    assert command.note == ""
    assert (again.run_id, again.method, again.run_dir) == (
        config.run_id,
        config.method,
        config.run_dir,
    )
    assert len(command.words) <= len(overrides) + 1


def test_it_is_what_a_person_would_type(commands):
    config = compose(["dataset=wine", "method=isotonic", "parent.n_estimators=20"])
    assert commands.of(record_of(config)).words == (
        "dataset=wine",
        "method=isotonic",
        "parent.n_estimators=20",
    )


def test_it_runs_into_the_same_folder(commands, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "dataset=wine",
        "method=sigmoid",
        "parent.n_estimators=5",
        "figures=none",
        "ood=none",
        "seed=1",
    ]
    assert main(["run", "--json", *words]) == 0
    record = json.loads(capsys.readouterr().out)
    assert main(["run", "--json", *commands.of(record).words, "seed=1", "out=again"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["run_id"], again["metrics"]) == (record["run_id"], record["metrics"])
    assert (
        tmp_path / "again" / "wine" / record["method"] / record["run_id"] / "result.json"
    ).exists()


def test_a_preset_that_has_changed_since_is_told(commands):
    record = record_of(compose(["dataset=wine", "method=kdf"]))
    del record["config"]["calibrator"]["alpha"]
    record["run_id"] = run_id(record["config"])
    command = commands.of(record)
    assert command.words == ("dataset=wine", "method=kdf", "~calibrator.alpha")
    assert (
        command.note
        == "kdf has other settings in this version: the run goes to the folder random_forest-kdf,"
        " and its numbers may differ"
    )


def test_a_key_that_the_record_has_not_is_removed_though_it_is_null(commands):
    record = record_of(compose(["dataset=wine", "method=kdf"]))
    assert record["config"]["calibrator"].pop("floor", 0) is None
    record["run_id"] = run_id(record["config"])
    words = commands.of(record).words
    assert words == ("dataset=wine", "method=kdf", "++calibrator.floor=0", "~calibrator.floor")
    assert compose([*words, "seed=0"]).run_id == record["run_id"]


def test_another_id_is_told(commands):
    record = record_of(compose(["dataset=wine", "method=kdf"])) | {"run_id": "00000000"}
    assert (
        commands.of(record).note
        == "a file that it reads is not here or has changed, or kdgraph has changed: the run gets"
        " another id"
    )


def test_where_nothing_is_found_that_is_said(commands):
    record = record_of(compose(["dataset=wine", "method=kdf"]))
    record["config"]["dataset"] = {"name": "gone", "_target_": "gone.Source"}
    command = commands.of(record)
    assert (command.words, command.note) == ((), NOT_FOUND)
    assert (
        NOT_FOUND
        == "no overrides were found that compose to this config with the YAML files of this version"
    )


def test_groups_of_the_users_own_are_named(tmp_path):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.yaml").write_text(
        "defaults: [/dataset/spiral@_here_, _self_]\nname: mine\nn_train: 77\n"
    )
    config = compose(["dataset=mine", "method=kdf"], config_dir=tmp_path)
    assert Commands(tmp_path).of(record_of(config)).words[:3] == (
        "--config-dir",
        str(tmp_path),
        "dataset=mine",
    )


@pytest.mark.parametrize("group", ["detector", "recalibrator"])
@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["method=mine"], ["method=mine"]),
        (["method=mine", "{group}.level=0.2"], ["method=mine", "{group}.level=0.2"]),
        (
            ["method=mine", "{group}.level=0.2", "protocol=paper"],
            ["protocol=paper", "method=mine", "{group}.level=0.2"],
        ),
        (
            ["method=none", "{group}=mine"],
            ["calibrator=none", "{group}=mine"],
        ),  # it goes by another name than the preset
        (
            ["parent=extra_trees", "calibrator=none", "{group}=mine"],
            ["parent=extra_trees", "calibrator=none", "{group}=mine"],
        ),
    ],
)
def test_what_comes_after_the_parent_is_chosen_too(tmp_path, group, overrides, expected):
    for folder in (group, "method"):
        (tmp_path / folder).mkdir()
    (tmp_path / group / "mine.yaml").write_text("name: mine\n_target_: mine.Mine\nlevel: 0.1\n")
    chosen = (
        "[{override /parent: random_forest}, {override /calibrator: none}, {override"
        f" /{group}: mine}}]"
    )
    (tmp_path / "method" / "mine.yaml").write_text(f"# @package _global_\ndefaults: {chosen}\n")
    composed = Composer(tmp_path).run_config  # without a check: there is no such class
    config = composed(["dataset=wine", *(word.format(group=group) for word in overrides)])
    words = Commands(tmp_path).of(record_of(config)).words
    assert list(words[3:]) == [word.format(group=group) for word in expected]
    assert composed(["dataset=wine", *words[3:]]).run_id == config.run_id


def test_files_that_need_only_merging_are_read_as_hydra_composes_them():
    composer = Composer()
    alone = [
        name
        for name in composer.options("dataset")
        if (node := read_node(tuple(composer.folders), f"dataset/{name}")) and node.alone
    ]
    assert len(alone) > 50
    assert not {"table", "openml", "spiral", "cifar10", "cc18"} & set(alone)
    for name in alone[::12]:
        composed = compose([f"dataset={name}", "method=kdf"])
        assert read_node(tuple(composer.folders), f"dataset/{name}").values == composed.dataset
        assert composed.ood == compose(["dataset=wine", "method=kdf"]).ood
