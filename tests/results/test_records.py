"""Finding finished runs: which of them, in which order, and the note about those that are left
out.
"""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.config import RECORD_SCHEMA
from kdgraph.errors import UsageError
from kdgraph.results.records import find_runs, pause_garbage_collection
from kdgraph.runner.files import add_checksum, check_and_load


def places(runs) -> list[tuple[str, str, int]]:
    return [
        (run.record["dataset"]["name"], run.record["method"], run.record["seed"]) for run in runs
    ]


def test_runs_come_by_data_set_method_and_seed_as_a_number(record, outputs) -> None:
    out = outputs(
        [
            record("b"),
            record("a", "kdf", seed=10),
            record("a", "kdf", seed=9),
            record("a", "isotonic", seed=11),
        ]
    )
    runs = find_runs(out)
    assert places(runs) == [
        ("a", "isotonic", 11),
        ("a", "kdf", 9),
        ("a", "kdf", 10),
        ("b", "kdf", 0),
    ]
    assert all((run.path / "result.json").exists() for run in runs)
    assert runs[0].record == check_and_load((runs[0].path / "result.json").read_bytes())


def test_folder_of_any_level_is_read_without_hidden_folders(record, outputs) -> None:
    out = outputs([record("a", seed=s) for s in (0, 1)] + [record("b")])
    hidden = out / ".store" / "fit" / "x"
    hidden.mkdir(parents=True)
    (hidden / "result.json").write_bytes(add_checksum(record("c")))
    assert len(find_runs(out)) == 3
    assert places(find_runs(out / "a")) == [("a", "kdf", 0), ("a", "kdf", 1)]
    (run,) = find_runs(out / "b")
    assert find_runs(run.path) == [run]


def test_a_run_that_is_not_finished_is_none(record, outputs) -> None:
    out = outputs([record("a")])
    (out / "a" / "kdf" / "00000000").mkdir()
    (out / "a" / "kdf" / "00000000" / "error.txt").write_text("ValueError: no")
    assert len(find_runs(out)) == 1


def test_unusable_records_are_left_out_with_one_line(record, outputs, capsys) -> None:
    out = outputs([record(), record("a", schema=2), record("b", schema=1), record("c", schema=2)])
    (out / "c" / "kdf" / record("c", schema=2)["run_id"] / "result.json").write_text(
        '{"schema": 2}'
    )  # before there was a checksum
    for name, text in (("empty", ""), ("list", "[]")):
        (out / "d" / name).mkdir(parents=True)
        (out / "d" / name / "result.json").write_text(text)
    assert places(find_runs(out)) == [("spiral", "kdf", 0)]
    message = (
        f"left out of {out}: 3 runs of another version (schema 1, 2; this kdgraph reads"
        f" {RECORD_SCHEMA}); 2 runs whose result.json is damaged ({out}/d/empty/result.json,"
        f" {out}/d/list/result.json); the same kdg run makes them again"
    )
    assert capsys.readouterr().err == f"kdg: {message}\n"
    messages: list[str] = []
    find_runs(out, note=messages.append)
    assert messages == [message] and capsys.readouterr().err == ""


def test_records_of_another_shape_are_left_out_with_the_key(record, outputs) -> None:
    broken = {name: record(name) for name in "abc"}
    del broken["a"]["dataset"]["prior"], broken["b"]["detector"], broken["c"]["detector"]
    notes: list[str] = []
    out = outputs([record(), *broken.values()])
    assert places(find_runs(out, note=notes.append)) == [("spiral", "kdf", 0)]
    paths = [f"{out}/{name}/kdf/{broken[name]['run_id']}/result.json" for name in "ab"]
    assert notes == [
        f"left out of {out}: 3 runs whose result.json is not as a run writes it"
        f" ({paths[0]}: dataset.prior is missing, {paths[1]}: detector is missing and 1 more);"
        " the same kdg run makes them again"
    ]


def test_links_of_a_folder_are_followed_once_and_never_upwards(record, outputs, tmp_path) -> None:
    out = outputs([record("a")])
    elsewhere = tmp_path / "scratch" / "b" / "kdf" / "0"
    elsewhere.mkdir(parents=True)
    (elsewhere / "result.json").write_bytes(add_checksum(record("b")))
    (tmp_path / "scratch" / "up").symlink_to(out)
    for name, target in {"b": tmp_path / "scratch", "again": out / "a", "up": out}.items():
        (out / name).symlink_to(target)
        (out / f"{name}_twice").symlink_to(target)
    assert places(find_runs(out)) == [("a", "kdf", 0), ("b", "kdf", 0)]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_a_record_that_is_no_file_is_left_out(record, outputs, make) -> None:
    out, notes = outputs([record("a")]), []
    (out / "b").mkdir()
    make(out / "b" / "result.json")
    assert places(find_runs(out, note=notes.append)) == [("a", "kdf", 0)]
    assert f"1 run whose result.json is damaged ({out}/b/result.json)" in notes[0]


def test_a_folder_without_runs_is_an_error_of_one_line(tmp_path, record, outputs) -> None:
    with pytest.raises(UsageError) as caught:
        find_runs(tmp_path / "nowhere")
    assert (
        str(caught.value)
        == f"--out must be a folder with runs, got '{tmp_path / 'nowhere'}', which is no folder"
    )
    with pytest.raises(UsageError) as caught:
        find_runs(tmp_path)
    assert (
        str(caught.value)
        == f"no finished run in '{tmp_path}'; make one with 'kdg run', or name another folder with"
        " --out"
    )


def test_filters_must_hold_together(record, outputs) -> None:
    out = outputs(
        [record(d, m, seed=s) for d in ("a", "b") for m in ("kdf", "isotonic") for s in (0, 1)]
    )
    assert places(find_runs(out, ["dataset=a", "method!=kdf", "seed=1"])) == [("a", "isotonic", 1)]
    with pytest.raises(UsageError) as caught:
        find_runs(out, ["dataset=a", "dataset=b"])
    assert str(caught.value) == f"of 8 runs in '{out}' none has dataset=a dataset=b"


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_is_left_as_it_was(collects) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pause_garbage_collection():
            assert not gc.isenabled()
        assert gc.isenabled() == collects
        with pytest.raises(UsageError), pause_garbage_collection():
            raise UsageError
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()


def test_unreadable_folders_and_records_are_left_out_in_one_line(record, outputs, monkeypatch):
    out = outputs([record("a"), record("b"), record("c")])
    closed_folder, (closed_file,) = str(out / "b" / "kdf"), (out / "c").rglob("result.json")
    scandir, read_bytes = os.scandir, Path.read_bytes

    def refuse(real, path, closed):
        if str(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", lambda path: refuse(scandir, path, closed_folder))
    monkeypatch.setattr(Path, "read_bytes", lambda path: refuse(read_bytes, path, closed_file))
    messages: list[str] = []
    assert places(find_runs(out, note=messages.append)) == [("a", "kdf", 0)]
    (line,) = messages
    assert line.startswith(f"left out of {out}: what you may not read (")
    assert (
        closed_folder in line
        and str(closed_file) in line
        and line.endswith(f"); its owner can let you with 'chmod -R a+rX {out}'")
    )


def test_a_closed_folder_is_one_line_for_every_command(monkeypatch, capsys, tmp_path):
    def closed(out, *arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "secret"))

    monkeypatch.setattr("kdgraph.results.records.find_runs", closed)
    assert main(["table", "--out", str(tmp_path)]) == 2
    way_out = f"its owner can open it with 'chmod -R a+rX {tmp_path}/secret'"
    assert (
        capsys.readouterr().err
        == f"kdg: cannot use {tmp_path}/secret: Permission denied; {way_out}\n"
    )
