"""Finished runs in MLflow and Weights & Biases, by the real libraries, without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdgraph.runner.tracking import LOGGED, dotted, flat_metrics, log_runs

from .conftest import wait_until

TINY = ("dataset=iris", "parent.n_estimators=5", "ood.n=20", "ood.radii=[2]", "n_jobs=1")
SWEEP = ("-m", *TINY, "method=isotonic", "seed=0,1", "figures=top_label", "figures.formats=[svg]")
TRACKERS = ("mlflow", "wandb")
HEADER_BYTES = 7
"""Length of a file of an offline run of wandb before its first message."""


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    """Hide the trackers' variables of the user."""
    for name in [name for name in os.environ if name.startswith(("MLFLOW_", "WANDB_"))]:
        monkeypatch.delenv(name)


def run_dirs(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob("[!.]*/*/*/result.json"))


def records_of(out: Path) -> list[dict]:
    return [json.loads((folder / "result.json").read_bytes()) for folder in run_dirs(out)]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_named_before_anything_runs(kdg, tmp_path, monkeypatch, name):
    monkeypatch.setattr("kdgraph.extras.find_spec", lambda library: None)
    code, _, err = kdg("run", *TINY, f"logger={name}")
    assert (code, err) == (2, f"kdg: logger={name} needs {name}: pip install 'kdgraph[{name}]'\n")
    assert not (tmp_path / "outputs").exists()


def test_an_unknown_tracker_is_refused(kdg):
    code, _, err = kdg("run", *TINY, "logger=mlfow")
    assert code == 2
    assert err == "kdg: logger must be one of mlflow, wandb or null, got 'mlfow'\n"


def test_a_logger_changes_no_run(kdg, tmp_path):
    from kdgraph.config import compose

    plain, logged = compose([*TINY]), compose([*TINY, "logger=mlflow"])
    assert plain.run_id == logged.run_id and "logger" not in logged.science()
    assert logged.origin.overrides == plain.origin.overrides


def test_names_of_metrics_are_distinct(kdg, tmp_path):
    assert kdg("run", *SWEEP)[0] == 0
    (record, _) = records_of(tmp_path / "outputs")
    numbers = flat_metrics(record)
    values = [row["value"] for row in record["metrics"] if row["value"] is not None]
    errors = [row["stderr"] for row in record["metrics"] if row["stderr"] is not None]
    assert len(numbers) == len(values) + len(errors) + len(record["seconds"])
    assert {"parent/test/ece", "calibrated/ood/sphere/radius=2/mmc"} <= set(numbers)
    assert dotted(record["config"])["parent.n_estimators"] == 5


def test_mlflow_has_the_numbers_of_the_record_and_each_run_once(kdg, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    code, _, err = kdg("run", *SWEEP, "logger=mlflow")
    place = (tmp_path / "outputs" / ".mlruns").as_uri()
    assert code == 0 and f"kdg: 2 runs logged: mlflow {place} kdgraph\n" in err
    client = mlflow.MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("kdgraph")
    runs = client.search_runs([experiment.experiment_id])
    by_id = {run.data.tags["kdgraph.run_id"]: run for run in runs}
    records = records_of(tmp_path / "outputs")
    assert set(by_id) == {record["run_id"] for record in records} and len(runs) == 2
    for record, folder in zip(records, run_dirs(tmp_path / "outputs"), strict=True):
        run = by_id[record["run_id"]]
        assert run.info.status == "FINISHED"
        expected = {key.replace("=", ":"): value for key, value in flat_metrics(record).items()}
        assert run.data.metrics == pytest.approx(expected, rel=1e-15)
        assert run.data.params["parent.n_estimators"] == "5"
        assert run.data.params["seed"] == str(record["seed"])
        assert run.data.tags["kdgraph.overrides"] == " ".join(record["overrides"])
        stored = Path(client.download_artifacts(run.info.run_id, ""))
        assert (stored / "result.json").read_bytes() == (folder / "result.json").read_bytes()
        assert (stored / "figures" / "reliability_diagram.svg").is_file()
    code, _, err = kdg("run", *SWEEP, "logger=mlflow")
    assert code == 0 and "kdg: 2 runs logged, 2 of them before: " in err
    assert len(client.search_runs([experiment.experiment_id])) == 2
    code, out, _ = kdg("table")
    assert code == 0 and out.splitlines()[-1].startswith("2 runs: ")  # copies of records are none


def offline_messages(path: Path) -> Iterator[bytes]:
    """Yield the messages of an offline run, which is a log of LevelDB behind seven bytes.

    A block of 32 kB holds records of a header (checksum, length, kind) and data; kind 1 is a whole
    message, and 2, 3 and 4 are the first, a middle and the last part of one.
    """
    content, position, message = path.read_bytes(), HEADER_BYTES, b""
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:
            position += 32768 - position % 32768
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        message += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield message
            message = b""


def test_weights_and_biases_has_the_numbers_of_the_record_offline(kdg, tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed")
    messages = importlib.import_module("wandb.proto.wandb_internal_pb2")
    monkeypatch.setenv("HOME", str(tmp_path))  # no login of the user is read
    code, _, err = kdg("run", *SWEEP, "logger=wandb")
    assert code == 0 and "kdg: 2 runs logged: wandb offline kdgraph " in err
    folder = tmp_path / "outputs" / ".wandb" / "wandb"
    records = {record["run_id"]: record for record in records_of(tmp_path / "outputs")}
    stored = sorted(folder.glob("offline-run-*/*.wandb"))
    assert len(stored) == 2
    # The process of wandb that writes a file may do so after the command has ended.
    wait_until(lambda: all(path.stat().st_size > HEADER_BYTES for path in stored))
    for path in stored:
        summary, config = {}, {}
        for content in offline_messages(path):
            message = messages.Record()
            message.ParseFromString(content)
            for item in message.summary.update:
                summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            for item in message.run.config.update:
                config[item.key] = json.loads(item.value_json)
        record = records[config["kdgraph"]["run_id"]]
        numbers = flat_metrics(record)
        assert {key: summary[key] for key in numbers} == pytest.approx(numbers, rel=1e-15)
        assert config["parent.n_estimators"] == 5
        assert (path.parent / "files" / "run" / "result.json").is_file()
    code, _, err = kdg("run", *SWEEP, "logger=wandb")
    assert code == 0 and "kdg: 2 runs logged, 2 of them before: " in err
    assert len(list(folder.glob("offline-run-*"))) == 2


def test_a_changed_record_is_logged_again(kdg, tmp_path, monkeypatch):
    assert kdg("run", *SWEEP)[0] == 0
    out = tmp_path / "outputs"
    logged: list[str] = []

    def tracker(folder):
        assert folder == out.resolve()
        return "place", lambda entry: logged.append(entry.tags["run_id"])

    monkeypatch.setattr("kdgraph.runner.tracking._TRACKERS", {"mlflow": tracker})
    runs = list(zip(run_dirs(out), records_of(out), strict=True))
    assert log_runs("mlflow", runs) == ("place", 2) and log_runs("mlflow", runs) == ("place", 0)
    (runs[0][0] / "result.json").write_bytes(b"{}")
    (runs[1][0] / LOGGED).write_bytes(b"damaged \xff")
    assert log_runs("mlflow", runs) == ("place", 2) and len(logged) == 4


def test_a_failing_tracker_loses_no_run(kdg, tmp_path, monkeypatch):
    def tracker(folder):
        raise ConnectionError("no answer from http://tracker\nsecond line")

    monkeypatch.setattr("kdgraph.runner.tracking._TRACKERS", {"mlflow": tracker})
    monkeypatch.setattr("kdgraph.runner.tracking.check_tracker", lambda name: None)
    code, out, err = kdg("run", *SWEEP, "logger=mlflow")
    assert code == 1 and "2 runs in outputs" in out
    assert (
        "kdg: logger=mlflow: no answer from http://tracker; the runs are stored, and the same"
        " command logs them\n" in err
    )
    assert len(run_dirs(tmp_path / "outputs")) == 2
