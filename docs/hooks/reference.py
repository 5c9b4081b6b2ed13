"""The reference: a page for each package of the library, made of the docstrings of its modules."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGE = Path(__file__).resolve().parents[2] / "kdgraph"
ROOMS = (
    *(
        "smoothing",
        "distributions",
        "metrics",
        "data",
        "base",
        "parents",
        "geometry",
        "features",
        "density",
    ),
    *("calibration", "detection", "recalibration", "persistence", "figures", "results"),
)
"""From the ground up, as imports point; what is not the library's, such as the command line, is not
for others to import.
"""
MODULES = ("errors", "parameters", "components")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page for each package, and the rooms to the navigation."""
    navigation: list[Any] = []
    for room in ROOMS:
        folders = [
            PACKAGE / room,
            *sorted(
                path.parent
                for path in (PACKAGE / room).rglob("*/__init__.py")
                if path.parent != PACKAGE / room
            ),
        ]
        pages = [add(files, config, folder) for folder in folders]
        navigation.append({room: pages} if len(pages) > 1 else {room: pages[0]})
    for name in MODULES:
        content = (
            f"# kdgraph.{name}\n\n::: kdgraph.{name}\n    options: {{show_root_heading: false,"
            " heading_level: 1}\n"
        )
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        navigation.append({name: f"reference/{name}.md"})
    next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry).extend(
        navigation
    )
    return files


def add(files: Files, config: MkDocsConfig, folder: Path) -> str:
    """Add the page of a package; returns where it stands."""
    parts = folder.relative_to(PACKAGE).parts
    uri = f"reference/{'.'.join(parts)}.md"
    files.append(File.generated(config, uri, content=page(".".join(("kdgraph", *parts)), folder)))
    return uri


def page(name: str, folder: Path) -> str:
    """Markdown of a package: what it exports, then each of its modules that has something
    public.
    """
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    exported = exports(tree)
    lines = [f"# {name}", "", (ast.get_docstring(tree) or "").replace("``", "`"), ""]
    if exported:
        lines += [
            "It exports "
            + ", ".join(f"[`{each}`][{path}]" for each, path in sorted(exported.items()))
            + ".",
            "",
        ]
    for module in [
        "__init__",
        *sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")),
    ]:
        full = name if module == "__init__" else f"{name}.{module}"
        for each in public(folder / f"{module}.py", exported.values(), full):
            lines += [f"::: {full}.{each}", ""]
    return "\n".join(lines)


def exports(tree: ast.Module) -> dict[str, str]:
    """What ``__all__`` lists, by name: the full path of where it comes from."""
    imported = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {
                name: imported[name] for name in ast.literal_eval(node.value) if name in imported
            }
    return {}


def public(path: Path, exported: Collection[str], module: str) -> list[str]:
    """Public names that a module defines, as they come: of classes, functions, and values that have
    a docstring or are exported.
    """
    found = []
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found += [name] if explained or f"{module}.{name}" in exported else []
    return [name for name in found if name.isidentifier() and not name.startswith("_")]
