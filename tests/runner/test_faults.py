"""A disk that is full, a folder that is closed, bytes that change, processes that meet: one line,
and nothing that was done is lost.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.errors import CannotWrite
from kdgraph.runner import files
from kdgraph.runner.files import write_atomically

from .conftest import TINY

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUN = ["run", *TINY, "calibrator=isotonic"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Disk:
    """A disk that has room for some files and no more."""

    def __init__(self, monkeypatch, room: int, number: int = errno.ENOSPC) -> None:
        self.room, self.number = room, number
        self.written: list[Path] = []
        monkeypatch.setattr(
            files.Path, "write_bytes", lambda path, content: self._write(path, content)
        )

    def _write(self, path: Path, content: bytes) -> int:
        if len(self.written) >= self.room:
            path.touch()  # a full disk still makes names
            raise OSError(self.number, os.strerror(self.number), str(path))
        self.written.append(path)
        with path.open("wb") as file:
            return file.write(content)


def metrics_and_predictions() -> tuple:
    (path,) = Path("outputs").glob("*/*/*/result.json")
    return (
        json.loads(path.read_text())["metrics"],
        path.with_name("predictions.parquet").read_bytes(),
    )


def test_a_full_disk_at_any_file_is_one_line_and_loses_nothing(monkeypatch, capsys):
    room = 0
    while True:
        with monkeypatch.context() as patched:
            disk = Disk(patched, room)
            code = main(RUN)
        err = capsys.readouterr().err
        if code == 0:
            break
        assert code == 1 and err.count("\n") == 1
        assert (
            err.startswith("kdg: cannot write outputs/")
            and "No space left on device; free some space ('kdg gc'" in err
        )
        assert not list(Path("outputs").rglob("result.json")) and not list(
            Path("outputs").rglob("*.tmp")
        )
        assert not list(Path("outputs").rglob("running.json")) and not list(
            Path("outputs").rglob("*.lock")
        )
        room += 1
    assert (
        room >= 3 and disk.written
    )  # with room for what was left: entries that were written before have stayed
    disturbed = metrics_and_predictions()
    assert main([*RUN, "force=true"]) == 0
    assert metrics_and_predictions() == disturbed


def test_a_closed_folder_is_one_line(monkeypatch, capsys):
    Disk(monkeypatch, 0, errno.EROFS)
    assert main(RUN) == 1
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 1
        and "Read-only file system; change the rights of the folder, or name another one with out=…"
        in err
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_without_rights_is_one_line(capsys, folder):
    (folder / "outputs").mkdir(mode=0o500)
    assert main(RUN) in (1, 2)
    assert capsys.readouterr().err.count("\n") == 1


def test_writing_is_all_or_nothing(monkeypatch, folder):
    path = folder / "a" / "file"
    write_atomically(path, b"before")
    Disk(monkeypatch, 0)
    with pytest.raises(
        CannotWrite, match=r"^cannot write .*/a/file: No space left on device; free some space"
    ):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before" and list(path.parent.iterdir()) == [path]


def test_changed_byte_of_a_run_file_is_reported_or_harmless():
    assert main(RUN) == 0
    before = metrics_and_predictions()
    stored = sorted(path for path in Path("outputs/.store").rglob("*") if path.is_file())
    assert len(stored) >= 3
    for path in stored:
        for fraction in (0, 1 / 3, 1 / 2, 1):
            content = bytearray(path.read_bytes())
            content[round(fraction * (len(content) - 1))] ^= 0x20
            path.write_bytes(content)
            (record,) = Path("outputs").glob("*/*/*/result.json")
            record.unlink()
            assert main(RUN) == 0
            assert metrics_and_predictions() == before


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_record_that_was_cut_off_is_no_record(cut):
    assert main(RUN) == 0
    before = metrics_and_predictions()
    (record,) = Path("outputs").glob("*/*/*/result.json")
    record.write_bytes(record.read_bytes()[:cut])
    assert main(RUN) == 0
    assert metrics_and_predictions() == before


def test_processes_at_once_do_each_stage_once():
    """Two start one run, one starts another on the same parent."""
    calibrators = ["isotonic"] * 2 + ["none"]

    def call(calibrator: str) -> tuple[int, str]:
        command = [
            sys.executable,
            "-m",
            "kdgraph",
            "run",
            "--json",
            *TINY,
            f"calibrator={calibrator}",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    with ThreadPoolExecutor(3) as pool:
        ended = list(pool.map(call, calibrators))
    assert [err for code, err in ended if code] == []
    records = [json.loads(out) for _, out in ended]
    assert all(record == records[0] for record in records[:2])
    assert len({record["run_id"] for record in records}) == 2
    assert (
        sum("fit" not in record["from_store"] for record in records[1:]) == 1
    )  # one of the two runs has fitted the parent
    assert len(list(Path("outputs/.store/fit").glob("*"))) == 1
