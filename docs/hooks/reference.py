"""Reference pages of each package, made of docstrings: exported names first, internals apart.

The first page lists what each package offers, alphabetically, with one line on each name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import griffe
from docstrings import ROLE, autoref, role_text  # the hook beside this one
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("density", "calibration", "detection", "recalibration", "distributions", "metrics"),
    *("geometry", "parents", "base", "data", "features", "smoothing", "persistence"),
    *("fitted", "deployment"),
    *("figures", "results"),
)
"""Packages of the library, in the order in which users meet them, without the command line."""
MODULES = ("errors", "parameters", "config.components")
EXPORTS = re.compile(r"^<!-- exports -->$", re.MULTILINE)
"""Mark in docs/reference/index.md that is replaced by the list of all exported names."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page of exported names for each package, and below them pages of internal names."""
    navigation: list[Any] = []
    internals: list[Any] = []
    for package in (each for name in PACKAGES for each in with_subpackages(name)):
        name = package.path.removeprefix("kdgraph.")
        public_page, internal_page = pages(package)
        for kind, text, listed in (
            ("", public_page, navigation),
            ("internals/", internal_page, internals),
        ):
            if text is not None:
                uri = f"reference/{kind}{name}.md"
                files.append(File.generated(config, uri, content=text))
                listed.append({package.path: uri})
    for name in MODULES:
        content = f"# kdgraph.{name}\n\n::: kdgraph.{name}\n"
        content += "    options: {show_root_heading: false, heading_level: 1}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
        internals.append({f"kdgraph.{name}": f"reference/{name}.md"})
    reference = next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    reference.extend([*navigation, {"Internals": internals}])
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the mark of the first page by the list of exported names."""
    if page.file.src_uri != "reference/index.md":
        return markdown
    return EXPORTS.sub(lambda _: exported_names(), markdown)


@cache
def code() -> Any:
    """Return kdgraph as griffe reads it, without importing it."""
    return griffe.load("kdgraph", search_paths=[ROOT])


def with_subpackages(name: str) -> list[griffe.Object]:
    """Return a package of kdgraph and the packages in it."""
    package = code()[name]
    nested = [each for each in package.modules.values() if each.is_init_module]
    return [package, *sorted(nested, key=lambda each: each.name)]


def exports(package: griffe.Object) -> dict[str, str]:
    """Return what ``__all__`` lists, by name: the path that it is imported from."""
    paths = {}
    for name in map(str, package.exports or ()):
        member = package[name]
        if member.is_module:  # a function that has the name of its module
            paths[name] = member[name].path
        elif member.is_alias:
            paths[name] = member.target_path
    return paths


def exported_names() -> str:
    """Return a table of names for kdgraph and for each package that exports some."""
    lines: list[str] = []
    for package in (code(), *(each for name in PACKAGES for each in with_subpackages(name))):
        if exports(package):
            name = package.path.removeprefix("kdgraph.")
            page = package.path if name == "kdgraph" else f"[{package.path}]({name}.md)"
            lines += [
                f"### {page} {{#{package.path.replace('.', '-')}}}",
                "",
                *names_table(package),
            ]
    return "\n".join(lines)


def names_table(package: griffe.Object) -> list[str]:
    """Return a table of exported names, alphabetically: a link, and the first line of the docstring."""
    lines = ['<div class="stacked options" markdown>', "", "| name | |", "|---|---|"]
    for name, path in sorted(exports(package).items(), key=lambda item: item[0].casefold()):
        member = code()[path.removeprefix("kdgraph.")]
        sentence = member.docstring.value.split("\n\n")[0] if member.docstring else ""
        text = as_markdown(sentence.replace("\n", " ").replace("|", "\\|"), {})
        lines.append(f"| [`{name}`][{member.canonical_path}] | {text} |")
    return [*lines, "", "</div>", ""]


def pages(package: griffe.Object) -> tuple[str | None, str | None]:
    """Return the Markdown of what a package exports, and that of all its other public names.

    The second page is what a contributor reads: names that modules define and share, which may
    change without notice. Either is None where it would be empty.
    """
    exported = exports(package)
    doc = as_markdown(package.docstring.value if package.docstring else "", exported)
    modules = [package, *(each for each in package.modules.values() if not each.is_init_module)]
    modules[1:] = sorted((m for m in modules[1:] if m.name[0] != "_"), key=lambda each: each.name)
    internal = [
        each.path
        for module in modules
        for each in module.members.values()
        if is_public(each) and each.path not in exported.values()
    ]
    public_page = internal_page = None
    if exported:
        lines = [f"# {package.path}", "", doc, "", *names_table(package)]
        if internal:
            page = f"internals/{package.path.removeprefix('kdgraph.')}.md"
            lines += [f"Names that its modules share: [internals of {package.path}]({page}).", ""]
        lines += [line for path in exported.values() for line in (f"::: {path}", "")]
        public_page = "\n".join(lines)
    if internal:
        lines = [f"# Internals of {package.path}", "", *([] if exported else [doc, ""])]
        lines += [line for path in internal for line in (f"::: {path}", "")]
        internal_page = "\n".join(lines)
    return public_page, internal_page


def is_public(member: griffe.Object | griffe.Alias) -> bool:
    """Return whether a module defines a class, a function, or a value that has a docstring."""
    if member.is_alias or member.is_module or member.name.startswith("_"):
        return False
    return not member.is_attribute or member.docstring is not None


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
        first, dot, rest = role[2].partition(".")
        return autoref(f"{exported.get(first, first)}{dot}{rest}", role_text(role))

    paragraphs = docstring.replace("``", "`").split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>> ") else ROLE.sub(link, paragraph)
        for paragraph in paragraphs
    )
