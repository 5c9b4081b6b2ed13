"""Small runs, and parts that count their calls and can be slow, given as a user gives his own: by
PYTHONPATH and --config-dir.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood.radii=[0.5,2]",
    "metrics=default",
    "figures=none",
    "n_jobs=1",
]

PARTS = '''
import os, time
from pathlib import Path
from sklearn.ensemble import RandomForestClassifier
from kdgraph.calibration import Uncalibrated
from kdgraph.data.ood.synthetic import Sphere
from kdgraph.data.simulations import Spiral

HERE = Path(__file__).parent

def visit(stage):
    """Note the call; in the process that is told to be slow here, wait for the file "go"."""
    with (HERE / "visits").open("a") as file:
        file.write(stage + "\\\\n")
    if os.environ.get("SLOW") == stage:
        deadline = time.time() + 60
        while not (HERE / "go").exists() and time.time() < deadline:
            time.sleep(0.02)

class SlowSpiral(Spiral):
    def sample(self, n, rng):
        visit("split")
        return super().sample(n, rng)

class SlowForest(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        visit("fit")
        return super().fit(X, y, sample_weight)

class SlowCalibrator(Uncalibrated):
    def _fit_after(self, train, calibration):
        visit("calibrate")
        super()._fit_after(train, calibration)

class SlowSphere(Sphere):
    def sets(self, splits, rng):
        """The evaluation draws all sets; the check before the run draws the first one alone."""
        yield from super().sets(splits, rng)
        visit("evaluate")
'''


class Parts:
    """The folder of the slow parts: calls that were made there, and the command line that uses
    them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "slow_parts.py").write_text(PARTS.replace("\\\\n", "\\n"))
        for group, base, name in (
            ("dataset", "spiral", "SlowSpiral"),
            ("parent", "random_forest", "SlowForest"),
            ("calibrator", "none", "SlowCalibrator"),
            ("ood", "sphere", "SlowSphere"),
        ):
            (folder / "conf" / group).mkdir(parents=True)
            (folder / "conf" / group / "slow.yaml").write_text(
                f"# Slow\ndefaults: [{base}, _self_]\nname: slow\n_target_: slow_parts.{name}\n"
            )
        self.arguments = [
            "--config-dir",
            str(folder / "conf"),
            *TINY,
            *(f"{group}=slow" for group in ("dataset", "parent", "calibrator", "ood")),
        ]
        self.arguments.append(f"out={folder / 'outputs'}")

    def visits(self, stage: str) -> int:
        log = self.folder / "visits"
        return log.read_text().split().count(stage) if log.exists() else 0

    def start(self, *more: str, slow: str = "") -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(Path(__file__).parents[2])]),
            "SLOW": slow,
        }
        command = [sys.executable, "-m", "kdgraph", "run", *self.arguments, *more]
        # Ctrl-C works as in a terminal, also where these tests run in the background of a shell,
        # which has its children ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        finally:
            signal.signal(signal.SIGINT, before)

    def files(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "outputs").rglob(pattern))


@pytest.fixture(scope="session")
def as_user() -> Callable[[int], list[str]]:
    """What to put before a command so that another user runs it, of a group that all of them share;
    only root may.
    """
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root may run a command as another user, with setpriv")
    words = [setpriv, "--regid=3000", "--clear-groups"]
    root = Path(__file__).parents[2]
    code = "import kdgraph.runner.locks"
    if subprocess.run(
        [*words, "--reuid=2001", sys.executable, "-c", code], cwd=root, capture_output=True
    ).returncode:
        pytest.skip("another user may not run this Python, or not read this checkout")
    return lambda uid: [*words, f"--reuid={uid}"]


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Parts:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_parts", raising=False)
    return Parts(tmp_path)


def wait_until(condition, seconds: float = 60) -> None:
    deadline = time.time() + seconds
    while not condition():
        assert time.time() < deadline, "waited in vain"
        time.sleep(0.02)
