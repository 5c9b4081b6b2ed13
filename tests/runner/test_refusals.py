"""A run that is refused leaves nothing behind: no directory, no failure, nothing in the store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.errors import UsageError
from kdgraph.runner.run import run

SMALL = ["parent.n_estimators=5", "ood=none", "metrics=default", "figures=none", "n_jobs=1"]
PLAIN = ["ood=none", "metrics=default", "figures=none"]
ROWS = [f"{i / 10},{i % 7},{'ab'[i % 2]}" for i in range(60)]
CONTENTS = {
    "one class": [row[:-1] + "a" for row in ROWS],
    "few rows": ROWS[:3],
    "infinite": [*ROWS, "0.5,inf,a"],
    "ragged": [*ROWS, "1,2,3,4,5"],
    "no label": [*ROWS, "0.5,1,"],
    "numbers as labels": [f"{i % 11},{i % 7},{i * 0.37 % 1}" for i in range(60)],
}
PAIRS = {
    "no CUDA device": ["dataset=wine", "method=kdn", "parent.device=cuda", *PLAIN],
    "images for vectors": ["dataset=digits", "parent=cnn", "calibrator=isotonic", *PLAIN],
    "no groups": ["dataset=wine", "method=group_histogram", *PLAIN],
    "classes for a regressor": ["dataset=wine", "method=mlp_regressor", "ood=none", "figures=none"],
    "no partition": ["dataset=wine", "parent=random_forest", "calibrator=kdn", *PLAIN],
    "no probabilities": ["dataset=friedman1", "parent=linear", "calibrator=kdf", "ood=none"],
    "other columns": ["dataset=wine", "ood=dataset", "ood.name=digits", *SMALL[:1], *PLAIN[1:]],
    "no class left out": ["dataset=wine", "ood=left_out", *SMALL[:1], *PLAIN[1:]],
    "no calibration rows": ["dataset=wine", "method=isotonic", "dataset.n_calibration=1", *PLAIN],
    "too few rows": ["dataset=wine", "method=isotonic", "dataset.n_train=1000", *PLAIN],
}


def leftovers(folder: Path) -> list[str]:
    """Return the files and folders of runs; an empty store and the index of sweeps are none."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() or not path.name.startswith(".")
    ]


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Give a command that must be refused, and return the last line of stderr."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> str:
        assert main(["run", *arguments]) == 2
        assert leftovers(tmp_path / "outputs") == []
        message = capsys.readouterr().err.splitlines()[-1]
        assert main(["plan", *arguments]) in (0, 2)
        assert "1 failed" not in capsys.readouterr().out
        return message

    return command


@pytest.mark.parametrize("content", CONTENTS)
def test_file_that_is_no_data_set_is_refused(refuse, content):
    Path("rows.csv").write_text("\n".join(["x,y,label", *CONTENTS[content]]) + "\n")
    message = refuse("dataset=table", "dataset.path=rows.csv", "dataset.target=label", *SMALL)
    assert message.startswith("kdg: ") and "rows" in message


@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "bytes", "wrong column", "closed"])
def test_file_that_cannot_be_read_is_refused(refuse, kind):
    path = Path("rows.csv")
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        text = "" if kind == "empty" else "\n".join(["x,y,class", *ROWS])
        path.write_bytes(bytes(range(256)) if kind == "bytes" else text.encode())
    if kind == "closed":
        if not os.geteuid():
            pytest.skip("nothing is closed to root")
        path.chmod(0)
    message = refuse("dataset=table", "dataset.path=rows.csv", "dataset.target=label", *SMALL)
    assert message.startswith("kdg: ") and "rows" in message


@pytest.mark.parametrize("pair", PAIRS)
def test_parts_that_do_not_go_together_are_refused(refuse, pair):
    if pair == "no CUDA device" and torch.cuda.is_available():
        pytest.skip("torch sees a CUDA device here")
    assert refuse(*PAIRS[pair]).startswith("kdg: ")


def test_words_alone_have_no_points_in_space_around_them(refuse):
    rows = [f"u{i % 5},v{i % 7},w{i % 3},{'ab'[i * i % 7 % 2]}" for i in range(60)]
    Path("words.csv").write_text("\n".join(["x,y,z,label", *rows]) + "\n")
    words = ["dataset=table", "dataset.path=words.csv", "dataset.target=label", "ood=sphere"]
    assert refuse(*words, "parent.n_estimators=5", *PLAIN[1:]) == (
        "kdg: words has no numeric feature, and these rows out of distribution are points in space;"
        " give ood=none"
    )


def test_missing_cuda_device_is_one_line_with_the_key(refuse):
    if torch.cuda.is_available():
        pytest.skip("torch sees a CUDA device here")
    assert refuse(*PAIRS["no CUDA device"]) == (
        "kdg: parent.device=cuda needs a CUDA device, and torch sees none on this machine; choose"
        " parent.device=auto or parent.device=cpu"
    )


@pytest.mark.parametrize("launcher", ["basic", "processes"])
def test_refused_run_of_a_sweep_leaves_the_others_alone(tmp_path, monkeypatch, capsys, launcher):
    monkeypatch.chdir(tmp_path)
    sweep = ["-m", "dataset=wine", "dataset.n_train=60,1000", f"hydra/launcher={launcher}", *SMALL]
    assert main(["run", *sweep]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2] == (
        "  wine has 178 rows, too few for n_train 1000 + n_calibration 430 + n_test 54; ask for"
        " fewer"
    )
    assert len(list(Path("outputs").rglob("result.json"))) == 1
    assert len(list(Path("outputs").glob("[!.]*/*/*"))) == 1


def test_own_data_set_that_fails_is_a_failed_run(tmp_path, monkeypatch):
    """An error that kdgraph does not raise itself has a traceback, which is worth a file."""
    (tmp_path / "own_source.py").write_text(
        "from kdgraph.data.simulations import Spiral\n\n"
        "class Broken(Spiral):\n"
        "    def sample(self, n, rng):\n        raise RuntimeError('no luck')\n"
    )
    (tmp_path / "custom" / "dataset").mkdir(parents=True)
    (tmp_path / "custom" / "dataset" / "broken.yaml").write_text(
        "# Broken\ndefaults: [spiral, _self_]\nname: broken\n_target_: own_source.Broken\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = compose(["dataset=broken", f"out={tmp_path / 'outputs'}", *SMALL], tmp_path / "custom")
    with pytest.raises(RuntimeError, match="no luck"):
        run(config)
    assert (config.run_dir / "error.txt").read_text().startswith("RuntimeError: no luck\n")
    assert not (config.run_dir / "running.json").exists()


def test_run_that_was_refused_is_done_once_its_file_is_mended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("rows.csv")
    path.write_text("\n".join(["x,y,label", *CONTENTS["no label"]]) + "\n")
    words = ["dataset=table", "dataset.path=rows.csv", "dataset.target=label", *SMALL]
    with pytest.raises(UsageError):
        run(compose(words))
    path.write_text("\n".join(["x,y,label", *ROWS]) + "\n")
    config = compose(words)
    run(config)
    assert (config.run_dir / "result.json").exists()
