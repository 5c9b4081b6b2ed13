"""The runs of an experiment, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.common.runs import expected, runs_of, swept_numbers
from experiments.p1.versions import version_of
from kdgraph.config import Origin, plan
from tests.experiments.p1_runs import SIMULATIONS, write

pytestmark = pytest.mark.slow


def test_runs_of_an_experiment_are_the_points_of_its_sweep(tmp_path, configs) -> None:
    others = plan(["dataset=spiral", "method=kdf,kdn", "seed=0"], multirun=True).jobs
    for config in [*configs, *(job.config for job in others)]:
        write(tmp_path, config)
    assert len(configs) == 16
    result = runs_of(SIMULATIONS, tmp_path)
    assert {
        (
            r["parent"],
            r["seed"],
            version_of(r["config"]["calibrator"]),
            r["config"]["calibrator"]["distance"],
        )
        for r in result
    } == {
        (parent, seed, variant, distance)
        for parent in ("random_forest", "mlp")
        for seed in (0, 1)
        for variant in ("kdgraph", "figure1")
        for distance in ("geodesic", "euclidean")
    }
    assert len(result) == 16
    assert expected(SIMULATIONS) == 2400


def test_a_key_that_is_free_may_differ(tmp_path) -> None:
    small = plan(
        [
            f"experiment={SIMULATIONS}",
            "dataset=spiral",
            "method=kdn",
            "parent.hidden=[9]",
            "seed=0",
            "dataset.n_train=50",
        ]
    ).jobs
    write(tmp_path, small[0].config)
    assert runs_of(SIMULATIONS, tmp_path) == []
    assert len(runs_of(SIMULATIONS, tmp_path, free=["parent.hidden"])) == 1


def test_a_run_of_another_command_is_found_by_its_id(tmp_path) -> None:
    point = ["dataset=spiral", "method=kdf", "figures=none", "seed=3", "+ood.more=1"]
    (job,) = plan(["experiment=bench/simulations", *point[:2], "seed=3"]).jobs
    config = job.config
    write(tmp_path, replace(config, origin=Origin(tuple(point), None)))
    assert len(runs_of("bench/simulations", tmp_path)) == 1
    (other,) = plan(["experiment=bench/simulations", *point[:2], "seed=30"]).jobs
    write(tmp_path, replace(other.config, origin=Origin(tuple(point), None)))
    assert len(runs_of("bench/simulations", tmp_path)) == 1


def test_swept_numbers_are_keys_that_are_no_groups() -> None:
    assert set(swept_numbers(SIMULATIONS)) == {
        "seed",
        "dataset.n_train",
        "calibrator.distance",
    }


def test_an_experiment_inherits_the_sweep_of_its_base() -> None:
    assert swept_numbers("paper/p4/crime_long") == swept_numbers("paper/p4/crime") == ["seed"]
    assert expected("paper/p4/crime_long") == expected("paper/p4/crime") == 19 * 60
