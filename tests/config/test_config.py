"""Composing, sweeps, labels, run ids and the check of what components name."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from kdgraph.config import RunConfig, compose, conf_dir, plan, run_id
from kdgraph.config.components import build, check_component, resolve_option
from kdgraph.errors import ConfigError, KdgError, ParameterError
from kdgraph.runner.stages import split
from tests.variations import others_slow


@pytest.fixture(scope="module")
def default() -> RunConfig:
    return compose()


@pytest.fixture
def config_dir(tmp_path):
    """A user's folder with an experiment that is a sweep, and a file that is not YAML."""
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "small.yaml").write_text(
        "# @package _global_\n# Two data sets\ndefaults: [{override /method: isotonic}]\n"
        "hydra: {mode: MULTIRUN, sweeper: {params: {dataset: 'digits,wine', seed: 'range(0,2)'}}}\n"
    )
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "broken.yaml").write_text("name: [broken\n")
    return tmp_path


def test_the_default_run_is_kdf_on_the_spiral(default):
    assert (
        default.dataset["name"],
        default.parent["name"],
        default.calibrator["name"],
        default.method,
    ) == (
        "spiral",
        "random_forest",
        "kdf",
        "kdf",
    )


def test_the_checkout_wins_over_a_copy_in_the_package():
    assert (conf_dir() / "config.yaml").read_text().startswith("#")


def test_n_jobs_force_and_out_do_not_change_the_run_id(default):
    assert compose(["n_jobs=1", "force=true", "out=elsewhere"]).run_id == default.run_id


@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        "dataset.noise_std=0.3",
        "parent.n_estimators=100",
        "metrics.test.ece.bins=10",
        "figures=none",
    ],
)
def test_the_science_changes_the_run_id(default, override):
    assert compose([override]).run_id != default.run_id


TABLE = "{{name: other, _target_: kdgraph.data.tables.TableFile, path: {file}, target: label}}"


@pytest.mark.parametrize(
    "reads",
    [
        ["dataset=table", "dataset.path={file}", "dataset.target=label"],
        ["ood=dataset", "ood.name=iris", "ood.source=" + TABLE],
    ],
    ids=["dataset", "ood"],
)
def test_another_content_of_the_file_is_another_run(tmp_path, reads):
    file = tmp_path / "my.csv"
    overrides = [word.format(file=file) for word in reads]
    ids = []
    for content in ("x,label\n1,a\n2,b\n", "x,label\n1,a\n3,b\n", "x,label\n1,a\n2,b\n"):
        file.write_text(content)
        os.utime(file, ns=(len(ids), len(ids)))  # a file system may keep times in seconds
        ids.append(plan(overrides).jobs[0].config.run_id)
    assert ids[0] == ids[2] != ids[1]
    file.unlink()
    assert (
        plan(overrides).jobs[0].config.run_id not in ids
    )  # composing needs no file; the run reports that it is missing


def test_the_run_id_is_of_the_science_alone(default):
    science = default.science()
    assert (
        run_id({**science, "n_jobs": 3})
        == run_id(dict(reversed(science.items())))
        == default.run_id
    )
    assert len(default.run_id) == 8
    assert default.run_dir.parts == ("outputs", "spiral", "kdf", default.run_id)


@pytest.mark.parametrize(
    ("overrides", "method"),
    others_slow(
        [
            (["method=isotonic"], "isotonic"),
            (["method=isotonic", "seed=3", "dataset=wine"], "isotonic"),
            (["calibrator=isotonic"], "random_forest-isotonic"),
            (["parent.n_estimators=7"], "kdf"),
            (["method=gated_isotonic", "parent=extra_trees"], "extra_trees-isotonic-density"),
            (["method=kdn"], "kdn"),
            (["method=kdn", "network=cnn"], "kdn"),
            (["method=kdn", "parent=mlp"], "kdn"),
            (["method=kdn", "parent=cnn"], "cnn-kdn"),
            (["method=kdn", "parent.hidden=[50]"], "kdn"),
            (["dataset=shapes"], "kdn"),
            (["dataset=shapes", "network=mlp"], "kdn"),
            (["dataset=shapes", "parent=mlp"], "mlp-kdn"),
            (["dataset=shapes", "method=network_gated_temperature"], "network_gated_temperature"),
            (["dataset=shapes", "calibrator=temperature"], "cnn-temperature"),
        ]
    ),
)
def test_a_method_is_called_by_its_preset_only_while_untouched(overrides, method):
    assert plan(overrides).jobs[0].config.method == method


@pytest.mark.parametrize(
    ("overrides", "parent"),
    [
        (["method=kdn"], "mlp"),
        (["method=kdn", "network=cnn"], "cnn"),
        (["dataset=shapes"], "cnn"),
        (["dataset=shapes", "network=mlp"], "mlp"),
        (["dataset=shapes", "method=network_temperature"], "cnn"),
        (["dataset=shapes", "parent=resnet"], "resnet"),
        (["dataset=shapes", "method=kdf"], "random_forest"),
    ],
)
def test_a_method_on_a_network_takes_the_network_that_was_chosen(overrides, parent):
    config = plan(overrides).jobs[0].config
    assert config.parent["name"] == parent
    assert config.run_dir.parts[1:3] == (config.dataset["name"], config.method)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["method=kdf", "network=lenet"],
            "network=lenet is used by no part of method=kdf; choose a method on a network, such as"
            " method=kdn, or parent=lenet",
        ),
        (
            ["network=mlp"],  # the default network, which is without effect too
            "network=mlp is used by no part of method=kdf; choose a method on a network, such as"
            " method=kdn, or parent=mlp",
        ),
        (
            ["method=mlp_gamma", "network=mlp", "dataset=heteroscedastic"],
            "network=mlp is used by no part of method=mlp_gamma; choose a method on a network, such"
            " as method=kdn, or parent=mlp",
        ),
        (
            ["method=kdn", "parent=mlp", "network=lenet"],
            "network=lenet has no effect beside parent=mlp; leave one of them out",
        ),
        (
            ["method=kdf,isotonic", "network=mlp,lenet"],
            "network=mlp is used by no part of method=kdf; choose a method on a network, such as"
            " method=kdn, or parent=mlp",
        ),
    ],
)
def test_a_network_that_nothing_uses_is_refused(overrides, message):
    with pytest.raises(ConfigError) as caught:
        plan(overrides, multirun=any("," in override for override in overrides))
    assert str(caught.value) == message


def test_tables_and_simulations_have_the_same_limit_of_rows():
    jobs = plan(
        ["dataset=spiral,wine", "dataset.n_train=null", "dataset.max_learn=100"], multirun=True
    ).jobs
    splits = [split(job.config.dataset, 0) for job in jobs]
    assert [(len(rows.train.y), len(rows.calibration.y)) for rows in splits] == [(70, 30)] * 2


def test_in_a_sweep_one_method_on_the_network_suffices():
    jobs = plan(["method=kdf,kdn", "network=lenet"], multirun=True).jobs
    assert [job.config.parent["name"] for job in jobs] == ["random_forest", "lenet"]


def test_in_a_sweep_each_data_set_has_its_own_network():
    jobs = plan(["dataset=spiral,shapes", "method=kdn"], multirun=True).jobs
    assert [(job.config.parent["name"], job.config.method) for job in jobs] == [
        ("mlp", "kdn"),
        ("cnn", "kdn"),
    ]


def test_a_choice_on_the_command_line_wins_over_the_preset():
    assert (
        plan(["calibrator=isotonic", "method=kdf"]).jobs[0].config.calibrator["name"] == "isotonic"
    )


def test_a_sweep_is_expanded_in_the_order_of_hydra():
    planned = plan(["dataset=wine,iris", "seed=range(0,2)", "n_jobs=1"], multirun=True)
    assert [(job.config.dataset["name"], job.config.seed) for job in planned.jobs] == [
        ("wine", 0),
        ("wine", 1),
        ("iris", 0),
        ("iris", 1),
    ]
    assert planned.jobs[1].swept == {"dataset": "wine", "seed": "1"}
    assert planned.multirun and planned.parallel
    assert not plan(["seed=0,1", "hydra/launcher=basic"], multirun=True).parallel


def test_a_run_in_a_sweep_has_the_same_directory_as_alone():
    inside = plan(["dataset=wine,iris", "seed=0,1"], multirun=True).jobs[3].config
    assert inside.run_dir == plan(["dataset=iris", "seed=1"]).jobs[0].config.run_dir


def test_an_experiment_may_be_a_sweep_and_the_command_line_wins(config_dir):
    planned = plan(["experiment=small", "seed=5"], config_dir=config_dir)
    assert planned.multirun
    assert [
        (job.config.dataset["name"], job.config.seed, job.config.method) for job in planned.jobs
    ] == [
        ("digits", 5, "isotonic"),
        ("wine", 5, "isotonic"),
    ]


def test_a_parallel_launcher_is_recognised():
    planned = plan(["seed=0,1", "hydra/launcher=processes"], multirun=True)
    assert planned.parallel


def test_a_user_file_that_is_not_yaml_is_named(config_dir):
    with pytest.raises(ConfigError, match=r"broken\.yaml.*, line 2: not YAML"):
        compose(["parent=broken"], config_dir)


def test_compose_takes_no_sweep(config_dir):
    with pytest.raises(ConfigError, match="one run is wanted here, got a sweep of 4"):
        compose(["experiment=small"], config_dir)


def test_build_injects_only_what_the_class_takes():
    frozen = object()
    calibrator = build(
        {"name": "none", "_target_": "kdgraph.calibration.Uncalibrated"},
        estimator=frozen,
        random_state=3,
        n_jobs=2,
    )
    assert (calibrator.estimator, calibrator.random_state) == (frozen, 3)
    assert build({"name": "none", "_target_": None}, estimator=frozen) is None


class Needy:
    def __init__(self, size: int) -> None:
        self.size = size


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            None,
            "parent must be the name of one of its options, got None; 'kdg list parent' shows them",
        ),
        (
            {"name": "a/b", "_target_": None},
            "parent.name must be made of letters, digits, '_', '-' and '.', got 'a/b'",
        ),
        (
            {"name": "a", "_target_": "no_such.Thing"},
            "parent._target_: cannot import 'no_such.Thing' (No module named 'no_such')",
        ),
        (
            {"name": "a", "_target_": "{here}.Needy"},
            "parent.size is missing, and {here}.Needy has no default for it; add +parent.size=…",
        ),
        (
            {"name": "a", "_target_": "{here}.Needy", "size": "x"},
            "parent.size must be an integer, got 'x'",
        ),
        (
            {"name": "a", "_target_": "{here}.Needy", "size": 1, "siz": 1},
            "unknown key 'parent.siz'; did you mean 'parent.size'?",
        ),
    ],
)
def test_a_component_that_cannot_be_built_is_one_line(node, message, monkeypatch):
    import sys
    from types import ModuleType

    module = ModuleType("needy_parts")
    module.Needy = Needy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "needy_parts", module)
    if node and node["_target_"]:
        node = {**node, "_target_": node["_target_"].format(here="needy_parts")}
    with pytest.raises(KdgError) as caught:
        check_component("parent", resolve_option("parent", node))
    assert str(caught.value).startswith(message.format(here="needy_parts"))


def test_plain_values_are_checked(default):
    with pytest.raises(ParameterError, match=r"seed must be in \[0, inf\), got -1"):
        replace(default, seed=-1)


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("seed=range(0,0)", "a sweep needs one value or more"),
        ("dataset=glob(spyral*)", "'kdg list dataset' shows what there is"),
    ],
)
def test_sweeps_without_values_are_refused(word, advice):
    message = f"'{word}' matches nothing; {advice}"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        plan([word], multirun=True)


def test_group_without_a_name_is_refused_with_its_list_command():
    with pytest.raises(
        ConfigError, match=r"^dataset has no name; 'kdg list dataset' shows its options$"
    ):
        compose(["dataset="])


def test_key_of_swept_tables_is_not_required_of_the_default(default):
    """``rare`` is a key of tables; the default data set, a simulation, has no such key."""
    jobs = plan(["dataset=wine,iris", "dataset.rare=drop", "seed=range(0,2)"], multirun=True).jobs
    assert [
        (job.config.dataset["name"], job.config.dataset["rare"], job.config.seed) for job in jobs
    ] == [(name, "drop", seed) for name in ("wine", "iris") for seed in range(2)]


@pytest.mark.slow
def test_sweep_points_compose_like_single_runs():
    overrides = [
        "dataset=wine,digits",
        "method=kdf,isotonic",
        "parent.n_estimators=5,7",
        "seed=range(0,2)",
    ]
    for job in plan(overrides, multirun=True).jobs:
        alone = [f"dataset={job.config.dataset['name']}", f"method={job.swept['method']}"]
        alone += [
            f"parent.n_estimators={job.config.parent['n_estimators']}",
            f"seed={job.config.seed}",
        ]
        assert job.config == plan(alone).jobs[0].config


def test_a_key_may_be_deleted_in_a_sweep_and_alone():
    alone = plan(["dataset=wine", "~parent.criterion"]).jobs[0].config
    swept = plan(["dataset=wine", "~parent.criterion", "seed=0,1"], multirun=True).jobs[0].config
    assert "criterion" not in alone.parent and alone == swept
    assert (
        plan(["dataset=wine", "parent.criterion=entropy", "~parent.criterion"]).jobs[0].config
        == alone
    )
