"""Claims: exclusive, given back, taken over from the dead, and respected where nothing can be known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kdgraph.runner import claim as claims
from kdgraph.runner.claim import claim, clear, is_claimed

ROOT = Path(__file__).parents[2]


def nobody(line: str) -> None:
    raise AssertionError(f"waited: {line}")


def dead_owner(path: Path) -> None:
    """A claim as a process leaves it that was killed."""
    code = (
        "import sys, os; from pathlib import Path; from kdgraph.runner.claim import _Silence, _take\n"
        "path = Path(sys.argv[1]); _take(path, _Silence(path)); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT)
    assert path.exists()


def test_it_is_held_and_given_back(tmp_path):
    path = tmp_path / "deep" / "running.json"
    with claim(path, nobody) as waited:
        assert not waited and is_claimed(path)
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists() and not is_claimed(path)


def test_it_is_given_back_when_the_work_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), claim(tmp_path / "claim", nobody):
        1 / 0  # noqa: B018
    assert not (tmp_path / "claim").exists()


def test_the_claim_of_a_dead_process_is_taken_over(tmp_path):
    path = tmp_path / "claim"
    dead_owner(path)
    assert not is_claimed(path)
    with claim(path, nobody):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not path.exists()


def test_only_the_claim_of_a_dead_process_is_cleared(tmp_path):
    path = tmp_path / "claim"
    dead_owner(path)
    clear(path)
    clear(path)  # there is none any more
    assert not path.exists()
    with claim(path, nobody):
        clear(path)
        assert path.exists()


def test_a_living_process_with_the_number_of_a_dead_one_is_not_its_owner(tmp_path):
    path = tmp_path / "claim"
    path.write_text(json.dumps({**claims._me(), "start": "1"}))
    assert not is_claimed(path)


def test_the_claim_of_another_machine_is_respected(tmp_path):
    path = tmp_path / "claim"
    path.write_text(json.dumps({**claims._me(), "host": "elsewhere", "pid": 2**22 + 1}))
    assert is_claimed(path)


def test_a_claim_without_a_name_is_given_time_to_be_written(tmp_path, monkeypatch):
    path = tmp_path / "claim"
    path.touch()
    assert is_claimed(path)
    monkeypatch.setattr(claims, "UNREADABLE_SECONDS", 0.3)
    began = time.monotonic()
    with claim(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 0.3


@pytest.mark.parametrize("clock", [0, 4e9])  # seconds since 1970 that the file system of the other machine believes in
def test_who_is_silent_on_another_machine_counts_as_gone_whatever_its_clock_says(tmp_path, monkeypatch, clock):
    path = tmp_path / "claim"
    path.write_text(json.dumps({**claims._me(), "host": "elsewhere"}))
    os.utime(path, (clock, clock))
    monkeypatch.setattr(claims, "SILENT_SECONDS", 0.5)
    began = time.monotonic()
    with claim(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 0.5
        assert json.loads(path.read_text())["host"] == claims._me()["host"]


def test_who_beats_on_another_machine_is_waited_for(tmp_path, monkeypatch):
    path = tmp_path / "claim"
    path.write_text(json.dumps({**claims._me(), "host": "elsewhere"}))
    monkeypatch.setattr(claims, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.05)
    began = time.monotonic()

    def is_done():
        with claims._beating(path):
            time.sleep(1.2)
        path.unlink()

    other = threading.Thread(target=is_done)
    other.start()
    with claim(path, lambda line: None) as waited:
        assert waited and time.monotonic() - began >= 1.2
    other.join()


def test_of_many_that_find_a_dead_claim_one_at_a_time_holds_it(tmp_path):
    """Each enters, leaves a file that the others must not find, and removes it."""
    path = tmp_path / "claim"
    dead_owner(path)
    code = (
        "import sys, os, time; from pathlib import Path; from kdgraph.runner.claim import claim\n"
        "folder = Path(sys.argv[1])\n"
        "for turn in range(5):\n"
        "    with claim(folder / 'claim', lambda line: None):\n"
        "        os.close(os.open(folder / 'inside', os.O_CREAT | os.O_EXCL))\n"
        "        time.sleep(0.005)\n"
        "        os.unlink(folder / 'inside')\n"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE) for _ in range(5)]
    for process in crowd:
        assert process.communicate()[1] == b"" and process.returncode == 0
    assert not path.exists()
