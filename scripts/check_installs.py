"""Check kdgraph in environments that have as little, or as much, as its metadata admit.

::

    python scripts/check_installs.py library wheel floors newest

- ``library``: the library beside its six packages alone;
- ``wheel``: the wheel without extras: the README's example of the library and of the command, and
  the line for a network;
- ``floors``: the wheel with the lowest version of each requirement, and the library's quick tests;
- ``newest``: the same with the newest version of each requirement that the index has.

Each environment is made in a temporary folder, from the package index; ``library`` and ``wheel``
have the versions of ``constraints.txt``. It prints how long an install takes and how large it is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("base", "calibration", "density", "deployment", "detection", "distributions", "features"),
    *("fitted", "geometry", "metrics", "parents", "persistence", "recalibration", "smoothing"),
)
"""Packages of the library; ``data`` is half of the command's."""
LIBRARY = ("joblib", "numba", "numpy", "pandas", "scikit-learn", "scipy")
"""Packages that the library needs."""
TEST_TOOLS = ("filelock", "hypothesis", "pytest", "pytest-xdist", "torch")
"""Packages that the quick tests of the library need too."""
NO_TORCH = "needs torch: pip install 'kdgraph[torch]'"
RUN = ("dataset=spiral", "method=kdf")


class Environment:
    """A new virtual environment.

    Parameters
    ----------
    folder : Path
        An empty folder, which becomes the home folder of its processes, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)

    def install(self, *requirements: str, constraints: Path | None = None) -> None:
        """Install requirements, and print the time and the size of all that is installed."""
        pip = [self.python, "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", "--upgrade", "pip"], check=True)
        before, began = self.megabytes(), time.perf_counter()
        pinned = ["--constraint", constraints] if constraints else []
        subprocess.run([*pip, "install", "--quiet", *pinned, *requirements], check=True)
        installed = [after - first for after, first in zip(self.megabytes(), before, strict=True)]
        print(
            f"  installed in {time.perf_counter() - began:.0f} s: {installed[0]:.0f} MB, and"
            f" {installed[1]:.0f} MB of compiled Python",
            flush=True,
        )

    def megabytes(self) -> tuple[float, float]:
        """Return the size of the files of packages, and of their compiled Python."""
        files = [path for path in (self.folder / "venv").rglob("*") if path.is_file()]
        compiled = sum(path.stat().st_size for path in files if path.suffix == ".pyc")
        return sum(path.stat().st_size for path in files) / 1e6 - compiled / 1e6, compiled / 1e6

    def run(
        self, *arguments: str | Path, code: int = 0, cwd: Path | None = None, **variables: str
    ) -> str:
        """Return what Python prints on stdout and stderr; ``cwd`` is the folder unless given.

        Raises
        ------
        SystemExit
            It ends with another exit code.
        """
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(self.folder),
            **variables,
        }
        process = subprocess.run(
            [self.python, *arguments],
            cwd=cwd or self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if process.returncode != code:
            raise SystemExit(f"{process.stdout}\nexit code {process.returncode}, expected {code}")
        return process.stdout


def check_library(environment: Environment) -> None:
    """Check the library beside its six packages, which install nothing of kdgraph."""
    environment.install(*LIBRARY, constraints=ROOT / "constraints.txt")
    print(environment.run(ROOT / "scripts" / "check_library.py", PYTHONPATH=str(ROOT)), end="")


def check_wheel(environment: Environment) -> None:
    """Check the wheel without extras: both examples of the README, and a network's refusal."""
    environment.install(str(build_wheel(environment)), constraints=ROOT / "constraints.txt")
    check_command_and_library(environment)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^## As a library\n+```python\n(.*?)^```", readme, re.M | re.S)
    print(environment.run("-c", example), end="")
    line = environment.run("-m", "kdgraph", "run", "dataset=spiral", "method=kdn", code=2)
    if line.count("\n") != 1 or NO_TORCH not in line:
        raise SystemExit(f"a network without torch: {line}")
    print(line, end="")


def check_floors(environment: Environment) -> None:
    """Check the wheel with the lowest version of each requirement."""
    floors = environment.folder / "floors.txt"
    floors.write_text("\n".join(f"{name}=={version}" for name, version in lowest().items()))
    check_newest(environment, constraints=floors)


def check_newest(environment: Environment, constraints: Path | None = None) -> None:
    """Check the wheel with the newest version of each requirement that is allowed."""
    environment.install(str(build_wheel(environment)), constraints=constraints)
    check_command_and_library(environment)
    run_quick_tests(environment)


def check_command_and_library(environment: Environment) -> None:
    """Run a command twice, which finds its first run, and the checks of the library."""
    first = environment.run("-m", "kdgraph", "run", *RUN)
    if "result.json" not in first:
        raise SystemExit(f"kdg run printed no result: {first}")
    print(environment.run(ROOT / "scripts" / "check_library.py"), end="")


def run_quick_tests(environment: Environment) -> None:
    """Run the quick tests of the library, for which pytest is installed, and torch as pinned.

    Libraries may deprecate what another one of them calls; that is no failure here.
    """
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    environment.install(*(pin for pin in pins if pin.partition("==")[0] in TEST_TOOLS))
    folders = [f"tests/{name}" for name in PACKAGES]
    options = ["-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
    ignored = ["-W", "ignore::DeprecationWarning", "-W", "ignore::pytest.PytestDeprecationWarning"]
    printed = environment.run(
        *("-m", "pytest", *options, *ignored, *folders),
        cwd=ROOT,
        OMP_NUM_THREADS="1",
        NUMBA_CACHE_DIR=str(environment.folder),
    )
    print(f"  quick tests: {printed.rstrip().splitlines()[-1]}")


def build_wheel(environment: Environment) -> Path:
    """Return a wheel of this checkout."""
    pip = [environment.python, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", environment.folder, ROOT], check=True)
    (wheel,) = environment.folder.glob("kdgraph-*.whl")
    return wheel


def lowest() -> dict[str, str]:
    """Return the lowest version of each requirement by its name.

    >>> lowest()["omegaconf"]
    '2.3'
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pairs = [re.match(r"([\w-]+)>=([\d.]+)", line) for line in project["dependencies"]]
    return {pair[1]: pair[2] for pair in pairs if pair}


CHECKS: dict[str, Callable[[Environment], None]] = {
    "library": check_library,
    "wheel": check_wheel,
    "floors": check_floors,
    "newest": check_newest,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the environments that are named, and check kdgraph in each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", nargs="+", choices=sorted(CHECKS))
    for name in parser.parse_args(arguments).name:
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            CHECKS[name](Environment(Path(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
