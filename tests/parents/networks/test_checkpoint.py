"""Checkpoint files: atomic writes, and only for the training that wrote them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from kdgraph.parents.networks import checkpoint as module
from kdgraph.parents.networks.checkpoint import Checkpoint, training_fingerprint

STATE = {
    "module": {"weight": torch.arange(6.0).reshape(2, 3)},
    "history": [{"epoch": 1, "loss": 0.5, "validation_loss": None}],
}


def test_round_trip(tmp_path):
    saved = Checkpoint(tmp_path / "new folder" / "state", "a")
    assert saved.load() is None
    saved.save(STATE, force=True)
    loaded = Checkpoint(saved.path, "a").load()
    assert loaded["history"] == STATE["history"] and torch.equal(
        loaded["module"]["weight"], STATE["module"]["weight"]
    )
    assert [path.name for path in saved.path.parent.iterdir()] == ["state"]
    saved.remove()
    saved.remove()
    assert saved.load() is None


def test_remove_deletes_temporary_files_of_killed_writers(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state[1]", "a")
    checkpoint.save(STATE, force=True)
    (tmp_path / ".state[1].4711").write_bytes(b"half of it")
    (tmp_path / ".state1.4711").write_bytes(b"of another training")
    assert checkpoint.load() is not None
    checkpoint.remove()
    assert [path.name for path in tmp_path.iterdir()] == [".state1.4711"]


def test_ignores_the_state_of_another_training(tmp_path):
    Checkpoint(tmp_path / "state", "a").save(STATE, force=True)
    assert Checkpoint(tmp_path / "state", "b").load() is None


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.5, 0.99])
def test_ignores_a_truncated_file(tmp_path, fraction):
    checkpoint = Checkpoint(tmp_path / "state", "a")
    checkpoint.save(STATE, force=True)
    content = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(content[: int(fraction * len(content))])
    assert checkpoint.load() is None


class Runs:
    """Object whose unpickling divides by zero."""

    def __reduce__(self):
        return eval, ("1/0",)


@pytest.mark.parametrize(
    "content",
    [b"not a checkpoint", pickle.dumps([1, 2]), pickle.dumps(Runs())],
    ids=["text", "list", "code"],
)
def test_ignores_a_file_that_is_not_a_checkpoint(tmp_path, content):
    (tmp_path / "state").write_bytes(content)
    assert Checkpoint(tmp_path / "state", "a").load() is None


@pytest.mark.parametrize(
    "value", [[1, 2], {"fingerprint": "b"}, Runs()], ids=["list", "other", "code"]
)
def test_ignores_a_saved_object_that_is_not_a_state(tmp_path, value):
    torch.save(value, tmp_path / "state")
    assert Checkpoint(tmp_path / "state", "a").load() is None


def test_saves_only_after_the_interval(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    checkpoint = Checkpoint(tmp_path / "state", "a")
    written = []
    for second in (10, 29.9, 30, 31, 59, 61):
        clock[0] = second
        checkpoint.path.unlink(missing_ok=True)
        checkpoint.save(STATE)
        written.append(checkpoint.path.exists())
    assert written == [False, False, True, False, False, True]


def test_failed_write_keeps_the_previous_state(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "state", "a")
    checkpoint.save(STATE, force=True)

    write = Path.write_bytes

    def fails(path, content):
        write(path, content[:100])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(STATE, force=True)
    monkeypatch.undo()
    assert checkpoint.load() is not None and [path.name for path in tmp_path.iterdir()] == ["state"]


def test_each_stage_has_a_separate_file(tmp_path):
    main = Checkpoint(tmp_path / "state", "a")
    before = main.for_stage("pretraining")
    before.save(STATE, force=True)
    assert main.load() is None and before.load() is not None
    assert before.path == tmp_path / "state.pretraining"


def test_rejects_a_folder(tmp_path):
    with pytest.raises(
        ValueError, match="checkpoint must be the path of a file, got the folder"
    ) as caught:
        Checkpoint(tmp_path, "a")
    assert "\n" not in str(caught.value)


def test_fingerprint_differs_for_different_data():
    X = np.arange(6.0).reshape(2, 3)
    equal_hashes = [
        training_fingerprint([X], ["a", 1]),
        training_fingerprint([np.asfortranarray(X)], ["a", 1]),
    ]
    different_hashes = [
        training_fingerprint([X.reshape(3, 2)], ["a", 1]),
        training_fingerprint([X.view(np.int64)], ["a", 1]),
        training_fingerprint([X + 1], ["a", 1]),
        training_fingerprint([X], ["a", 2]),
        training_fingerprint([X], ["a"]),
        training_fingerprint([X, np.float64(0)], ["a", 1]),
    ]
    assert equal_hashes[0] == equal_hashes[1] and len({*equal_hashes, *different_hashes}) == 7
