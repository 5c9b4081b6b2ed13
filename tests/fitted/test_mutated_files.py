"""Damaged and edited model files run nothing, open nothing, and never end the process.

Each is predicted with or refused in one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def report_of(*arguments: str) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.fitted.mutated_files", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads(process.stdout.strip().split("\n")[-1])


def assert_harmless(report: dict[str, Any]) -> None:
    assert not report["faults"], (report["faults"], report["log"])
    for name, counts in report["counts"].items():
        # Mutations that are always or never refused would test nothing.
        assert counts.keys() == ({"refused"} if name == "kdgraph" else {"predicted", "refused"})


@pytest.mark.slow
def test_mutated_files_are_predicted_with_or_refused_in_one_line():
    report = report_of("60", "0", "few")
    assert not report["faults"], (report["faults"], report["log"])
    assert sum(sum(counts.values()) for counts in report["counts"].values()) == 60


@pytest.mark.slow
@pytest.mark.exhaustive
def test_mutated_files_predict_or_are_refused_in_one_line():
    for name in ("skops", "lightgbm", "xgboost", "catboost", "skl2onnx", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed; the extra dev has it")
    report = report_of("2000", "0")
    assert_harmless(report)
    assert sum(sum(counts.values()) for counts in report["counts"].values()) == 2000


WATCHED = """
import json, os, socket, subprocess, sys
from pathlib import Path
from tests.fitted.mutated_files import Watch
folder, report = Path(sys.argv[1]), []
for action in json.loads(sys.argv[2]):
    pid = os.fork()
    if not pid:
        watch = Watch(folder / "work")
        sys.addaudithook(watch)
        try:
            exec(action)
        except PermissionError:
            pass
        os._exit(len(watch.seen))
    report.append(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
print(json.dumps(report))
"""
ACTIONS = {
    "os.system('true')": 1,
    "subprocess.run(['true'])": 1,
    "subprocess.run([sys.executable, '-c', ''])": 1,
    "socket.create_connection(('127.0.0.1', 9))": 1,
    "(folder / 'secret').read_text()": 1,
    "(folder / 'secret').write_text('')": 1,
    "os.remove(folder / 'secret')": 1,
    "Path('/etc/passwd').read_bytes()": 1,
    "(folder / 'work' / 'model').write_text('')": 0,
    "import colorsys": 0,
}


@pytest.mark.slow
def test_the_audit_hook_counts_commands_sockets_and_files(tmp_path):
    """Otherwise the tests of mutated files could not fail."""
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("secret")
    command = [sys.executable, "-c", WATCHED, str(tmp_path), json.dumps(list(ACTIONS))]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert dict(zip(ACTIONS, json.loads(report.stdout), strict=True)) == ACTIONS
    assert (tmp_path / "secret").read_text() == "secret"
