"""What is delivered: the wheel and what travels in it, the pins, and the first words of the
Makefile.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kdgraph

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CALL_KDG = (
    "import sys; from importlib.metadata import entry_points as e;"
    " sys.exit(e(group='console_scripts', name='kdg')['kdg'].load()())"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as pip would but without a network and without a build environment of its
    own.
    """
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    output_of(command, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the checkout into which the wheel was unpacked, which is what installing a
    pure one comes to.
    """
    folder = tmp_path_factory.mktemp("site")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python_at(site: Path, code: str, *arguments: str, **environment: str) -> str:
    """Standard output of code that runs in ``site`` and imports kdgraph from there."""
    env = os.environ | {"PYTHONPATH": str(site)} | environment
    return output_of([sys.executable, "-c", code, *arguments], cwd=site.parent, env=env)


def output_of(command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_below(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name and not name.endswith(".DS_Store")}


def test_the_wheel_holds_the_package_the_configurations_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {f"kdgraph/{name}" for name in files_below(ROOT / "kdgraph")}
    configurations = {f"kdgraph/conf/{name}" for name in files_below(ROOT / "conf")}
    assert inside == package | configurations
    assert {
        "kdgraph/py.typed",
        "kdgraph/conf/config.yaml",
        "kdgraph/conf/dataset/spiral.yaml",
    } <= inside


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        info = f"kdgraph-{kdgraph.__version__}.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    for line in (
        "Requires-Python: >=3.11",
        "License-Expression: BSD-3-Clause",
        f"Version: {kdgraph.__version__}",
    ):
        assert f"\n{line}\n" in metadata


def test_installed_elsewhere_it_is_that_copy_that_runs(elsewhere: Path) -> None:
    assert Path(
        python_at(elsewhere, "import kdgraph; print(kdgraph.__file__)").strip()
    ).is_relative_to(elsewhere)


def test_installed_elsewhere_kdg_finds_the_configurations(elsewhere: Path) -> None:
    listed = python_at(elsewhere, CALL_KDG, "list", "dataset", COLUMNS="200")
    missing = [
        path.stem
        for path in (ROOT / "conf" / "dataset").glob("[!_]*.yaml")
        if path.stem not in listed
    ]
    assert "spiral" in listed
    assert not missing


def test_installed_elsewhere_kdg_composes_the_default_run(elsewhere: Path) -> None:
    shown = python_at(elsewhere, CALL_KDG, "run", "--cfg", "job", "--package", "dataset")
    assert "name: spiral" in shown


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines if not line.startswith("#"))
    }


def closure(wanted: list[str]) -> set[str]:
    """Names of all packages that requirements bring in here, as far as they are installed."""
    seen: set[tuple[str, str]] = set()
    queue = [Requirement(text) for text in wanted]
    while queue:
        needed = queue.pop()
        for extra in ("", *needed.extras):
            if (needed.name, extra) in seen:
                continue
            seen.add((needed.name, extra))
            found = [Requirement(text) for text in requires_of(needed.name)]
            queue += [
                each
                for each in found
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
    return {canonicalize_name(name) for name, _ in seen}


def requires_of(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def test_constraints_pin_every_package_that_gets_installed() -> None:
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    assert closure(wanted) - set(pins()) == set()


def test_constraints_lie_within_the_declared_ranges() -> None:
    declared = [
        Requirement(text)
        for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]
    ]
    pinned = pins()
    assert [
        each.name
        for each in declared
        if not each.specifier.contains(pinned[canonicalize_name(each.name)])
    ] == []


def outside_make() -> dict[str, str]:
    """The environment without what ``make test`` hands on, which would make an inner make talk more
    and take over its variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    }


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_an_old_python_gets_one_line_with_the_way_out(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18 || exit 1\n')
    old.chmod(0o755)
    call = ["make", "run", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(call, cwd=ROOT, env=outside_make(), capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr.splitlines()[0]
        == f"kdgraph needs Python 3.11 or newer; {old} is Python 3.9.18; name another: make run"
        " PYTHON=python3.12"
    )
    assert not (tmp_path / "venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_names_every_command() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    shown = output_of(["make", "help"], cwd=ROOT, env=outside_make())
    assert [line.split()[1] for line in shown.splitlines()] == phony[1].split()
