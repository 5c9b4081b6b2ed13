"""One run: its numbers do not depend on the store or on cores, its record is complete, its files
are as described.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose
from kdgraph.errors import ConfigError
from kdgraph.metrics import METRICS, score
from kdgraph.persistence.archive import unpack
from kdgraph.runner.files import check_and_load
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.record import json_safe
from kdgraph.runner.run import run
from kdgraph.runner.run_dir import RunDir
from kdgraph.runner.stages import calibrate, fit, split, stage_rng
from kdgraph.runner.store import Store
from kdgraph.runner.stored_stages import stage_keys
from tests.variations import others_slow

from .conftest import TINY


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of everything there is: grid, spheres, figures; leaves of 5 rows, where sums over
    threads would differ in the last bit.
    """
    out = tmp_path_factory.mktemp("outputs")
    more = [
        "metrics=paper_grid",
        "figures=default",
        "figures.formats=[svg]",
        "figures.draw.posterior_maps.grid=20",
        "parent.min_samples_leaf=5",
        "ood.n=50",
    ]
    config = compose([*TINY, "parent.n_estimators=20", *more, f"out={out}"])
    return config, run(config)


def test_the_record_is_complete(small):
    config, record = small
    what = (
        "schema code run_id overrides experiment config_dir reads dataset parent calibrator gate detector recalibrator method"
        " method_options protocol seed config"
    )
    keys = "metrics about_metrics ood_sets learnt files store"
    assert list(record) == [
        *what.split(),
        *keys.split(),
        "seconds",
        "peak_memory_mb",
        "warnings",
        "from_store",
        "versions",
        "git",
        "host",
    ]
    assert (
        record["dataset"]["n_train"] == 86
        and record["dataset"]["n_calibration"] == 0
        and record["dataset"]["classes"] == [0, 1]
        and sum(record["dataset"]["prior"]) == 1
    )
    assert (
        set(record["seconds"])
        == {"split", "fit", "calibrate", "evaluate", "figures"}
        == set(record["peak_memory_mb"])
    )
    assert (
        record["learnt"]["calibrator"]["n_polytopes"] > 0
        and 0 <= record["learnt"]["calibrator"]["singleton_fraction"] <= 1
    )
    assert record == check_and_load((config.run_dir / "result.json").read_bytes())


def test_every_metric_is_there_for_parent_and_calibrated(small):
    config, record = small
    measured = {
        (m["metric"], m["of"], m["on"], m["params"].get("radius")) for m in record["metrics"]
    }
    assert len(measured) == len(record["metrics"])
    for of in ("parent", "calibrated"):
        assert (
            {m for m, o, on, _ in measured if on == "test" and o == of}
            == set(config.metrics["test"])
            <= set(METRICS)
        )
        assert {(m, r) for m, o, on, r in measured if on == "ood" and o == of} == {
            (m, r) for m in config.metrics["ood"] for r in (0.5, 2.0)
        }
        assert ("hellinger", of, "grid", None) in measured
    assert {m["n"] for m in record["metrics"] if m["on"] == "grid"} == {40_000}


def test_the_metrics_follow_from_the_predictions(small):
    config, record = small
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    assert frame.groupby("set").size().to_dict() == {"test": 40, "sphere": 100}
    test = frame[frame["set"] == "test"]
    proba = test[["calibrated_0", "calibrated_1"]].to_numpy()
    assert proba.dtype == np.float64
    again = {
        name: (
            score(
                name, {"y": test["y"].to_numpy(int), "proba": proba}, config.metrics["test"][name]
            ).value
        )
        for name in ("error", "nll", "ece")
    }
    stored = {
        m["metric"]: m["value"]
        for m in record["metrics"]
        if m["of"] == "calibrated" and m["on"] == "test"
    }
    assert again == {name: stored[name] for name in again}
    far = frame[frame["radius"] == 2.0]
    assert far["y"].isna().all() and len(far) == 50


def test_the_figures_are_there(small):
    config, record = small
    assert record["files"]["figures"] == [
        f"figures/{name}.svg"
        for name in (
            "posterior_maps",
            "reliability_diagram",
            "confidence_against_radius",
            "ood_scores",
        )
    ]
    assert all((config.run_dir / name).stat().st_size > 1000 for name in record["files"]["figures"])


@pytest.mark.parametrize("calibrator", others_slow(["kdf", "isotonic", "none", "matrix_scaling"]))
@pytest.mark.parametrize("gate", ["none", "density"])
def test_numbers_from_the_store_and_on_any_cores_are_equal_bits(tmp_path, calibrator, gate):
    overrides = [
        *TINY,
        "parent.n_estimators=20",
        "parent.min_samples_leaf=5",
        "ood.n=20",
        f"calibrator={calibrator}",
        f"gate={gate}",
    ]
    config = compose([*overrides, f"out={tmp_path}"])
    fresh = run(config)
    frame = (config.run_dir / "predictions.parquet").read_bytes()
    entry = Store(tmp_path / ".store", ProgressReporter()).path(
        "evaluate", stage_keys(config, split(config.dataset, 0, config.calibration))["evaluate"]
    )
    entry.unlink()
    (config.run_dir / "result.json").unlink()
    stored = run(config)
    assert stored["from_store"] == ["fit", "calibrate"]
    on_two_cores = run(replace(config, n_jobs=2, out=str(tmp_path / "other")))
    assert fresh["metrics"] == stored["metrics"] == on_two_cores["metrics"]
    assert (config.run_dir / "predictions.parquet").read_bytes() == frame


@pytest.mark.parametrize(
    ("calibrator", "gate"), [("kdf", "none"), ("isotonic", "density"), ("none", "none")]
)
def test_what_is_calibrated_is_stored_without_a_second_parent(tmp_path, calibrator, gate):
    config = compose(
        [
            *TINY,
            "parent.n_estimators=100",
            f"calibrator={calibrator}",
            f"gate={gate}",
            f"out={tmp_path}",
            "ood.n=5",
        ]
    )
    run(config)
    (calibrated,) = (tmp_path / ".store" / "calibrate").iterdir()
    document, _ = unpack(calibrated.read_bytes())
    assert "shared" in str(document["value"]) and document["trees"] is None
    assert not any(
        "sklearn.tree" in name or "sklearn.ensemble" in name for name, _ in document["classes"]
    )


def test_more_test_rows_fit_nothing_again(tmp_path):
    run(compose([*TINY, f"out={tmp_path}"]))
    assert run(compose([*TINY, f"out={tmp_path}", "dataset.n_test=30", "ood.n=30"]))[
        "from_store"
    ] == ["fit", "calibrate"]


def test_another_seed_is_another_run(tmp_path):
    first, second = (compose([*TINY, f"out={tmp_path}", f"seed={seed}"]) for seed in (0, 1))
    assert run(first)["dataset"]["fingerprint"] != run(second)["dataset"]["fingerprint"]


def test_a_parent_predicts_on_one_core_and_is_seeded():
    config = compose(TINY)
    splits = split(config.dataset, 0)
    parents = [fit(config.parent, splits.train, seed=0, n_jobs=2) for _ in range(2)]
    assert parents[0].n_jobs == 1 and isinstance(parents[0].random_state, int)
    np.testing.assert_array_equal(*(parent.predict_proba(splits.test.X) for parent in parents))


def test_a_parent_without_probabilities_is_refused():
    config = compose(TINY)
    node = {"name": "svm", "_target_": "sklearn.svm.LinearSVC"}
    what = (
        r"dataset=spiral has classes, and parent=svm predicts no probabilities \(it has no"
        r" predict_proba\)"
    )
    with pytest.raises(
        ConfigError, match=f"^{what}; choose another, such as parent=random_forest$"
    ):
        fit(node, split(config.dataset, 0).train, seed=0, n_jobs=1)


def test_calibrator_and_gate_see_the_parent_that_was_fitted():
    config = compose([*TINY, "method=gated_isotonic"])
    splits = split(config.dataset, 0)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    model = calibrate(config.after, parent, splits, seed=0, n_jobs=1)
    assert (
        list(model.post_hoc) == ["calibrator", "gate"]
        and model.post_hoc["calibrator"].estimator_.estimator is parent
    )
    assert model.post_hoc["gate"].estimator_.estimator is model.post_hoc["calibrator"]
    assert set(model.summary()) == {"gate"}


def test_a_stage_has_its_own_randomness():
    draws = {stage: stage_rng(0, stage).random() for stage in ("split", "fit", "calibrate", "ood")}
    assert (
        len(set(draws.values())) == 4
        and stage_rng(0, "fit").random() == draws["fit"] != stage_rng(1, "fit").random()
    )


def test_an_unreadable_record_is_not_done(tmp_path):
    (tmp_path / "result.json").write_text('{"schema": 1')
    assert RunDir(tmp_path).record() is None


def test_json_has_no_nan():
    assert json_safe(
        {"a": float("nan"), 1: [np.float64("inf"), np.int64(2)], "b": (np.array([1.5]), True, None)}
    ) == {
        "a": None,
        "1": [None, 2],
        "b": [[1.5], True, None],
    }
