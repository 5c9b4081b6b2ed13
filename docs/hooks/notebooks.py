"""Pages made of the notebooks in docs/notebooks: their text, code and stored outputs.

Nothing is executed here. `make notebooks` executes them and stores the outputs, and a test
compares these with what the code prints.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

FOLDER = "notebooks"
LINK = re.compile(rf"\((\S*\b{FOLDER}/\w+)\.ipynb\)")
TABLE_ATTRIBUTES = re.compile(r"(<t(?:able|r)) [^>]*(?=>)|<style.*?</style>\n?", re.DOTALL)
"""Attributes of tables and rows, and the style sheets, that pandas writes for a data frame."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add a page and the pictures of each notebook, which stays a file to download."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(file.content_string)
        stem = file.src_uri.removesuffix(".ipynb")
        markdown, pictures = page_of(notebook, Path(stem).name)
        files.append(File.generated(config, f"{stem}.md", content=markdown))
        for name, content in pictures.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks, which a checkout has as files, lead to their pages."""
    return LINK.sub(r"(\1.md)", markdown)


def page_of(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, with a link to its file below the title, and its pictures
    by the names that the page links to.

    The text in place of a picture is the first line of its cell, if that is a comment. PluginError
    if an output is of a kind that a page does not show, such as an error or a warning.
    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            comment = re.match(r"# (.+)", source)
            alt = comment[1].rstrip(".") if comment else "Figure drawn by the code above"
            parts.append(_shown(output, name, alt, pictures))
    title, _, rest = "\n\n".join(parts).partition("\n")
    link = f"This page is a notebook, [{name}.ipynb]({name}.ipynb): its code runs as it stands."
    return f"{title}\n\n{link}\n{rest}\n", pictures


def _shown(output: dict[str, Any], name: str, alt: str, pictures: dict[str, bytes]) -> str:
    """Return an output as Markdown, and add its picture to those of the page."""
    if output["output_type"] == "stream" and output["name"] == "stdout":
        return _text("".join(output["text"]))
    data = output.get("data", {})
    if "image/png" in data:
        picture = f"{name}_{len(pictures) + 1}.png"
        pictures[picture] = base64.b64decode("".join(data["image/png"]))
        width = output.get("metadata", {}).get("image/png", {}).get("width")
        return f"![{alt}]({picture}){{ width={width} }}" if width else f"![{alt}]({picture})"
    if "text/html" in data:
        table = TABLE_ATTRIBUTES.sub(lambda match: match[1] or "", "".join(data["text/html"]))
        return table.replace(" ± ", "&nbsp;±&nbsp;")
    if "text/plain" in data:
        return _text("".join(data["text/plain"]))
    raise PluginError(f"{FOLDER}/{name}.ipynb has an output that no page shows: {output}")


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
