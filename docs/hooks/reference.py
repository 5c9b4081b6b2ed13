"""Reference pages of each package, made of docstrings: exported names first, internals apart.

The first page lists what each package offers, alphabetically, with one line on each name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGE = Path(__file__).resolve().parents[2] / "kdgraph"
PACKAGES = (
    *("density", "calibration", "detection", "recalibration", "distributions", "metrics"),
    *("geometry", "parents", "base", "data", "features", "smoothing", "persistence"),
    *("fitted", "deployment"),
    *("figures", "results"),
)
"""Packages of the library, in the order in which users meet them, without the command line."""
MODULES = ("errors", "parameters", "config.components")
ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`(~?)([\w.]+)`")
"""Role of reStructuredText, as in :func:`on_files`."""


EXPORTS = re.compile(r"^<!-- exports -->$", re.MULTILINE)
"""Mark in docs/reference/index.md that is replaced by the list of all exported names."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the mark of the first page by the list of exported names."""
    if page.file.src_uri != "reference/index.md":
        return markdown
    return EXPORTS.sub(lambda _: exported_names(), markdown)


def exported_names() -> str:
    """Return a table of names for kdgraph and for each package that exports some."""
    lines: list[str] = []
    for package in ("", *PACKAGES):
        root = PACKAGE / package
        nested = sorted(path.parent for path in root.rglob("*/__init__.py")) if package else ()
        for folder in (root, *nested):
            exported = exports(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
            parts = folder.relative_to(PACKAGE).parts
            if exported:
                name = ".".join(("kdgraph", *parts))
                page = f"[{name}]({'.'.join(parts)}.md)" if parts else name
                lines += [f"### {page} {{#{name.replace('.', '-')}}}", "", *names_table(exported)]
    return "\n".join(lines)


def names_table(exported: Mapping[str, str]) -> list[str]:
    """Return a table of exported names, alphabetically: a link, and the first line of the docstring.

    Parameters
    ----------
    exported : mapping of str to str
        Exported name → path, of the name or of a package that exports it too.
    """
    lines = ['<div class="stacked options" markdown>', "", "| name | |", "|---|---|"]
    for name in sorted(exported, key=str.casefold):
        path, doc = defined(exported[name])
        sentence = doc.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        lines.append(f"| [`{name}`][{path}] | {as_markdown(sentence, {})} |")
    return [*lines, "", "</div>", ""]


def defined(path: str) -> tuple[str, str]:
    """Return where a name is defined, ``module.name``, and its docstring.

    >>> defined("kdgraph.density.DensityGate")[0]
    'kdgraph.density.gate.DensityGate'
    """
    module, _, name = path.rpartition(".")
    file = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not file.is_file():
        file = file.with_suffix("") / "__init__.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return path, ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                value = after.value if isinstance(after, ast.Expr) else None
                doc = value.value if isinstance(value, ast.Constant) else ""
                return path, str(doc)
    return defined(exports(tree)[name])


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page of exported names for each package, and below them pages of internal names."""
    navigation: list[Any] = []
    internals: list[Any] = []
    for package in PACKAGES:
        root = PACKAGE / package
        folders = [root, *sorted(path.parent for path in root.rglob("*/__init__.py"))]
        for folder in dict.fromkeys(folders):
            parts = folder.relative_to(PACKAGE).parts
            name = ".".join(("kdgraph", *parts))
            public_page, internal_page = pages(name, folder)
            for kind, text, listed in (
                ("", public_page, navigation),
                ("internals/", internal_page, internals),
            ):
                if text is not None:
                    uri = f"reference/{kind}{'.'.join(parts)}.md"
                    files.append(File.generated(config, uri, content=text))
                    listed.append({name: uri})
    for name in MODULES:
        content = f"# kdgraph.{name}\n\n::: kdgraph.{name}\n"
        content += "    options: {show_root_heading: false, heading_level: 1}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        internals.append({f"kdgraph.{name}": f"reference/{name}.md"})
    reference = next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    reference.extend([*navigation, {"Internals": internals}])
    return files


def pages(name: str, folder: Path) -> tuple[str | None, str | None]:
    """Return the Markdown of what a package exports, and that of all its other public names.

    The second page is what a contributor reads: names that modules define and share, which may
    change without notice. Either is None where it would be empty.
    """
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    exported = exports(tree)
    doc = as_markdown(ast.get_docstring(tree) or "", exported)
    internal = []
    for module in ["__init__", *sorted(path.stem for path in folder.glob("*.py"))]:
        full = name if module == "__init__" else f"{name}.{module}"
        if module.startswith("_") and module != "__init__":
            continue
        internal += [
            path
            for each in public(folder / f"{module}.py", exported.values(), full)
            if (path := f"{full}.{each}") not in exported.values()
        ]
    public_page = None
    if exported:
        lines = [f"# {name}", "", doc, "", *names_table(exported)]
        if internal:
            parts = name.removeprefix("kdgraph.")
            lines += [
                f"Names that its modules share: [internals of {name}](internals/{parts}.md).",
                "",
            ]
        lines += [line for path in exported.values() for line in (f"::: {path}", "")]
        public_page = "\n".join(lines)
    internal_page = None
    if internal:
        lines = [f"# Internals of {name}", "", *([] if exported else [doc, ""])]
        lines += [line for path in internal for line in (f"::: {path}", "")]
        internal_page = "\n".join(lines)
    return public_page, internal_page


def as_markdown(docstring: str, exported: Mapping[str, str]) -> str:
    r"""Return the docstring of a package as Markdown: code, links and examples.

    Parameters
    ----------
    docstring : str
        Docstring with roles of reStructuredText and doctests.
    exported : mapping of str to str
        Exported name → full path, to which a role with this name links.

    Examples
    --------
    >>> as_markdown("Call :func:`score`.", {"score": "a.b.score"})
    'Call <autoref optional identifier="a.b.score"><code>score</code></autoref>.'
    >>> as_markdown(">>> 1 + 1\n2", {})
    '```pycon\n>>> 1 + 1\n2\n```'
    """

    def link(role: re.Match[str]) -> str:
        name = role[2]
        first, _, rest = name.partition(".")
        path = exported.get(first, first)
        shown = name.rpartition(".")[2] if role[1] or first == "kdgraph" else name
        identifier = f"{path}.{rest}" if rest else path
        return f'<autoref optional identifier="{identifier}"><code>{shown}</code></autoref>'

    paragraphs = docstring.replace("``", "`").split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>> ") else ROLE.sub(link, paragraph)
        for paragraph in paragraphs
    )


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
    names = []
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            names += [name] if explained or f"{module}.{name}" in exported else []
    return [name for name in names if name.isidentifier() and not name.startswith("_")]
