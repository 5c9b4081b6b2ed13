from __future__ import annotations

import json
import os
import time

import pytest

from kdgraph.report.terminal import LogProgress
from kdgraph.runner import locks
from kdgraph.runner import sweep as module
from kdgraph.runner.locks import SILENT_SECONDS
from kdgraph.runner.sweep import SweepCounter, SweepStatus, counting


@pytest.fixture
def runs(tmp_path):
    paths = [tmp_path / f"run{i}" for i in range(5)]
    for path in paths:
        path.mkdir()
    return paths


def test_runs_are_counted_by_what_is_in_their_directories(runs):
    (runs[0] / "error.txt").write_text("of the last time")
    count = SweepCounter(runs, cached=7)
    assert count.status() == SweepStatus(done=0, cached=7, running=0, failed=0, left=5)
    for path in runs[:3]:
        (path / "running.json").touch()
    assert count.status() == SweepStatus(0, 7, running=3, failed=0, left=2)
    (runs[0] / "running.json").unlink()
    (runs[0] / "error.txt").unlink()
    (runs[0] / "result.json").touch()
    (runs[1] / "error.txt").touch()
    status = count.status()
    assert (status.done, status.running, status.failed, status.left) == (
        1,
        2,
        0,
        2,
    )  # the lock is still there
    (runs[1] / "running.json").unlink()
    status = count.status()
    assert (status.done, status.running, status.failed, status.left) == (1, 1, 1, 2)
    assert status.seconds_left is not None and 0 < status.seconds_left < 60


def test_a_run_whose_process_is_gone_is_not_running(runs, monkeypatch):
    local, elsewhere, beating = (path / "running.json" for path in runs[:3])
    local.write_text(
        json.dumps({**locks._this_owner(), "start": "1"})
    )  # another process had this number
    elsewhere.write_text(json.dumps({**locks._this_owner(), "host": "another"}))
    beating.write_text(json.dumps(locks._this_owner()))
    count, now = SweepCounter(runs, cached=0), time.monotonic()
    assert (count.status().running, count.status().left) == (2, 3)
    monkeypatch.setattr(module.time, "monotonic", lambda: now + SILENT_SECONDS + 1)
    os.utime(beating)  # its owner beats
    assert (count.status().running, count.status().left) == (1, 4)


def test_a_record_that_is_replaced_counts_once_it_is_another(runs):
    (runs[0] / "result.json").write_text("old")
    count = SweepCounter(runs[:1], cached=0)
    assert (count.status().done, count.status().left) == (0, 1)
    (runs[0] / "new").write_text("new")
    (runs[0] / "new").replace(runs[0] / "result.json")
    assert (count.status().done, count.status().left) == (1, 0)


def test_the_time_that_is_left_is_that_of_the_runs_that_ended(runs, monkeypatch):
    count = SweepCounter(runs, cached=0)
    monkeypatch.setattr(module.time, "monotonic", lambda: count.began + 30)
    for path in runs[:3]:
        (path / "result.json").touch()
    assert count.status().seconds_left == pytest.approx(20)  # 10 s each, two to go


def test_progress_is_reported_during_and_after_the_block(runs, monkeypatch):
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.01)
    reports: list[SweepStatus] = []
    with counting(SweepCounter(runs, cached=0), reports.append):
        time.sleep(0.1)
        (runs[0] / "result.json").touch()
    assert len(reports) > 2 and reports[0].done == 0 and reports[-1].done == 1


def test_a_log_gets_a_line_in_a_while(capsys, monkeypatch):
    log = LogProgress()
    log.sweep_status(SweepStatus(1, 0, 1, 0, 3))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(log, "last_line", log.last_line - 61)
    log.sweep_status(SweepStatus(1, 0, 1, 0, 3))
    log.sweep_status(SweepStatus(2, 0, 1, 0, 2))
    assert capsys.readouterr().err == "kdg: 1 done · 1 running · 3 left\n"
