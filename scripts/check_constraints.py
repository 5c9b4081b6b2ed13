"""Check that constraints.txt resolves, for every Python that pyproject.toml names, and pins all
that gets installed.

Run it after changing dependencies in pyproject.toml or versions in constraints.txt::

    .venv/bin/python scripts/check_constraints.py

It queries the package index, installs nothing, and ends with exit code 1 if a version of Python
does not resolve or a package has no pin.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = "dev,peers,trackers"
SOURCE_ONLY = ("antlr4-python3-runtime", "autograd-gamma", "liac-arff")
"""Published without a wheel. pip resolves for another Python from wheels alone, so one is built of
each first; they are pure Python.
"""

UNPINNED = re.compile(r"(nvidia|cuda)-.+|triton|kdgraph")
"""kdgraph, and what torch's CUDA build needs, which is the one that a package index may have for a
Python where it has none for the CPU alone. torch requires these at exact versions, which a pin
could only contradict.
"""


def main() -> int:
    """Resolve for each Python and print one line for it."""
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if "==" in line)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classifiers = "\n".join(project["classifiers"])
    failed = False
    with tempfile.TemporaryDirectory() as wheels:
        sources = [f"{name}=={pins[name]}" for name in SOURCE_ONLY]
        pip("wheel", "--no-deps", "--wheel-dir", wheels, *sources)
        for version in re.findall(r"Python :: (\d+\.\d+)", classifiers):
            problem, count = resolve(version, wheels, {normalized(name) for name in pins})
            failed |= bool(problem)
            print(f"Python {version}: {problem or f'{count} packages, all pinned'}")
    return int(failed)


def resolve(version: str, wheels: str, pinned: set[str]) -> tuple[str | None, int]:
    """Return what is wrong with the resolution for a version of Python, or None, and the number of
    packages in it.
    """
    options = ["--dry-run", "--ignore-installed", "--report", "-", "--only-binary", ":all:"]
    folders = ["--target", wheels, "--find-links", wheels, "--constraint", str(CONSTRAINTS)]
    try:
        report = pip(
            *("install", *options, *folders, "--python-version", version, f"{ROOT}[{EXTRAS}]")
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return next((line for line in lines if line.startswith("ERROR")), lines[0]), 0
    names = {normalized(item["metadata"]["name"]) for item in json.loads(report)["install"]}
    loose = sorted(name for name in names - pinned if not UNPINNED.fullmatch(name))
    return (f"not pinned: {', '.join(loose)}" if loose else None), len(names)


def pip(*arguments: str) -> str:
    """Return the standard output of a quiet call of pip."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def normalized(name: str) -> str:
    """Return the one spelling of a package's name that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
