"""Pages made of other files of the checkout: texts and pictures of the papers' folders, and the
texts of the root, which mkdocs.yml has in its navigation.
"""

from __future__ import annotations

import csv
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PICTURES = {".svg", ".png"}
LONG = 200_000
"""Letters of a page, such as one with a row for each published number, from which on the search
leaves it out, which every reader loads.
"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
ALONE = "results/alone"
"""Folder of pages that are complete files, to be sent to others."""
LIST_OF_RESULTS = re.compile(r"^<!-- found -->$", re.MULTILINE)
SECTION = re.compile(r"^<!-- README: (.+) -->$", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, and put those of results into the navigation."""
    experiments = ROOT / "experiments"
    readmes = sorted(experiments.rglob("README.md"))
    for path in [*readmes, *(ROOT / name for name in TEXTS)]:
        add(files, config, path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    for table in sorted(experiments.glob("*/figures.csv")):
        uri = table.relative_to(ROOT).with_suffix(".md").as_posix()
        add(files, config, uri, figures_page(table))
    for path in sorted(path for path in experiments.rglob("*") if path.suffix in PICTURES):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    # page.md becomes another page.html.
    for path in sorted((ROOT / "docs" / "results").glob("*.html")):
        files.append(File.generated(config, f"{ALONE}/{path.name}", abs_src_path=str(path)))
    in_navigation(config, "Results", results(experiments, files))
    return files


@event_priority(-50)  # after the hooks that put paragraphs of other pages, with links, into a page
def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Put sections of the README where a page has a mark for them; links from docs/ to the rest of
    the checkout, and those of texts that are not written for the site, lead to what the site has.
    """
    uri = page.file.src_uri
    if uri == "index.md":  # titled as the site is, "kdgraph - kdgraph", without a name of its own
        page.meta.setdefault("title", "Start")
    if len(markdown) > LONG:
        page.meta.setdefault("search", {"exclude": True})
    if page.file.generated_by is not None:
        return relinked(markdown, posixpath.dirname(uri), uri, files)
    markdown = relinked(markdown, posixpath.join("docs", posixpath.dirname(uri)), uri, files)
    markdown = LIST_OF_RESULTS.sub(lambda _: list_of_results(files), markdown)
    return SECTION.sub(lambda match: relinked(section(match[1]), "", uri, files), markdown)


def add(files: Files, config: MkDocsConfig, uri: str, content: str) -> None:
    """Add a page."""
    files.append(File.generated(config, uri, content=content))


def in_navigation(config: MkDocsConfig, part: str, pages: list[Any]) -> None:
    """Add pages to a part of the navigation that mkdocs.yml names."""
    next(entry[part] for entry in config.nav or [] if part in entry).extend(pages)


def results(experiments: Path, files: Files) -> list[Any]:
    """Return the navigation below Results: pages of docs/results, then a part for each folder of
    experiments.
    """
    own = [
        file.src_uri
        for file in files
        if file.src_uri.startswith("results/") and file.is_documentation_page()
    ]
    parts: list[Any] = sorted(uri for uri in own if uri != "results/index.md")
    parts.append("experiments/README.md")
    for folder in sorted(path.parent for path in experiments.glob("*/README.md")):
        pages = [
            path.relative_to(ROOT).as_posix()
            for path in sorted(folder.rglob("README.md"), key=lambda path: len(path.parts))
        ]
        if (folder / "figures.csv").is_file():
            pages.append(f"experiments/{folder.name}/figures.md")
        parts.append({folder.name: pages})
    return parts


def list_of_results(files: Files) -> str:
    """Return a line for each page beside docs/results/index.md, and then for each file."""
    lines = []
    pages = [file for file in files if file.src_uri.startswith("results/")]
    for file in sorted(pages, key=lambda file: (not file.is_documentation_page(), file.src_uri)):
        place = file.src_uri.removeprefix("results/")
        if file.is_documentation_page():
            title = re.search(r"^# (.+)$", file.content_string, re.MULTILINE)
            lines += [f"- [{title[1] if title else place}]({place})"] if place != "index.md" else []
        else:
            lines.append(
                f"- [{place.removeprefix('alone/')}]({place}){', the same by itself' if place.startswith('alone/') else ''}"
            )
    return "\n".join(lines)


def figures_page(table: Path) -> str:
    """Return the page of a paper's figures, as its figures.csv lists them: each with its caption and
    command, or with what is missing for it.
    """
    paper = table.parent.name
    lines = [f"# Figures of {paper}", ""]
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name = row["figure"].removeprefix("Figure ")
            lines += [f"## Figure {name}", ""]
            pictures = [
                stem for stem in row["files"].split() if (table.parent / f"{stem}.svg").is_file()
            ]
            lines += [f"![Figure {name}]({stem}.svg)" for stem in pictures]
            about = [row["shows"][:1].upper() + row["shows"][1:], row.get("caption", "")]
            lines += ["", *(f"{text.rstrip('.')}.\n" for text in about if text)]
            lines += [f"Drawn by `{row['drawn_by']}`.\n"] if row["drawn_by"] else []
            lines += [f"*Missing:* {row['missing']}.\n"] if row["missing"] else []
    return "\n".join(lines)


def section(title: str) -> str:
    """Return the text of the README below one of its headings."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise PluginError(f"the README has no section '{title}'")
    return match[1].strip("\n")


def relinked(text: str, folder: str, uri: str, files: Files) -> str:
    """Return a text of the folder ``folder`` of the checkout with the links of the page ``uri``;
    code is left alone.
    """

    def link(match: re.Match[str]) -> str:
        return match[0] if match[1] is None else linked(match[2], match[3], match[4])

    def linked(picture: str, words: str, target: str) -> str:
        path, hash_, anchor = target.partition("#")
        if "://" in target or not path:
            return f"{picture}[{words}]({target})"
        place = posixpath.normpath(posixpath.join(folder, path))
        for there in (
            place,
            f"{place}/README.md",
            place.removeprefix("docs/"),
            f"{place.removeprefix('docs/')}.md",
            made_of(place),
        ):
            if files.get_file_from_path(there) is not None:
                return f"{picture}[{words}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{hash_}{anchor})"
        if not (ROOT / place).exists():
            raise PluginError(f"{uri} links to {target}, which is not there")
        return words

    return re.sub(
        rf"^```.*?^```$|^ {{4}}[^\n]*$|`[^`\n]+`|({LINK.pattern})",
        link,
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def made_of(place: str) -> str:
    """Return the page that a hook makes of a path of the checkout, so that links work there and on a
    code host, where no page is made.

    >>> made_of("kdgraph/calibration/local/__init__.py"), made_of("experiments/p1/figures.csv")
    ('reference/calibration.local.md', 'experiments/p1/figures.md')
    """
    if place.startswith("kdgraph/"):
        package = place.removeprefix("kdgraph/").removesuffix("/__init__.py")
        return "commands.md" if package == "cli" else f"reference/{package.replace('/', '.')}.md"
    return "configuration/index.md" if place == "conf" else f"{place.removesuffix('.csv')}.md"
