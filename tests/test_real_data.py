"""Complete runs on real data; without a cache of openml.org they are skipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from tests.openml_data import require_cached

BY_ID = ["dataset=openml", "dataset.id=44"]
allow_copies_warning = pytest.mark.filterwarnings(
    "default:.* have the features of another row:UserWarning"
)


def run_record(capsys, tmp_path: Path, *overrides: str) -> dict:
    """Return the record of ``kdg run``, after a check that its figures exist."""
    assert main(["run", "--json", *overrides, f"out={tmp_path}"]) == 0, capsys.readouterr().err
    record = json.loads(capsys.readouterr().out)
    folder = next(tmp_path.glob(f"*/*/{record['run_id']}"))
    assert record["files"]["figures"] and all(
        (folder / name).stat().st_size > 1000 for name in record["files"]["figures"]
    )
    return record


def value(record: dict, metric: str, component: str, rows: str = "test", **params: float) -> float:
    (metric_value,) = [
        m["value"]
        for m in record["metrics"]
        if (m["metric"], m["of"], m["on"], m["params"]) == (metric, component, rows, params)
    ]
    return metric_value


@allow_copies_warning
def test_openml_table(capsys, tmp_path):
    require_cached(44)
    record = run_record(
        capsys,
        tmp_path,
        *BY_ID,
        "method=kdf",
        "parent.n_estimators=60",
        "dataset.max_learn=1000",
        "ood.radii=[1,3]",
        "ood.n=100",
    )
    assert record["dataset"]["n_features"] == 57 and record["dataset"]["source"]["id"] == 44
    assert (record["dataset"]["n_train"], record["dataset"]["n_calibration"]) == (1000, 0)
    assert [warning["stage"] for warning in record["warnings"]] == ["split"]
    assert (
        value(record, "error", "calibrated") < 0.1
    )  # Dey et al.'s implementation has .057 at 3,600 rows
    assert value(record, "nll", "calibrated") < value(record, "nll", "parent")
    assert (
        value(record, "oce", "calibrated", rows="ood", radius=3.0)
        < 1e-3
        < value(record, "oce", "parent", rows="ood", radius=3.0)
    )


@allow_copies_warning
def test_table_with_categories_and_missing_values(capsys, tmp_path):
    require_cached(1480)
    dataset = ["dataset=openml", "dataset.id=1480", "ood.radii=[3]", "ood.n=100"]
    record = run_record(
        capsys, tmp_path, *dataset, "method=gated_isotonic", "parent.n_estimators=60"
    )
    assert (
        record["dataset"]["n_categorical"] == 1 and 0 < record["dataset"]["missing_fraction"] < 0.01
    )
    assert value(record, "oce", "calibrated", rows="ood", radius=3.0) < 1e-3


def test_images_in_the_official_split(capsys, tmp_path):
    require_cached(554)
    sizes = ["dataset.n_train=600", "dataset.n_test=300", "parent.max_epochs=4", "ood.n=100"]
    record = run_record(capsys, tmp_path, "dataset=mnist", "method=kdn", *sizes)
    assert record["dataset"]["shape"] == [1, 28, 28] and record["dataset"]["n_test"] == 300
    assert value(record, "error", "calibrated") < 0.3  # 4 epochs of 600 images; chance is .9
    noise = value(record, "mmc", "calibrated", rows="ood")
    assert noise < value(record, "mmc", "parent", rows="ood") and noise < value(
        record, "mmc", "calibrated"
    )
