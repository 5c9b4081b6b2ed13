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
from typing import Any, NamedTuple

import griffe

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
    lines = [
        problem
        for path in sorted(package.rglob("*.py"))
        for problem in problems(path, path.relative_to(package).as_posix())
    ]
    lines += [
        problem
        for path in sorted((ROOT / "experiments").rglob("*.py"))
        for problem in language_problems(path, path.relative_to(ROOT).as_posix())
    ]
    lines += [
        f"{name}: is listed as having nothing to cite, and is not there"
        for name in sorted(PLUMBING)
        if not (package / name).is_file()
    ]
    described = modules(package)
    lines += [
        f"kdgraph/{name.replace(' ', ': ')}: is exported, and no docstring has an example"
        for name in sorted(without_example(described))
    ]
    lines += without_docstring(described)
    print("\n".join(lines), end="\n" if lines else "")
    return int(bool(lines))


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


def modules(folder: Path) -> list[Any]:
    """Return a package and all modules in it, as griffe reads them."""
    package = griffe.load(folder, search_paths=[folder.parent], resolve_aliases=True)
    queue = [package]
    for module in queue:  # which grows
        queue += [each for each in module.modules.values() if not each.is_alias]
    return sorted(queue, key=lambda each: each.path)


def without_docstring(package: list[Any]) -> Iterator[str]:
    """Yield a line for each public method that neither its class nor a base describes.

    help() shows the docstring of a base for an overridden method.
    """
    for cls in (cls for module in package for cls in module.classes.values() if not cls.is_alias):
        for name, method in cls.members.items():
            is_method = method.is_function or "property" in method.labels
            if not is_method or cls.name.startswith("_") or name.startswith("_"):
                continue
            if not any(name in each.members and each[name].docstring for each in (cls, *cls.mro())):
                at = f"kdgraph/{relative(cls)}:{method.lineno}"
                yield f"{at}: {cls.name}.{name}: no docstring"


def without_example(package: list[Any]) -> set[str]:
    """Return the exported classes and functions without an example, each as "path name".

    The example of a class may be that of a method.
    """
    lacking = set()
    for module in package:
        for name in map(str, module.exports or ()):
            member = module[name]
            target = member[name] if member.is_module else member
            documented = [target, *(target.members.values() if target.is_class else ())]
            if (target.is_class or target.is_function) and not any(
                each.docstring and ">>> " in each.docstring.value for each in documented
            ):
                lacking.add(f"{relative(target)} {name}")
    return lacking


def relative(definition: Any) -> str:
    """Return the path of a module, or of the module of a definition, within the package."""
    return definition.filepath.relative_to(definition.package.filepath.parent).as_posix()


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
