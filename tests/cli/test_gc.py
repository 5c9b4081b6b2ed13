"""``kdg gc``: entries without a finished run are removed, those of a running one are kept."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.persistence import load
from kdgraph.runner.cleanup import find_garbage
from kdgraph.runner.files import add_checksum
from kdgraph.runner.locks import lock, process_identity
from kdgraph.runner.run import run
from tests.variations import others_slow

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood=none",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
]
KEY = "a" * 24


@pytest.fixture
def kdg(kdg):
    return partial(kdg, "gc")


@pytest.fixture
def configs(tmp_path):
    """Two finished runs on one parent."""
    composed = [
        compose([*TINY, f"calibrator={name}", f"out={tmp_path / 'outputs'}"])
        for name in ("none", "isotonic")
    ]
    for config in composed:
        run(config)
    return composed


def files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder / ".store").as_posix()
        for path in (folder / ".store").rglob("*")
        if path.is_file()
    }


def add(out: Path, *names: str) -> None:
    for name in names:
        path = out / ".store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)


def test_what_finished_runs_refer_to_stays(kdg, configs):
    assert kdg("--yes") == (
        0,
        "nothing to delete: finished runs refer to all that the store in outputs has\n",
        "",
    )


def test_entries_of_a_deleted_run_are_removed_unless_shared(kdg, configs, tmp_path):
    before = files(tmp_path / "outputs")
    record = json.loads((configs[1].run_dir / "result.json").read_text())
    shutil.rmtree(configs[1].run_dir)
    code, out, err = kdg("--yes")
    removed = before - files(tmp_path / "outputs")
    assert (code, err) == (0, "") and removed == {
        record["store"][stage] for stage in ("calibrate", "evaluate")
    }
    assert out.splitlines()[0].startswith(
        "2 files of the store in outputs that no finished run refers to, "
    )
    assert out.splitlines()[-1].startswith("deleted 2 files, ")
    assert load(configs[0].run_dir / "model" / "calibrated.kdg").parent.classes_.tolist() == [0, 1]


def test_deleting_the_whole_store_loses_no_model(kdg, configs, tmp_path):
    for config in configs:
        (config.run_dir / "result.json").unlink()
    code, out, _ = kdg("--yes")
    assert code == 0 and not files(tmp_path / "outputs")
    assert all(load(config.run_dir / "model" / "calibrated.kdg").parent for config in configs)
    fit = next(line for line in out.splitlines() if line.startswith("  fit"))
    assert fit.split()[:4] == [
        "fit",
        "1",
        "0",
        "B",
    ]  # the disk is free only when the runs are gone too


def test_leftovers_checkpoints_and_entries_of_older_versions(kdg, configs, tmp_path):
    folder, before = tmp_path / "outputs", files(tmp_path / "outputs")
    needed = next(name for name in before if name.startswith("fit/")).removesuffix(".kdg")
    add(
        folder,
        f"fit/{KEY}.training",
        f"fit/{KEY}.training.pretraining",
        f"{needed}.training",
        f"fit/.{KEY}.kdg.4711.tmp",
        f"fit/{KEY}.pkl",
    )
    code, out, _ = kdg("--dry-run")
    assert code == 0 and files(folder) > before
    assert (
        out.splitlines()[0]
        == "5 files of the store in outputs that no finished run refers to, 5.0 kB"
    )
    kinds = {line[:16].strip(): int(line[16:24]) for line in out.splitlines()[1:]}
    assert kinds == {"checkpoints": 3, "leftovers": 1, "older version": 1}
    assert kdg("--yes")[1].endswith("deleted 5 files, 5.0 kB\n")
    assert files(folder) == before


def test_what_another_process_is_making_stays(kdg, configs, tmp_path):
    out = tmp_path / "outputs"
    add(out, f"fit/{KEY}.training", f"fit/.{KEY}.training.4711", f"fit/.{KEY}.kdg.4711.tmp")
    with lock(out / ".store" / "fit" / f"{KEY}.lock", print):
        assert find_garbage(out) == []
    assert len(find_garbage(out)) == 3


def test_the_lock_of_a_killed_process_goes(kdg, configs, tmp_path):
    path = tmp_path / "outputs" / ".store" / "fit" / f"{KEY}.lock"
    path.write_text(json.dumps({**process_identity(), "start": "1"}))
    assert [(each.path, each.kind) for each in find_garbage(tmp_path / "outputs")] == [
        (path, "leftovers")
    ]
    kdg("--yes")
    assert not path.exists()


def test_entries_that_a_running_run_will_read_stay(kdg, configs, tmp_path):
    out, run_dir = tmp_path / "outputs", configs[0].run_dir.with_name("at_work")
    add(out, f"fit/{KEY}.kdg", f"calibrate/{KEY}.training")
    run_dir.mkdir()
    held = {"fit": f"fit/{KEY}.kdg", "calibrate": f"calibrate/{KEY}.kdg"}
    (run_dir / "pins.json").write_bytes(add_checksum({"store": held}))
    with lock(run_dir / "running.json", print):
        assert find_garbage(out) == []
    assert [each.path.name for each in find_garbage(out)] == [f"{KEY}.training", f"{KEY}.kdg"]


def test_entries_needed_since_the_prompt_stay(kdg, configs, tmp_path, monkeypatch):
    out = tmp_path / "outputs"
    add(out, f"fit/{KEY}.kdg")

    def agree(prompt: str) -> str:
        run_dir = configs[0].run_dir.with_name("finished_meanwhile")
        run_dir.mkdir()
        (run_dir / "result.json").write_bytes(add_checksum({"store": {"fit": f"fit/{KEY}.kdg"}}))
        return "y"

    monkeypatch.setattr("builtins.input", agree)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert kdg()[1].endswith("deleted 0 files, 0 B\n")
    assert (out / ".store" / "fit" / f"{KEY}.kdg").exists()


@pytest.mark.parametrize(
    ("answer", "stays"),
    others_slow([("n", True), ("y", False), ("", True), ("Yes", False)], ("n", True), ("y", False)),
)
def test_deletion_needs_a_confirmation(kdg, configs, tmp_path, monkeypatch, answer, stays):
    add(tmp_path / "outputs", f"fit/{KEY}.kdg")
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert kdg()[0] == 0
    assert (tmp_path / "outputs" / ".store" / "fit" / f"{KEY}.kdg").exists() is stays


def test_without_a_terminal_it_deletes_nothing(kdg, configs, tmp_path, monkeypatch):
    add(tmp_path / "outputs", f"fit/{KEY}.kdg")
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, _, err = kdg()
    assert (code, err) == (
        2,
        (
            "kdg: kdg gc deletes after a confirmation, and standard input is no terminal; give --yes,"
            " or --dry-run to look only\n"
        ),
    )
    assert (tmp_path / "outputs" / ".store" / "fit" / f"{KEY}.kdg").exists()


def test_a_folder_without_runs_is_refused_as_by_other_commands(kdg, tmp_path, capsys):
    (tmp_path / "other" / "a" / "b" / "c").mkdir(parents=True)
    code, out, err = kdg("--out", "other")
    assert (code, out) == (2, "") and err.startswith("kdg: no finished run in 'other'; ")
    assert main(["table", "--out", "other"]) == 2
    assert capsys.readouterr().err == err


def test_a_folder_that_is_not_there(kdg):
    assert kdg("--out", "gone") == (2, "", "kdg: --out gone: there is no such folder\n")


@pytest.mark.parametrize("name", ["notes.txt", ".config", "a.kdg", f"{KEY}", f"x{KEY}.kdg"])
def test_files_that_are_not_named_as_entries_stay(kdg, tmp_path, name):
    add(tmp_path / "outputs", f"fit/{name}", f"fit/{KEY}.kdg")
    assert kdg("--yes")[1].endswith("deleted 1 file, 1.0 kB\n")
    assert files(tmp_path / "outputs") == {f"fit/{name}"}


def test_nothing_behind_a_link_is_deleted(kdg, tmp_path):
    add(tmp_path / "other", f"fit/{KEY}.kdg")
    link = tmp_path / "outputs" / ".store"
    link.mkdir(parents=True)
    (link / "fit").symlink_to(tmp_path / "other" / ".store" / "fit")
    (link / "cross_fit").mkdir()
    (link / "cross_fit" / f"{KEY}.kdg").symlink_to(link / "fit" / f"{KEY}.kdg")
    assert kdg("--yes")[1].splitlines()[-1].startswith("deleted 1 file, ")
    assert (link / "fit").is_symlink() and not list((link / "cross_fit").iterdir())
    shutil.rmtree(link)
    link.symlink_to(tmp_path / "other" / ".store")
    store = tmp_path / "other" / ".store"
    assert kdg("--yes") == (
        2,
        "",
        f"kdg: outputs/.store is a link to {store}, and kdg gc deletes nothing behind a link; move"
        " that folder to outputs/.store\n",
    )
    assert files(tmp_path / "other") == {f"fit/{KEY}.kdg"}
