"""Models of CatBoost that end the process which reads them are refused in one line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kdgraph.persistence import LoadError, trials
from kdgraph.persistence.trials import try_catboost

catboost = pytest.importorskip("catboost", reason="the extra boosting has catboost")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))


@cache
def content_of(**parameters: Any) -> bytes:
    """Return the file of a regressor."""
    common = {"iterations": 5, "depth": 4, "verbose": False, "thread_count": 1}
    model = catboost.CatBoostRegressor(**common, allow_writing_files=False, **parameters)
    with tempfile.TemporaryDirectory() as folder:
        model.fit(X, X[:, 0]).save_model(f"{folder}/model.cbm")
        return Path(folder, "model.cbm").read_bytes()


READ = """
import sys
import catboost
import numpy as np
model = catboost.CatBoost().load_model(blob=sys.stdin.buffer.read(), format="cbm")
model.predict(np.random.default_rng(0).normal(size=(500, 4)))
"""


def fatal_content() -> bytes:
    """Return a file with a huge number in the place of a small one, which ends its reader."""
    content = content_of(grow_policy="Lossguide")
    for position in range(len(content) - 4, 0, -97):
        edited = content[:position] + (2**31 - 1).to_bytes(4, "little") + content[position + 4 :]
        process = subprocess.run(
            [sys.executable, "-c", READ], input=edited, capture_output=True, check=False
        )
        if process.returncode < 0:
            return edited
    raise AssertionError("no edited file ends its reader")


def test_models_that_are_read_well_pass_once():
    content = content_of()
    try_catboost(content)
    start = time.perf_counter()
    try_catboost(content)
    # The second call starts no process, which takes longer than this.
    assert time.perf_counter() - start < 0.1


@pytest.mark.slow
def test_models_that_end_their_reader_are_refused():
    content = fatal_content()
    with pytest.raises(LoadError, match=r"^ends the process that reads it \(SIG\w+\)$"):
        try_catboost(content)


def test_the_signal_that_ended_the_process_is_named(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(trials.catboost_trial, "__file__", str(script))
    with pytest.raises(LoadError, match=r"^ends the process that reads it \(SIGKILL\)$"):
        try_catboost(b"fatal")


def test_models_that_are_never_read_are_refused(monkeypatch):
    monkeypatch.setattr(trials, "_SECONDS", 0.01)
    with pytest.raises(LoadError, match=r"^is not read in 0\.01 seconds$"):
        try_catboost(content_of(random_seed=1))


def test_modules_of_the_working_directory_are_not_imported(tmp_path, monkeypatch):
    (tmp_path / "catboost.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    try_catboost(content_of(random_seed=2))
    assert not (tmp_path / "mark").exists()
