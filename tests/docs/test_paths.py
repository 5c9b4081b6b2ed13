"""Files and folders of the repository that pages and the texts beside them name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kdgraph.config.yaml_files import is_option

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "ARCHITECTURE")]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *TEXTS])
PATH = re.compile(
    r"(?<![\w./-])(?:kdgraph|conf|experiments|scripts|tests)/[\w./*-]*[\w*](?![\w/<{…])"
)
MODULE = re.compile(r"`([\w./-]+/[\w-]+\.py)`")
"""A module, perhaps without its first folders, as in a table of the modules of a package."""
WRITTEN_BY_THE_READER = re.compile(r"^# (conf/\S+\.yaml)$", re.MULTILINE)
"""First line of a file that the reader of a page writes."""


def names(text: str) -> set[str]:
    """Return the paths that a text names, without files that its reader writes."""
    return set(PATH.findall(text)) - set(WRITTEN_BY_THE_READER.findall(text))


def exists(path: str) -> bool:
    """Return whether a path exists, also as a pattern or as a preset of a table."""
    return is_option(ROOT / path) or any(ROOT.glob(path))


@cache
def modules() -> set[str]:
    """Return the paths of all modules, with a slash in front."""
    folders = ("kdgraph", "docs", "experiments", "scripts", "tests")
    return {
        f"/{path.relative_to(ROOT)}" for name in folders for path in (ROOT / name).rglob("*.py")
    }


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_paths_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    assert [path for path in sorted(names(text)) if not exists(path)] == []
    assert [
        name
        for name in sorted(set(MODULE.findall(text)))
        if not any(path.endswith(f"/{name}") for path in modules())
    ] == []


def test_paths_are_found_and_missing_ones_refused():
    text = "`kdgraph/errors.py`, conf/dataset/iris.yaml, kdgraph/no.py; conf/<group>/x, a/tests/b\n"
    assert names(text) == {"kdgraph/errors.py", "conf/dataset/iris.yaml", "kdgraph/no.py"}
    assert [path for path in sorted(names(text)) if not exists(path)] == ["kdgraph/no.py"]
    assert exists("tests/*/test_paths.py")
    assert (
        names("```yaml\n# conf/gate/custom.yaml\nname: custom\n```\nSee conf/gate/custom.yaml.\n")
        == set()
    )
