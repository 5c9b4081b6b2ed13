"""Processes that are killed, and processes that meet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.runner import stored_stages
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run import run

from .conftest import TINY, Parts, wait_until

pytestmark = pytest.mark.slow

STAGES = ("split", "fit", "calibrate", "evaluate")


def test_a_run_killed_in_any_stage_is_completed_by_the_next_call(tmp_path, monkeypatch, capsys):
    killed = {
        stage: Parts(tmp_path / stage) for stage in STAGES if (tmp_path / stage).mkdir() is None
    }
    processes = {stage: parts.start(slow=stage) for stage, parts in killed.items()}
    for stage, process in processes.items():
        wait_until(lambda stage=stage: killed[stage].visits(stage) > 0)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for stage, parts in killed.items():
        assert not parts.files("result.json")
        # The lock of a process that is gone; rows are split before a run has a directory.
        assert len(parts.files("running.json")) == (stage != "split")
        monkeypatch.syspath_prepend(parts.folder)
        monkeypatch.delitem(sys.modules, "slow_parts", raising=False)
        before = {done: parts.visits(done) for done in STAGES}
        assert main(["run", "--json", *parts.arguments]) == 0
        record = json.loads(capsys.readouterr().out)
        assert record["from_store"] == [
            done for done in STAGES[1:] if STAGES.index(done) < STAGES.index(stage)
        ]
        assert all(parts.visits(done) == before[done] for done in record["from_store"])
        assert len(parts.files("result.json")) == 1
        assert (
            not parts.files("running.json")
            and not parts.files("*.lock")
            and not parts.files(".*.tmp")
        )


def test_two_processes_at_once_do_the_work_once(parts):
    first = parts.start(slow="fit")
    wait_until(lambda: parts.visits("fit") == 1)
    second = parts.start("--json", slow="fit")
    assert second.stderr is not None
    line = second.stderr.readline()
    (lock_file,) = parts.files("running.json")
    assert line.startswith(f"kdg: waiting for process {first.pid} on ") and line.endswith(
        f"holds {lock_file}; delete that file if the process is gone\n"
    )
    (parts.folder / "go").touch()
    assert first.communicate()[1] == "" and first.returncode == 0
    out, _ = second.communicate()
    assert second.returncode == 0 and json.loads(out)["parent"] == "slow"
    assert [parts.visits(stage) for stage in ("fit", "calibrate", "evaluate")] == [1, 1, 1]


def test_an_interrupted_run_gives_its_lock_back(parts):
    process = parts.start(slow="fit")
    wait_until(lambda: parts.visits("fit") == 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (
        130,
        "",
        "kdg: interrupted; finished stages are kept\n",
    )
    assert (
        not parts.files("running.json")
        and not parts.files("result.json")
        and not parts.files("error.txt")
    )


@pytest.mark.parametrize(
    ("launcher", "signum", "code", "line"),
    [
        (
            "processes",
            signal.SIGTERM,
            143,
            "kdg: terminated by SIGTERM; finished stages are kept\n",
        ),
        ("processes", signal.SIGHUP, 129, "kdg: terminated by SIGHUP; finished stages are kept\n"),
        ("processes", signal.SIGINT, 130, "kdg: interrupted; finished stages are kept\n"),
        ("processes", signal.SIGKILL, -signal.SIGKILL, ""),
        (
            "submitit_local",
            signal.SIGTERM,
            143,
            "kdg: terminated by SIGTERM; finished stages are kept\n",
        ),
        ("submitit_local", signal.SIGKILL, -signal.SIGKILL, ""),
        ("dask", signal.SIGTERM, 143, "kdg: terminated by SIGTERM; finished stages are kept\n"),
        ("dask", signal.SIGINT, 130, "kdg: interrupted; finished stages are kept\n"),
        ("ray", signal.SIGTERM, 143, "kdg: terminated by SIGTERM; finished stages are kept\n"),
        ("ray", signal.SIGINT, 130, "kdg: interrupted; finished stages are kept\n"),
    ],
)
def test_the_processes_of_a_sweep_end_with_it(parts, launcher, signum, code, line):
    """They hold its stdout and stderr, which ``communicate`` reads to their end, as ``| tee``
    does.
    """
    if launcher in ("dask", "ray"):
        library = {"dask": "distributed", "ray": "ray"}[launcher]
        pytest.importorskip(library, reason=f"pip install 'kdgraph[{launcher}]' has it")
    more = (
        ["hydra.sweeper.max_batch_size=2"]
        if launcher == "submitit_local"
        else ["hydra.launcher.n_jobs=2"]
    )
    process = parts.start(
        "-m", "calibrator=none,isotonic", "seed=3", f"hydra/launcher={launcher}", *more, slow="fit"
    )
    wait_until(lambda: parts.visits("fit") == 1 and len(parts.files("running.json")) == 2)
    process.send_signal(signum)
    err = process.communicate(timeout=50)[1]  # before the fit would go on by itself
    assert process.returncode == code
    lines = [
        one
        for one in err.splitlines(keepends=True)
        if "resource_tracker" not in one and one.startswith("kdg: ")
    ]
    assert lines[0].startswith("kdg: 2 runs") and "".join(lines[1:]) == line
    assert (
        not parts.files("running.json")
        and not parts.files("*.lock")
        and not parts.files("result.json")
    )


def test_a_sweep_over_calibrators_fits_the_parent_once(parts, capsys):
    assert (
        main(
            [
                "run",
                "-m",
                *parts.arguments,
                "calibrator=none,isotonic,sigmoid",
                "seed=3",
                "hydra/launcher=basic",
            ]
        )
        == 0
    )
    assert parts.visits("fit") == 1
    assert len(parts.files("result.json")) == 3
    assert capsys.readouterr().out.endswith(f"3 runs in {parts.folder / 'outputs'}\n")


def test_so_does_a_parallel_sweep(parts):
    process = parts.start("-m", "calibrator=none,isotonic", "seed=3", "hydra.launcher.n_jobs=2")
    out, err = process.communicate()
    assert (process.returncode, err) == (
        0,
        "kdg: 2 runs, 2 at a time, one core each\n",
    )  # that one waits for the other's fit is no news
    assert parts.visits("fit") == 1 and out.endswith(f"2 runs in {parts.folder / 'outputs'}\n")


def test_methods_on_one_parent_share_its_predictions(tmp_path, monkeypatch):
    known, real = [], stored_stages.evaluate

    def evaluate(*models, parent_outputs, **more):
        known.append(parent_outputs is not None)
        return real(*models, parent_outputs=parent_outputs, **more)

    monkeypatch.setattr(stored_stages, "evaluate", evaluate)
    held_out = ["calibration=held_out"]  # so that all have the same parent
    records = [
        run(compose([*TINY, *held_out, f"calibrator={name}", f"out={tmp_path / out}"]))
        for name, out in (("kdf", "1"), ("none", "1"), ("none", "2"))
    ]
    assert known == [False, True, False]
    assert records[1]["metrics"] == records[2]["metrics"]
    run(compose([*TINY, "calibrator=isotonic", "dataset.n_test=41", f"out={tmp_path / '1'}"]))
    assert known[-1] is False  # on other rows


def test_changing_only_metrics_fits_nothing_again(parts):
    overrides = parts.arguments[2:]
    first = run(compose(overrides, parts.arguments[1]), ProgressReporter())
    again = run(
        compose([*overrides, "metrics.test.ece.bins=10"], parts.arguments[1]), ProgressReporter()
    )
    assert (parts.visits("fit"), parts.visits("calibrate"), parts.visits("evaluate")) == (1, 1, 2)
    assert again["run_id"] != first["run_id"] and again["from_store"] == ["fit", "calibrate"]


def test_what_is_done_is_not_done_again_unless_forced(parts):
    config = compose(parts.arguments[2:], parts.arguments[1])
    first = run(config)
    assert run(config) == first and parts.visits("fit") == 1
    forced = run(compose([*parts.arguments[2:], "force=true"], parts.arguments[1]))
    assert parts.visits("fit") == 2 and forced["from_store"] == []
    assert forced["metrics"] == first["metrics"] and forced["run_id"] == first["run_id"]


NETWORK = [
    *(value for value in TINY if not value.startswith("parent.")),
    "method=kdn",
    "parent.hidden=[8]",
    "parent.max_epochs=8",
    "parent.device=cpu",
]
STAYS_IN_EPOCH_3 = """
import sys, time
from pathlib import Path
from kdgraph.cli.main import main
from kdgraph.parents.networks import checkpoint
from kdgraph.runner.monitoring import ProgressReporter

there, *arguments = sys.argv[1:]

def progress(self, done):
    if done.epoch == 3:
        Path(there).touch()
        time.sleep(60)

checkpoint.SAVE_INTERVAL_SECONDS = 0.0
ProgressReporter.progress = progress
main(["run", *arguments])
"""


class Counting(ProgressReporter):
    """Keeps the epochs that were trained."""

    def __init__(self):
        self.epochs = []

    def progress(self, done):
        self.epochs.append(done.epoch)


def test_a_training_that_was_killed_goes_on_to_the_same_bits(tmp_path):
    killed, whole = [[*NETWORK, f"out={tmp_path / name}"] for name in ("killed", "whole")]
    command = [sys.executable, "-c", STAYS_IN_EPOCH_3, str(tmp_path / "there"), *killed]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        wait_until((tmp_path / "there").exists)
        process.send_signal(signal.SIGKILL)
    (state,) = (tmp_path / "killed").rglob("*.training")
    leftover = state.with_name(f".{state.name}.4711")  # of a process that was killed while it wrote
    leftover.write_bytes(state.read_bytes()[:1000])

    resumed, uninterrupted = Counting(), Counting()
    run(compose(killed), resumed)
    run(compose(whole), uninterrupted)
    assert uninterrupted.epochs == [1, 2, 3, 4, 5, 6, 7, 8] and resumed.epochs == [4, 5, 6, 7, 8]
    first, second = [
        pd.read_parquet(*(tmp_path / name).rglob("predictions.parquet"))
        for name in ("killed", "whole")
    ]
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert (
        not state.exists()
        and not leftover.exists()
        and not list((tmp_path / "killed").rglob("*.lock"))
    )
