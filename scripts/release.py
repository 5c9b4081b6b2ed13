"""Check a release, and build the documentation of a version beside those of others.

::

    .venv/bin/python scripts/release.py check v0.1.0
    .venv/bin/python scripts/release.py docs versions

``check`` compares a tag with the version in ``kdgraph/__init__.py``, in CITATION.cff and in
CHANGELOG.md, and ends with exit code 1 where they differ. ``docs`` builds the site into
``versions/0.1.0`` and lists all versions of the folder, the latest first, in ``index.html`` and
``versions.json``. The folder can be served, or opened, as it is. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
"""Versions of releases and of their candidates, as the tags have them after ``v``."""
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>kdgraph: documentation by version</title>
<style>body {{ font-family: sans-serif; margin: 2em auto; max-width: 40em; padding: 0 1em }}</style>
<h1>kdgraph: documentation by version</h1>
<ul>
{items}
</ul>
</html>
"""


def current_version() -> str:
    """Return the version in ``kdgraph/__init__.py``, without importing it."""
    text = (ROOT / "kdgraph" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if match is None:
        raise SystemExit("kdgraph/__init__.py has no line __version__ = '…'")
    return match[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps a tag from being a release, a line for each reason.

    Parameters
    ----------
    tag : str
        Tag of the commit: ``v`` and the version.
    root : Path
        Folder with CITATION.cff and CHANGELOG.md.
    """
    version, lines = current_version(), []
    if tag != f"v{version}":
        lines.append(f"the tag is {tag}, and the version in kdgraph/__init__.py is {version}")
    if VERSION.fullmatch(version) is None:
        lines.append(f"{version} is no version of a release, such as 1.2.3 or 1.2.3rc1")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if not re.search(rf"^version: [\"']?{re.escape(version)}[\"']?$", citation, re.MULTILINE):
        lines.append(f"CITATION.cff has another version than {version}")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\]", changes, re.MULTILINE):
        lines.append(f"CHANGELOG.md has no section '## [{version}]'")
    return lines


def list_versions(folder: Path) -> list[str]:
    """Write ``index.html`` and ``versions.json`` of the versions in a folder, and return these.

    Parameters
    ----------
    folder : Path
        Folder with a site in a folder for each version. The latest release is marked; a candidate
        is never the latest where there is a release.

    Returns
    -------
    list of str
        Versions, the highest first.
    """
    folders = [path.parent.name for path in folder.glob("*/index.html")]
    versions = sorted(filter(VERSION.fullmatch, folders), key=Version, reverse=True)
    releases = [version for version in versions if not Version(version).is_prerelease]
    latest = next(iter(releases or versions), None)
    entries = [
        {"version": each, "title": each, "aliases": ["latest"] if each == latest else []}
        for each in versions
    ]
    items = "\n".join(
        f'<li><a href="{html.escape(version)}/index.html">{html.escape(version)}</a>'
        f"{' (latest)' if version == latest else ''}</li>"
        for version in versions
    )
    (folder / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(PAGE.format(items=items), encoding="utf-8")
    return versions


def build_docs(folder: Path) -> list[str]:
    """Build the site of the current version into a folder of its own, and list all versions.

    Parameters
    ----------
    folder : Path
        Folder of all versions; made where it is absent. A site of the same version is replaced.
    """
    target = folder / current_version()
    if VERSION.fullmatch(target.name) is None:
        raise SystemExit(f"{target.name} is no version of a release, such as 1.2.3 or 1.2.3rc1")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"),
            *("--site-dir", str(target.resolve())),
        ],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return list_versions(folder)


def main(arguments: list[str] | None = None) -> int:
    """Run the command that is named, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("tag")
    commands.add_parser("docs").add_argument("folder", type=Path)
    args = parser.parse_args(arguments)
    if args.command == "check":
        lines = problems(args.tag)
        print("\n".join(lines or [f"{args.tag} can be released"]))
        return int(bool(lines))
    print(f"{args.folder / 'index.html'}: {', '.join(build_docs(args.folder))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
