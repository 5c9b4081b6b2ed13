"""``model/`` of a run: the store's files under other names, which stay when the store goes."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from kdgraph.config import compose
from kdgraph.persistence import load
from kdgraph.runner import run_dir
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.prediction.predict import load_run
from kdgraph.runner.run import run
from kdgraph.runner.run_dir import RunDir
from kdgraph.runner.stages import split
from kdgraph.runner.store import Store, trusted_packages
from tests.runner.conftest import Notes

from .conftest import TINY

FILES = ["model/parent.kdg", "model/calibrated.kdg", "model/schema.json"]


def test_a_run_keeps_links_to_the_stores_files(tmp_path):
    config = compose([*TINY, f"out={tmp_path}"])
    record = run(config)
    assert record["files"]["model"] == FILES
    for stage, name in (("fit", "parent"), ("calibrate", "calibrated")):
        entry, linked = (
            tmp_path / ".store" / record["store"][stage],
            config.run_dir / "model" / f"{name}.kdg",
        )
        assert entry.samefile(linked)
    assert not list(config.run_dir.rglob(".*.tmp")) and not (config.run_dir / "pins.json").exists()


@pytest.mark.parametrize("calibrator", ["kdf", "isotonic"])
def test_run_moved_from_its_store_predicts_the_same(tmp_path, calibrator):
    config = compose([*TINY, f"calibrator={calibrator}", f"out={tmp_path / 'outputs'}"])
    run(config)
    X = split(config.dataset, 0).test.X
    expected = load(config.run_dir / "model" / "calibrated.kdg").predict_proba(X)
    shutil.copytree(config.run_dir, tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "outputs")
    np.testing.assert_array_equal(load_run(tmp_path / "elsewhere").model.predict_proba(X), expected)


def test_two_methods_share_the_parents_file(tmp_path):
    configs = [
        compose([*TINY, f"calibrator={name}", f"out={tmp_path}"]) for name in ("none", "isotonic")
    ]
    for config in configs:
        run(config)
    first, second = (config.run_dir / "model" / "parent.kdg" for config in configs)
    assert first.samefile(second) and first.stat().st_nlink == 3


def test_where_there_are_no_links_files_are_copied(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", refuse)
    config = compose([*TINY, f"out={tmp_path}"])
    record = run(config)
    entry, copied = (
        tmp_path / ".store" / record["store"]["fit"],
        config.run_dir / "model" / "parent.kdg",
    )
    assert not entry.samefile(copied) and entry.read_bytes() == copied.read_bytes()


def test_an_entry_that_was_deleted_meanwhile_is_written_again(tmp_path):
    store = Store(tmp_path / "store", ProgressReporter())
    parent = np.arange(3.0)
    fitted = store.get_or_run("fit", "a" * 64, lambda: parent)
    calibrated = store.get_or_run(
        "calibrate", "b" * 64, lambda: {"parent": parent, "own": 1}, shared={"parent": parent}
    )
    assert fitted.entry is not None and calibrated.entry is not None
    fitted.entry.unlink()
    calibrated.entry.unlink()
    assert RunDir(tmp_path / "run").save_models(fitted, calibrated, {}) == FILES
    loaded = load(tmp_path / "run" / "model" / "calibrated.kdg")
    np.testing.assert_array_equal(loaded["parent"], parent)


def test_save_false_keeps_none_and_is_the_same_run(tmp_path):
    without = compose([*TINY, "save=false", f"out={tmp_path}"])
    assert without.run_id == compose([*TINY, f"out={tmp_path}"]).run_id
    assert run(without)["files"]["model"] == [] and not (without.run_dir / "model").exists()


PARENT = """
from sklearn.ensemble import RandomForestClassifier

class WithCallback(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        self.callback_ = lambda: None
        return super().fit(X, y, sample_weight)

class Plain(RandomForestClassifier):
    pass
"""


@pytest.fixture
def own_parents(tmp_path, monkeypatch):
    """A module of a user's own parents; gives what makes one of them a run's."""
    (tmp_path / "own_parents.py").write_text(PARENT)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "conf" / "parent").mkdir(parents=True)
    for name in ("WithCallback", "Plain"):
        text = (
            f"# Own\ndefaults: [random_forest, _self_]\nname: {name}\n_target_:"
            f" own_parents.{name}\n"
        )
        (tmp_path / "conf" / "parent" / f"{name}.yaml").write_text(text)
    return lambda name: compose(
        [*TINY, f"parent={name}", f"out={tmp_path / 'outputs'}"], tmp_path / "conf"
    )


def test_a_parent_that_cannot_be_saved_runs_all_the_same(own_parents):
    config, notes = own_parents("WithCallback"), Notes()
    record = run(config, notes)
    (line,) = notes.lines
    assert line.startswith(
        "what fit made cannot be saved, so it is made again next time and no model of the run is"
        " kept: "
    )
    assert record["files"]["model"] == [] and not (config.run_dir / "model").exists()
    (config.run_dir / "result.json").unlink()
    again = run(config, Notes())
    assert "fit" not in again["from_store"] and again["metrics"] == record["metrics"]


def test_a_parent_that_the_config_names_is_stored_and_found(own_parents):
    config, notes = own_parents("Plain"), Notes()
    run(config, notes)
    (config.run_dir / "result.json").unlink()
    assert (
        run(config, notes)["from_store"] == ["fit", "calibrate", "evaluate"] and notes.lines == []
    )


def test_the_packages_that_a_config_names():
    forest = {"_target_": "sklearn.ensemble.RandomForestClassifier"}
    assert trusted_packages({"parent": forest, "gate": {"_target_": None}}) == []
    assert trusted_packages(
        {
            "parent": {"_target_": "custom.deep.Thing"},
            "calibrator": {"candidates": {"a": {"_target_": "yours.It"}}},
        }
    ) == [
        "custom",
        "yours",
    ]
    encoder = {"_target_": "kdgraph.parents.networks.EncoderNetwork"}
    for model, package in (
        ("resnet20", []),
        ("timm.models:make", ["timm"]),
        ("torchvision.models.resnet18", ["torchvision"]),
    ):
        assert trusted_packages({"parent": {**encoder, "model": model}}) == package
    for model in ("facebook/dinov2-small", "./folder/model", "bert-base"):
        assert trusted_packages({"parent": {**encoder, "model": model}}) == ["transformers"]
    assert run_dir.PARENT == "parent.kdg"
