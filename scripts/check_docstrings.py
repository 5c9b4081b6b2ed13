"""Read the docstrings of the library: shapes of arrays, sources of methods; and how long its
modules are.

``make lint`` runs it. It prints a line for each thing missing, as a linter does, and then ends with
exit code 1.

- A public function that takes or gives an array says its shape, in its docstring or its class's.
- A public function or class of a room where there is science says where it comes from, in its
  docstring, its class's or its module's: a paper with its year, a numbered equation, section,
  table, figure or algorithm, a library, or that it is ours.
- No module has over 700 lines.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES = 700

SHAPE = re.compile(
    r"\b(Float|Int|UInt|Bool)\d*\[|\[(n|K|d|m|b|s|\d)\b|\[n, …|:\w+:`|\bas"
    r" (for|of|in)\b|elementwise",
    re.IGNORECASE,
)
"""A shape, in words of types or of axes, or a reference to what has it."""
SHAPED = (
    *("base", "calibration", "data", "density", "detection", "distributions", "figures"),
    *("geometry", "metrics", "parents", "recalibration"),
)

SOURCE = re.compile(
    r"\b(19|20)\d\d\b|\b(Eq|Equation|Algorithm|Section|Appendix|Theorem|Lemma|Table|Figure)\.?"
    r" [A-Z]?\d|\b[Oo]urs\b"
    r"|scikit-learn|SciPy|scipy|torch|numba|LLVM|Hugging Face"
)
"""Where something comes from."""
SCIENCE = (
    *("calibration", "data/ood", "data/simulations", "density", "detection", "distributions"),
    *("geometry", "metrics", "parents", "recalibration"),
)
PLUMBING = frozenset(
    {
        "data/ood/synthetic.py",
        "metrics/inputs.py",
        "metrics/registry.py",
        "parents/networks/checkpoint.py",
        "parents/networks/torch_state.py",
    }
)
"""Modules of those rooms that have nothing to cite: they hold, cut and pass on what the others
make.
"""


class Definition(NamedTuple):
    """A public class, function or method: its name, the words of its annotations, and the
    docstrings that speak of it, its own first.
    """

    name: str
    line: int
    kinds: str
    said: tuple[str, ...]


def main() -> int:
    """Print what is missing; 1 if anything is."""
    package = ROOT / "kdgraph"
    found = [
        problem
        for path in sorted(package.rglob("*.py"))
        for problem in problems(path, path.relative_to(package).as_posix())
    ]
    found += [
        f"{name}: is listed as having nothing to cite, and is not there"
        for name in sorted(PLUMBING)
        if not (package / name).is_file()
    ]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


def problems(path: Path, name: str) -> Iterator[str]:
    """Lines about one module, whose path within the package is ``name``."""
    text = path.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > MOST_LINES:
        yield f"kdgraph/{name}: {lines} lines; no module has over {MOST_LINES}"
    for each in definitions(ast.parse(text)):
        at = f"kdgraph/{name}:{each.line}: {each.name}"
        if (
            name.startswith(SHAPED)
            and "ndarray" in each.kinds
            and not any(map(SHAPE.search, each.said[:-1]))
        ):
            yield f"{at}: the docstring says no shape"
        if (
            name.startswith(SCIENCE)
            and name not in PLUMBING
            and not any(map(SOURCE.search, each.said))
        ):
            yield f"{at}: no docstring says where it comes from"


def definitions(module: ast.Module) -> Iterator[Definition]:
    """Public classes with their public methods, and public functions; the last docstring is the
    module's.
    """

    def inside(body: list[ast.stmt], owner: str, above: tuple[str, ...]) -> Iterator[Definition]:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            said = (" ".join((ast.get_docstring(node) or "").split()), *above)
            if isinstance(node, ast.ClassDef):
                yield Definition(owner + node.name, node.lineno, "", said)
                yield from inside(node.body, f"{node.name}.", said)
            else:
                given = [each.annotation for each in (*node.args.args, *node.args.kwonlyargs)]
                kinds = " ".join(
                    ast.unparse(kind) for kind in (*given, node.returns) if kind is not None
                )
                yield Definition(owner + node.name, node.lineno, kinds, said)

    yield from inside(module.body, "", (" ".join((ast.get_docstring(module) or "").split()),))


if __name__ == "__main__":
    sys.exit(main())
