"""Finished runs are listed in an index without composing them, as long as their config files are
unchanged.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.config import plan
from kdgraph.config.composer import Composer
from kdgraph.runner.files import add_checksum, check_and_load
from kdgraph.runner.index import OTHER_INDICES, Index

TINY = [
    "parent.n_estimators=5",
    "ood=none",
    "metrics=default",
    "figures=none",
    "hydra/launcher=basic",
]
TABLE = [
    *TINY,
    "dataset=table",
    "dataset.path=my.csv",
    "dataset.target=label",
    "calibrator=none,isotonic",
]


@pytest.fixture
def composed(monkeypatch) -> list:
    """Grows with every config that is composed."""
    calls, real = [], Composer.run_config

    def run_config(self, overrides, **more):
        calls.append(overrides)
        return real(self, overrides, **more)

    monkeypatch.setattr(Composer, "run_config", run_config)
    return calls


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(1)
    (tmp_path / "custom" / "calibrator").mkdir(parents=True)
    return tmp_path


def write_table(width: int) -> None:
    rows = [
        f"{i % 7},{(i * 37) % 101 / 10 * width},{'yes' if i % 7 > 3 else 'no'}" for i in range(120)
    ]
    Path("my.csv").write_text("\n".join(["size,width,label", *rows]) + "\n")


def n_done() -> int:
    return len(list(Path("outputs").rglob("result.json")))


def sweep(*arguments: str) -> None:
    assert main(["run", "-m", *arguments]) == 0


def test_what_is_done_is_not_composed_again(composed, capsys):
    sweep("dataset=wine", "seed=0,1", *TINY)
    first = capsys.readouterr().out
    assert len(composed) == 2
    sweep("dataset=wine", "seed=0,1", *TINY, "n_jobs=1")
    assert len(composed) == 2
    assert capsys.readouterr().out == first.replace(
        "2 runs in outputs", "2 runs in outputs, 2 of them done before"
    )
    sweep("dataset=wine", "seed=0,1,2", *TINY)
    assert len(composed) == 3 and n_done() == 3
    sweep("dataset=wine", "seed=0,1", *TINY, "force=true")
    assert len(composed) == 5


def test_a_run_that_is_known_and_not_done_is_done(composed):
    sweep("dataset=wine", "seed=0,1", *TINY)
    next(Path("outputs").rglob("result.json")).unlink()
    sweep("dataset=wine", "seed=0,1", *TINY)
    assert n_done() == 2 and len(composed) == 3


@pytest.mark.slow
def test_other_yaml_is_another_index(composed, folder):
    yaml = folder / "custom" / "calibrator" / "own.yaml"
    text = "# Own\nname: own\n_target_: kdgraph.calibration.ScoreMap\nmethod: {}\n"
    yaml.write_text(text.format("isotonic"))
    sweep("--config-dir", "custom", "dataset=wine", "calibrator=own", "seed=0,1", *TINY)
    yaml.write_text(text.format("sigmoid"))
    sweep("--config-dir", "custom", "dataset=wine", "calibrator=own", "seed=0,1", *TINY)
    assert len(composed) == 4 and n_done() == 4
    yaml.write_text(text.format("isotonic"))
    sweep("--config-dir", "custom", "dataset=wine", "calibrator=own", "seed=0,1", *TINY)
    assert len(composed) == 4 and n_done() == 4
    for method in ("isotonic", "sigmoid"):
        for i in range(OTHER_INDICES):
            yaml.write_text(text.format(method) + f"# {i}\n")
            sweep("--config-dir", "custom", "dataset=wine", "calibrator=own", "seed=0,1", *TINY)
    assert (
        len(list(Path("outputs/.sweeps").glob("index-*.jsonl"))) == OTHER_INDICES and n_done() == 4
    )


@pytest.mark.slow
def test_a_table_that_has_changed_is_not_done(composed):
    sweep(*TABLE)
    assert (n_done(), len(composed)) == (2, 2)
    os.utime("my.csv", (1, 1))  # touched, with the same content
    sweep(*TABLE)
    assert (n_done(), len(composed)) == (2, 2)
    write_table(2)
    sweep(*TABLE)
    assert (n_done(), len(composed)) == (4, 4)
    write_table(1)
    sweep(*TABLE)
    assert n_done() == 4  # the first two again


def test_the_place_that_relative_paths_start_from_counts(composed, folder, monkeypatch):
    (folder / "there").mkdir()
    sweep(*TABLE, f"out={folder / 'outputs'}")
    monkeypatch.chdir(folder / "there")
    write_table(3)
    sweep(*TABLE, f"out={folder / 'outputs'}")
    assert len(composed) == 4
    assert len(list((folder / "outputs").rglob("result.json"))) == 4


def test_a_line_that_was_cut_off_costs_one_composition(composed):
    sweep("dataset=wine", "seed=0,1", *TINY)
    (index,) = Path("outputs/.sweeps").glob("index-*.jsonl")
    index.write_text(index.read_text()[:-20])
    sweep("dataset=wine", "seed=0,1", *TINY)
    assert len(composed) == 3
    assert [json.loads(line)["key"] for line in index.read_text().splitlines()[:1]]


def test_nothing_is_indexed_that_depends_on_the_environment(composed, folder, monkeypatch):
    (folder / "custom" / "calibrator" / "own.yaml").write_text(
        "# Own\nname: own\n_target_: kdgraph.calibration.ScoreMap\nmethod: ${oc.env:METHOD}\n"
    )
    for method in ("isotonic", "sigmoid"):
        monkeypatch.setenv("METHOD", method)
        sweep("--config-dir", "custom", "dataset=wine", "calibrator=own", "seed=0,1", *TINY)
    assert n_done() == 4 and not list(Path("outputs/.sweeps").glob("index-*.jsonl"))


def test_a_single_run_needs_no_index():
    planned = plan(["dataset=wine"])
    assert Index.of(planned).path is None and Index.of(planned).known() == {}


def test_unwritable_index_changes_no_result(folder, composed, capsys):
    """A read-only folder of finished runs can still be read."""
    Path("outputs").mkdir()
    Path("outputs/.sweeps").write_text("in the way of a folder")
    assert main(["plan", "-m", *TABLE]) == 0
    first = capsys.readouterr()
    assert first.err == "" and main(["plan", "-m", *TABLE]) == 0
    assert capsys.readouterr() == first and len(composed) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "../../elsewhere"},
        {"run": "/tmp"},
        {"run": "link/kdf/0"},
        {"run": 5},
        {"files": 5},
        {"files": [["os.system", "path", "my.csv", "", ""]]},
        {"files": [[None, None, None, None, None]]},
        {"key": []},
    ],
    ids=str,
)
def test_malformed_index_lines_are_ignored(wrong):
    planned = plan(["dataset=wine", "seed=0,1"], multirun=True)
    index = Index.of(planned)
    index.remember(planned.jobs)
    assert sorted(Index.of(planned).known().values()) == sorted(j.run_dir for j in planned.jobs)
    Path("outputs/link").symlink_to("/tmp")
    lines = [check_and_load(line) for line in index.path.read_bytes().splitlines()]
    edited = [add_checksum(line | wrong, indent=None) + b"\n" for line in lines]
    index.path.write_bytes(b"".join(edited))
    assert Index.of(planned).known() == {}


def test_runs_of_a_sweep_over_folders_are_in_the_first_index(composed):
    for _ in range(2):
        sweep("dataset=wine", "out=outputs,others", *TINY)
    assert n_done() == 1 and len(list(Path("others").rglob("result.json"))) == 1
