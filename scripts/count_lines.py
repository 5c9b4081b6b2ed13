"""Print how large the project is: lines of code, docstrings and comments, and files of presets.

Blank lines count as lines of neither kind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "kdgraph": ("kdgraph",),
    "experiments": ("experiments",),
    "tests": ("tests",),
    "scripts and hooks": ("scripts", "docs/hooks"),
}


def count(files: Iterable[Path]) -> tuple[int, int, int, int, int]:
    """Return the numbers of files, lines, and lines of code, docstrings and comments."""
    n_files = n_lines = n_code = n_docstring = n_comment = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        in_docstring = {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        n_files += 1
        for number, line in enumerate(map(str.strip, text.splitlines()), 1):
            n_lines += 1
            if number in in_docstring:
                n_docstring += 1
            elif line.startswith("#"):
                n_comment += 1
            elif line:
                n_code += 1
    return n_files, n_lines, n_code, n_docstring, n_comment


def main() -> None:
    """Print a line for each part, and for each package of the library."""
    parts = dict(PARTS)
    parts |= {
        f"  {package.name}": (f"kdgraph/{package.name}",)
        for package in sorted((ROOT / "kdgraph").iterdir())
        if (package / "__init__.py").exists()
    }
    heading = ("files", "lines", "code", "docstrings", "comments", "docstrings/code")
    print(f"{'':20}", *(f"{word:>10}" for word in heading))
    for name, folders in parts.items():
        counts = count(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
        print(f"{name:20}", *(f"{n:10,}" for n in counts), f"{counts[3] / max(counts[2], 1):10.2f}")
    presets = sum(path.is_file() for path in (ROOT / "conf").rglob("*"))
    print(f"{'conf':20} {presets:10,}")


if __name__ == "__main__":
    main()
