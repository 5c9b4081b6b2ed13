"""Check the docstrings of the library: shapes, sources, examples and plain words; and the size of
modules.

``make lint`` runs it. It prints one line for each problem, as a linter does, and exits with 1.

- The docstring of a public function of arrays, or of its class, states their shapes.
- The docstring of a public object of a package of methods, of its class or of its module, cites a
  source: a paper with its year, a numbered equation, section, table, figure or algorithm, a
  library, or the words "original to kdgraph".
- Every public method has a docstring, or overrides one that has.
- Every class and function that a package exports (``__all__``) has an example that runs as a
  doctest: a function in its docstring, a class there or in that of a method of its own.
- Docstrings are sentences: none begins with one of ``FRAGMENTS``.
- Names and docstrings use none of the words in ``PRIVATE_WORDS``: models do not talk.
- No module has more than 700 lines.

The last three hold in ``experiments/`` too.
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
    r"\b(Float|Int|UInt|Bool)\d*\[|\bshape \(|\[(n|K|d|m|b|s|\d)\b|\[n, …|:\w+:`|\bas"
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
    r" [A-Z]?\d|\b[Oo]riginal to kdgraph\b"
    r"|scikit-learn|SciPy|scipy|torch|numba|LLVM|Hugging Face"
)
"""Source of a definition."""
SCIENCE = (
    *("calibration", "data/ood", "data/simulations", "density", "detection", "distributions"),
    *("geometry", "metrics", "parents", "recalibration"),
)
METRICS = frozenset({"metric", "mean_over_rows", "table"})
"""Decorators that complete the docstring of a function."""
FRAGMENTS = re.compile(r"\s*(Of|As|What|Whether|Where|Who)\b")
"""Words with which a docstring that is not a sentence begins."""
PRIVATE_WORDS = re.compile(
    r"(?<![^\W_])(said|told|says|tells|heard|asks|nobody|ours)(?![^\W_])"
    r"|\bin the mean\b|\bby itself\b",
    re.IGNORECASE,
)
"""Words that are no technical English, also as parts of names such as ``as_told``."""
PLUMBING = frozenset(
    {
        "data/ood/synthetic.py",
        "metrics/inputs.py",
        "metrics/registry.py",
        "parents/networks/checkpoint.py",
        "parents/networks/torch_state.py",
    }
)
"""Modules of those packages that have nothing to cite."""


class Definition(NamedTuple):
    """A public class, function or method: its name, the words of its annotations, and the
    docstrings that describe it, its own first.
    """

    name: str
    line: int
    kinds: str
    docstrings: tuple[str, ...]


def main() -> int:
    """Print what is missing; 1 if anything is."""
    package = ROOT / "kdgraph"
    found = [
        problem
        for path in sorted(package.rglob("*.py"))
        for problem in problems(path, path.relative_to(package).as_posix())
    ]
    found += [
        problem
        for path in sorted((ROOT / "experiments").rglob("*.py"))
        for problem in language_problems(path, path.relative_to(ROOT).as_posix())
    ]
    found += [
        f"{name}: is listed as having nothing to cite, and is not there"
        for name in sorted(PLUMBING)
        if not (package / name).is_file()
    ]
    found += [
        f"kdgraph/{name.replace(' ', ': ')}: is exported, and no docstring has an example"
        for name in sorted(without_example(package))
    ]
    found += list(without_docstring(package))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


def problems(path: Path, name: str) -> Iterator[str]:
    """Lines about one module, whose path within the package is ``name``."""
    yield from language_problems(path, f"kdgraph/{name}")
    for each in definitions(ast.parse(path.read_text(encoding="utf-8"))):
        at = f"kdgraph/{name}:{each.line}: {each.name}"
        if (
            name.startswith(SHAPED)
            and "ndarray" in each.kinds
            and not any(map(SHAPE.search, each.docstrings[:-1]))
        ):
            yield f"{at}: the docstring has no shape"
        if (
            name.startswith(SCIENCE)
            and name not in PLUMBING
            and not any(map(SOURCE.search, each.docstrings))
        ):
            yield f"{at}: no docstring cites a source"


def language_problems(path: Path, name: str) -> Iterator[str]:
    """Yield a line for a module that is too long, each docstring that is a fragment, and each
    private word.
    """
    text = path.read_text(encoding="utf-8")
    if (lines := len(text.splitlines())) > MOST_LINES:
        yield f"{name}: {lines} lines; no module has over {MOST_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            doc = node.value.value
            if isinstance(doc, str) and FRAGMENTS.match(doc):
                yield f"{name}:{node.lineno}: docstring begins with {doc.split()[0]!r}"
            words = PRIVATE_WORDS.search(" ".join(doc.split())) if isinstance(doc, str) else None
            if words:
                yield f"{name}:{node.lineno}: docstring uses {words[0]!r}"
        for attribute in ("name", "id", "arg", "attr"):
            word = getattr(node, attribute, None)
            if isinstance(word, str) and PRIVATE_WORDS.search(word):
                yield f"{name}:{getattr(node, 'lineno', 0)}: the name {word!r}"


def without_docstring(package: Path) -> Iterator[str]:
    """Yield a line for each public method that neither its class nor a base describes.

    Bases are classes of the package, by their names: help() shows the docstring of an overridden
    method.
    """
    classes: dict[str, list[tuple[str, ast.ClassDef]]] = {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                name = path.relative_to(package).as_posix()
                classes.setdefault(node.name, []).append((name, node))

    def describes(cls: ast.ClassDef, method: str) -> bool:
        if any(each.name == method and ast.get_docstring(each) for each in _methods(cls)):
            return True
        bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in cls.bases]
        return any(
            describes(base, method)
            for name in bases
            if name != cls.name
            for _, base in classes.get(name, [])
        )

    for name, cls in (each for same in classes.values() for each in same):
        for method in _methods(cls):
            is_public = not (cls.name.startswith("_") or method.name.startswith("_"))
            decorators = {ast.unparse(each).split(".")[-1] for each in method.decorator_list}
            has_body = not decorators & {"overload", "setter"}
            if is_public and has_body and not describes(cls, method.name):
                yield f"kdgraph/{name}:{method.lineno}: {cls.name}.{method.name}: no docstring"


def _methods(cls: ast.ClassDef) -> list[ast.FunctionDef]:
    """Return the methods that the body of a class defines."""
    return [node for node in cls.body if isinstance(node, ast.FunctionDef)]


def without_example(package: Path) -> set[str]:
    """Return exported classes and functions without an example, each as "path name".

    Parameters
    ----------
    package : Path
        Folder of a package, whose subpackages are searched too. A name is looked for where it is
        imported from, which may be another package.
    """
    lacking = set()
    for init in sorted(package.rglob("__init__.py")):
        tree = ast.parse(init.read_text(encoding="utf-8"))
        exported = next(
            (
                ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            ),
            (),
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = {each.name for each in node.names if each.name in exported}
                path = package.parent.joinpath(*node.module.split(".")).with_suffix(".py")
                if names and path.is_file():  # a package lists its names itself
                    module = path.relative_to(package).as_posix()
                    lacking |= {f"{module} {name}" for name in _without_example(path, names)}
    return lacking


def _without_example(path: Path, names: set[str]) -> Iterator[str]:
    """Yield those of the names that a module defines without an example.

    Of a function with overloads, the last definition counts.
    """
    has_example: dict[str, bool] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in names:
            methods = node.body if isinstance(node, ast.ClassDef) else []
            documented = [node, *(each for each in methods if isinstance(each, ast.FunctionDef))]
            has_example[node.name] = any(
                ">>> " in (ast.get_docstring(each) or "") for each in documented
            )
    yield from (name for name, has in has_example.items() if not has)


def definitions(module: ast.Module) -> Iterator[Definition]:
    """Public classes with their public methods, and public functions; the last docstring is the
    module's.
    """

    def inside(body: list[ast.stmt], owner: str, above: tuple[str, ...]) -> Iterator[Definition]:
        for node in body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
                continue
            docstrings = (" ".join((ast.get_docstring(node) or "").split()), *above)
            if any(ast.unparse(each).split("(")[0] in METRICS for each in node.decorator_list):
                docstrings = (
                    "Float[n]",
                    *docstrings,
                )  # the registry describes the inputs of a metric
            if isinstance(node, ast.ClassDef):
                yield Definition(owner + node.name, node.lineno, "", docstrings)
                yield from inside(node.body, f"{node.name}.", docstrings)
            else:
                given = [each.annotation for each in (*node.args.args, *node.args.kwonlyargs)]
                kinds = " ".join(
                    ast.unparse(kind) for kind in (*given, node.returns) if kind is not None
                )
                yield Definition(owner + node.name, node.lineno, kinds, docstrings)

    yield from inside(module.body, "", (" ".join((ast.get_docstring(module) or "").split()),))


if __name__ == "__main__":
    sys.exit(main())
