"""Refuse a virtual environment in which another checkout of kdgraph is installed.

The Makefile calls it before it installs, runs, tests or cleans: an editable install from here
would make the ``kdg`` of the other checkout run the code of this one, and without an install the
tests would run the code of the other one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parents[1]


def main(venv: Path, target: str) -> int:
    """Print a line and return 1 if another checkout is installed in ``venv``.

    If that checkout is gone or was moved, the install is to be repeated: with ``target``
    "forget-gone", which make calls before it looks at its stamps, these are removed.
    """
    other = installed_checkout(venv)
    if other is None or other.resolve() == ROOT:
        return 0
    if not other.exists():
        if target == "forget-gone":
            for stamp in (".run", ".dev"):
                (venv / stamp).unlink(missing_ok=True)
        return 0
    is_inside = venv.resolve().is_relative_to(ROOT)
    if target == "forget-gone" or (target == "clean" and is_inside):
        return 0
    way_out = (
        "'make clean' removes it"
        if is_inside
        else f"make {target} without VENV=… uses .venv of this checkout"
    )
    print(
        f"{venv} has kdgraph installed from {other}, and this checkout is {ROOT}; {way_out}",
        file=sys.stderr,
    )
    return 1


def installed_checkout(venv: Path) -> Path | None:
    """Return the folder of the editable install of kdgraph; None if there is none."""
    for path in venv.glob("lib*/python*/site-packages/kdgraph-*.dist-info/direct_url.json"):
        try:
            origin = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # an install that was cut off; pip repeats it
            continue
        url = urlparse(origin.get("url", ""))
        if url.scheme == "file" and origin.get("dir_info", {}).get("editable"):
            return Path(unquote(url.path))
    return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
