"""Check that constraints.txt resolves, for every Python that pyproject.toml names, and pins all
that gets installed.

Run it after changing dependencies in pyproject.toml or versions in constraints.txt::

    .venv/bin/python scripts/check_constraints.py

It asks the package index, installs nothing, and ends with exit code 1 if a version of Python does
not resolve or a package has no pin.
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
SOURCE_ONLY = ("antlr4-python3-runtime", "autograd-gamma", "liac-arff")
"""Published without a wheel. pip resolves for another Python from wheels alone, so one is built of
each first; they are pure Python.
"""

CUDA = re.compile(r"(nvidia|cuda)-.+|triton")
"""What torch's CUDA build needs, which is the one that a package index may have for a Python where
it has none for the CPU alone. torch itself requires these at exact versions, so its pin decides
them all, and pins of ours could only contradict it.
"""


def main() -> int:
    """Resolve for each Python and print one line for it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(line for extra in ("dev", "peers", "trackers") for line in required_by(extra, extras)),
    ]
    pins = dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if "==" in line)
    failed = False
    with tempfile.TemporaryDirectory() as wheels:
        pip(
            "wheel",
            "--no-deps",
            "--wheel-dir",
            wheels,
            *(f"{name}=={pins[name]}" for name in SOURCE_ONLY),
        )
        for version in pythons(project["classifiers"]):
            problem, count = resolve(version, wanted, wheels, {normal(name) for name in pins})
            failed |= bool(problem)
            print(f"Python {version}: {problem or f'{count} packages, all pinned'}")
    return int(failed)


def required_by(extra: str, extras: dict[str, list[str]]) -> list[str]:
    """Requirements of an extra, with those of the project's other extras that it names."""
    wanted = []
    for line in extras[extra]:
        others = re.fullmatch(r"kdgraph\[(.+)\]", line)
        names = others[1].split(",") if others else []
        wanted += [line] if not others else [r for name in names for r in required_by(name, extras)]
    return wanted


def pythons(classifiers: list[str]) -> list[str]:
    """Versions of Python that the package says it supports, as "3.11"."""
    return [
        found[1]
        for line in classifiers
        if (found := re.fullmatch(r"Programming Language :: Python :: (\d+\.\d+)", line))
    ]


def resolve(
    version: str, wanted: list[str], wheels: str, pinned: set[str]
) -> tuple[str | None, int]:
    """What is wrong with the resolution for one version of Python, or None, and the number of
    packages in it.
    """
    try:
        found = pip(
            *(
                "install",
                "--dry-run",
                "--ignore-installed",
                "--report",
                "-",
                "--python-version",
                version,
                "--only-binary",
                ":all:",
            ),
            *(
                "--target",
                wheels,
                "--find-links",
                wheels,
                "--constraint",
                str(CONSTRAINTS),
                *wanted,
            ),
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        return next((line for line in said if line.startswith("ERROR")), said[0]), 0
    names = {normal(item["metadata"]["name"]) for item in json.loads(found)["install"]}
    loose = sorted(name for name in names - pinned if not CUDA.fullmatch(name))
    return (f"not pinned: {', '.join(loose)}" if loose else None), len(names)


def pip(*arguments: str) -> str:
    """Standard output of a quiet call of pip."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def normal(name: str) -> str:
    """Return the one spelling of a package's name that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
