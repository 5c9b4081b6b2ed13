"""The wheel and its content, the pinned constraints, and the Makefile."""

from __future__ import annotations

import json
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
    """Wheel, built as by pip but without network and build isolation."""
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
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder outside the checkout with the unpacked wheel, as an installation would leave it."""
    folder = tmp_path_factory.mktemp("site")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_python(site: Path, code: str, *arguments: str, **environment: str) -> str:
    """Return standard output of code that imports kdgraph from ``site``."""
    env = os.environ | {"PYTHONPATH": str(site)} | environment
    return output_of([sys.executable, "-c", code, *arguments], cwd=site.parent, env=env)


def output_of(command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> str:
    process = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def source_files(folder: Path) -> set[str]:
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if "__pycache__" not in name and not name.endswith(".DS_Store")}


def test_wheel_has_the_package_and_the_configurations_only(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        members = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {f"kdgraph/{name}" for name in source_files(ROOT / "kdgraph")}
    configurations = {f"kdgraph/conf/{name}" for name in source_files(ROOT / "conf")}
    assert members == package | configurations
    assert {
        "kdgraph/py.typed",
        "kdgraph/conf/config.yaml",
        "kdgraph/conf/dataset/spiral.yaml",
    } <= members


def test_wheel_metadata_have_license_version_and_python(wheel: Path) -> None:
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


def test_installed_copy_is_imported_outside_the_checkout(installed: Path) -> None:
    path = run_python(installed, "import kdgraph; print(kdgraph.__file__)").strip()
    assert Path(path).is_relative_to(installed)


def test_installed_kdg_lists_the_configurations(installed: Path) -> None:
    output = run_python(installed, CALL_KDG, "list", "dataset", COLUMNS="200")
    missing = [
        path.stem
        for path in (ROOT / "conf" / "dataset").glob("[!_]*.yaml")
        if path.stem not in output
    ]
    assert "spiral" in output
    assert not missing


def test_installed_kdg_composes_the_default_run(installed: Path) -> None:
    output = run_python(installed, CALL_KDG, "run", "--cfg", "job", "--package", "dataset")
    assert "name: spiral" in output


def pinned_versions() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in lines if not line.startswith("#"))
    }


def transitive_requirements(requirements: list[str]) -> set[str]:
    """Return the names of the required packages and of all packages that these require.

    The requirements of packages that are not installed are unknown and left out.
    """
    visited: set[tuple[str, str]] = set()
    queue = [Requirement(text) for text in requirements]
    while queue:
        package = queue.pop()
        for extra in ("", *package.extras):
            if (package.name, extra) in visited:
                continue
            visited.add((package.name, extra))
            queue += [
                requirement
                for requirement in map(Requirement, direct_requirements(package.name))
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            ]
    return {canonicalize_name(name) for name, _ in visited}


def direct_requirements(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def declared_requirements() -> list[str]:
    """Return what the package and its extra ``dev`` require, with the extras that this names."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["dev"]]
    for line in lines:  # which grows
        if line.startswith("kdgraph["):
            lines += [inner for extra in Requirement(line).extras for inner in extras[extra]]
    return [line for line in lines if not line.startswith("kdgraph[")]


def test_constraints_pin_every_package_that_gets_installed() -> None:
    assert transitive_requirements(declared_requirements()) - set(pinned_versions()) == set()


def test_constraints_lie_within_the_declared_ranges() -> None:
    requirements = [Requirement(line) for line in declared_requirements()]
    versions = pinned_versions()
    assert [
        requirement.name
        for requirement in requirements
        if not requirement.specifier.contains(versions[canonicalize_name(requirement.name)])
    ] == []


def environment_without_make() -> dict[str, str]:
    """Return the environment without the variables of an outer ``make test``.

    With them an inner make prints more and takes over the outer variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    }


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_refuses_an_old_python_in_one_line(tmp_path: Path) -> None:
    old_python = tmp_path / "python3"
    old_python.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18 || exit 1\n')
    old_python.chmod(0o755)
    process = subprocess.run(
        ["make", "run", f"PYTHON={old_python}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        env=environment_without_make(),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert (
        process.stderr.splitlines()[0]
        == f"kdgraph needs Python 3.11 or newer; {old_python} is Python 3.9.18; name another: make"
        " run PYTHON=python3.12"
    )
    assert not (tmp_path / "venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_names_every_command() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    output = output_of(["make", "help"], cwd=ROOT, env=environment_without_make())
    assert [line.split()[1] for line in output.splitlines()] == phony[1].split()


@pytest.fixture
def other_checkout(tmp_path: Path) -> Path:
    """Return a folder in whose ``.venv`` kdgraph is installed from it."""
    checkout = tmp_path / "another checkout"
    record = checkout / ".venv/lib/python3.12/site-packages/kdgraph-0.1.dist-info/direct_url.json"
    record.parent.mkdir(parents=True)
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    record.write_text(json.dumps(origin))
    return checkout


def check_venv(*arguments: object) -> tuple[int, str]:
    process = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check_venv.py", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    return process.returncode, process.stdout + process.stderr


def test_an_environment_of_another_checkout_is_refused(other_checkout: Path) -> None:
    venv = other_checkout / ".venv"
    for target in ("test", "clean"):
        code, line = check_venv(venv, target)
        assert code == 1 and line == (
            f"{venv} has kdgraph installed from {other_checkout}, and this checkout is {ROOT};"
            f" make {target} without VENV=… uses .venv of this checkout\n"
        )


def test_an_install_from_a_checkout_that_is_gone_is_repeated(
    other_checkout: Path, tmp_path: Path
) -> None:
    venv = (other_checkout / ".venv").rename(tmp_path / "venv")
    stamps = [venv / ".run", venv / ".dev"]
    for stamp in stamps:
        stamp.touch()
    assert check_venv(venv, "forget-gone") == (0, "") and all(map(Path.exists, stamps))
    other_checkout.rmdir()
    for target in ("run", "clean", "forget-gone"):
        assert check_venv(venv, target) == (0, "")
    assert not any(map(Path.exists, stamps))


def test_environment_of_this_checkout_is_accepted(tmp_path: Path) -> None:
    assert check_venv(tmp_path / "nothing", "run") == (0, "")
    record = tmp_path / "lib/python3.12/site-packages/kdgraph-0.1.dist-info/direct_url.json"
    record.parent.mkdir(parents=True)
    for text in (
        '{"url": "file:///x", "dir_info": {}}',
        '{"url": "',
        json.dumps({"url": ROOT.as_uri(), "dir_info": {"editable": True}}),
    ):
        record.write_text(text)
        assert check_venv(tmp_path, "run") == (0, "")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["run", "test", "clean"])
def test_make_keeps_the_environment_of_another_checkout(tmp_path: Path, target: str) -> None:
    record = tmp_path / "lib/python3.12/site-packages/kdgraph-0.1.dist-info/direct_url.json"
    record.parent.mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    record.write_text(json.dumps({"url": other.as_uri(), "dir_info": {"editable": True}}))
    process = subprocess.run(
        ["make", target, f"VENV={tmp_path}", f"PYTHON={sys.executable}"],
        cwd=ROOT,
        env=environment_without_make(),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert process.stderr.startswith(f"{tmp_path} has kdgraph installed from {other}, and this")
    assert record.exists() and not (tmp_path / ".created").exists()
