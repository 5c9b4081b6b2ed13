"""What every public function of the library says: the shapes of its arrays; and how long a module may be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kdgraph"
LIBRARY = (
    "answers",
    "calibration",
    "data",
    "density",
    "detection",
    "distributions",
    "figures",
    "geometry",
    "metrics",
    "parents",
    "recalibration",
)
MODULES = sorted(path for room in LIBRARY for path in (PACKAGE / room).rglob("*.py"))
SHAPE = re.compile(
    r"\b(Float|Int|UInt|Bool)\d*\[|\[(n|K|d|m|b|s|\d)\b|\[n, …|:\w+:`|\bas (for|of|in)\b|elementwise",
    re.IGNORECASE,
)
"""A shape, in words of types or of axes, or a reference to what has it."""
MOST_LINES = 400


def public_functions(path: Path) -> Iterator[tuple[str, str, str]]:
    """Name, annotations and docstring (with its class's) of what others may call."""

    def inside(body: list[ast.stmt], owner: str, above: str) -> Iterator[tuple[str, str, str]]:
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from inside(node.body, f"{node.name}.", ast.get_docstring(node) or "")
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                kinds = [*(each.annotation for each in (*node.args.args, *node.args.kwonlyargs)), node.returns]
                words = " ".join(ast.unparse(kind) for kind in kinds if kind is not None)
                yield owner + node.name, words, f"{ast.get_docstring(node) or ''}\n{above}"

    yield from inside(ast.parse(path.read_text(encoding="utf-8")).body, "", "")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_arrays_have_shapes_in_the_docstring(path):
    silent = [name for name, kinds, said in public_functions(path) if "ndarray" in kinds and not SHAPE.search(said)]
    assert not silent, f"{path.relative_to(PACKAGE)}: no shape in the docstring of {', '.join(silent)}"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_is_one_idea(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
