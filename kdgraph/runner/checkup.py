"""Check of this machine: the findings of ``kdg doctor``."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kdgraph.runner.record import git_state, library_versions
from kdgraph.runner.store import STORE_FOLDER
from kdgraph.wording import counted

SUBSTITUTES = {"xgboost-cpu": "xgboost", "mlflow-skinny": "mlflow"}
"""Distribution that an extra names → one that has the same modules, and serves as well."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Finding:
    """One line of the check; ``wrong`` if kdgraph does not work without the remedy."""

    name: str
    value: str
    remedy: str = ""
    wrong: bool = False


def check_up(out: Path) -> Iterator[Finding]:
    """Yield all findings, the most basic first; ``out`` has the runs. Nothing is fetched."""
    versions = library_versions()
    yield Finding("kdgraph", _kdgraph(versions.pop("kdgraph")))
    yield Finding(
        "python", f"{versions.pop('python')} on {platform.platform(terse=True)}, {sys.executable}"
    )
    yield Finding("libraries", ", ".join(f"{name} {number}" for name, number in versions.items()))
    yield from _extras()
    yield from (_cores(), _memory(), _gpu())
    yield _folder("outputs", out, "--out", lambda: _runs(out))
    yield _kernels()
    yield _data()


def _kdgraph(version: str) -> str:
    from kdgraph.config.composer import conf_dir

    git, source = git_state(), "an installed package"
    if git and git["commit"]:
        source = f"commit {git['commit'][:10]}" + (", with changes" if git["dirty"] else "")
    return f"{version}, {source}; configs in {conf_dir()}"


def _extras() -> Iterator[Finding]:
    """Yield whether each extra of the installed kdgraph is installed, by its metadata."""
    try:
        names = metadata("kdgraph").get_all("Provides-Extra") or []
    except PackageNotFoundError:
        yield Finding("extras", "unknown: kdgraph runs from a folder, without being installed")
        return
    for name in names:
        missing = sorted(_missing_of_extra(name))
        value = f"not installed: {', '.join(missing)}" if missing else "installed"
        remedy = f"pip install 'kdgraph[{name}]'" if missing else ""
        yield Finding(f"extra {name}", value, remedy)


def _missing_of_extra(name: str) -> set[str]:
    """Return the distributions of an extra, and of the extras that it names, that are absent."""
    missing = set()
    for text in requires("kdgraph") or []:
        requirement = Requirement(text)
        if requirement.marker is None or not requirement.marker.evaluate({"extra": name}):
            continue
        if requirement.name == "kdgraph":
            missing |= set().union(*map(_missing_of_extra, requirement.extras))
        elif not {requirement.name, SUBSTITUTES.get(requirement.name)} & _distributions():
            missing.add(requirement.name)
    return missing


@cache
def _distributions() -> frozenset[str]:
    return frozenset(canonicalize_name(one.name) for one in distributions())


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [f"{name}={os.environ[name]}" for name in THREADS if name in os.environ]
    return Finding(
        "cores",
        f"{usable} of {os.cpu_count()} for this process"
        + (f"; {', '.join(limits)}" if limits else ""),
    )


def _memory() -> Finding:
    try:
        total, free = (
            os.sysconf("SC_PAGE_SIZE") * os.sysconf(name)
            for name in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES")
        )
    except (ValueError, OSError):
        return Finding("memory", "unknown here")
    return Finding("memory", f"{total / 1e9:.1f} GB, {free / 1e9:.1f} GB of them unused")


def _gpu() -> Finding:
    try:
        import torch
    except ModuleNotFoundError:
        return Finding("GPU", "unknown without torch, which networks need")
    if not torch.cuda.is_available():
        return Finding("GPU", "none that torch can use; networks run on the CPU")
    devices = [
        torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())
    ]
    return Finding(
        "GPU",
        ", ".join(f"{device.name} with {device.total_memory / 1e9:.0f} GB" for device in devices),
    )


def _folder(name: str, folder: Path, setting: str, contents: Callable[[], str]) -> Finding:
    """Return whether files can be written to a folder, its contents, and the free disk space.

    ``setting`` names another folder.
    """
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding(
            name,
            f"{folder} cannot be written to ({error.strerror})",
            f"{setting}=DIR names another folder; or change the rights of {existing}",
            True,
        )
    free = shutil.disk_usage(existing).free / 1e9
    full = f"the disk has {free:.1f} GB left; 'kdg gc' frees what no run needs" if free < 2 else ""
    return Finding(
        name, f"{folder}: {contents()}; {free:.0f} GB free on its disk", full, wrong=free < 0.2
    )


def _runs(out: Path) -> str:
    n_runs = sum(1 for _ in out.glob("*/*/*/result.json"))
    stored = sum(path.stat().st_size for path in (out / STORE_FOLDER).rglob("*") if path.is_file())
    return f"{n_runs:,} finished runs, {stored / 1e9:.2f} GB in the store"


def _kernels() -> Finding:
    """Return where numba keeps compiled kernels, by one that stands for those of all packages."""
    from kdgraph.compilation import CACHE_VARIABLE, kernel_folder
    from kdgraph.smoothing.neighbours import distances_to

    name, folder = "compiled kernels", kernel_folder(distances_to)
    if folder.path is not None and folder.is_writable:
        return _folder(name, folder.path, CACHE_VARIABLE, lambda: "kept between runs")
    way_out = f"{CACHE_VARIABLE}=DIR names a folder that can be written to"
    if folder.path is None:
        return Finding(name, "compiled anew in each process: no folder can be written to", way_out)
    return Finding(name, f"read from {folder.path}; others are compiled in each process", way_out)


def _data() -> Finding:
    from kdgraph.data.openml.cache import cache_folder, cached_ids, cached_size

    def contents() -> str:
        ids = cached_ids()
        size = sum(map(cached_size, ids)) / 1e6
        return f"{counted(len(ids), 'data set')}, {size:,.0f} MB ('kdg data list' shows them)"

    return _folder("data", cache_folder(), "OPENML_CACHE_DIR", contents)
