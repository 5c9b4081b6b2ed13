"""Where a number comes from: code, versions, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "torch",
    "pandas",
    "matplotlib",
    "hydra-core",
)


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return version by name: of kdgraph, Python, :data:`LIBRARIES` and ``packages``, as far as
    they are installed.
    """
    import kdgraph

    found = {"kdgraph": kdgraph.__version__, "python": platform.python_version()}
    for name in (*LIBRARIES, *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def git() -> dict[str, Any] | None:
    """``{commit, dirty}`` of the checkout that kdgraph runs from, or None if it runs from an
    installed package.

    Asked once in a process: that is when its code was read.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    commit, status = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain")
    return None if status is None else {"commit": commit, "dirty": bool(status)}


def host() -> dict[str, Any]:
    """``{name, system, cpus}`` of this machine."""
    return {
        "name": platform.node(),
        "system": platform.platform(terse=True),
        "cpus": os.cpu_count(),
    }


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):  # no git, no commit yet, not our folder
        return None
    return done.stdout.strip()
