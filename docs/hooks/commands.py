"""Page of the command line, made of the help texts of ``kdg``."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from kdgraph.cli import COMMANDS
from kdgraph.cli.arguments import all_parsers
from kdgraph.cli.main import HELP

PAGE = "commands.md"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the page, which mkdocs.yml has in its navigation."""
    files.append(File.generated(config, PAGE, content=commands_page()))
    return files


def commands_page() -> str:
    """Return the page: a table of all commands, and the help of each."""
    lines = [
        "# Command line",
        "",
        "Each command explains itself: `kdg --help`, `kdg COMMAND --help`. This page has the same"
        " texts.",
        "",
        "| command | |",
        "|---|---|",
        *(f"| [`kdg {name}`](#{name}) | {summary} |" for name, summary in COMMANDS.items()),
        "",
        "## kdg {#kdg}",
        "",
        *_code(HELP),
    ]
    for name, parser in all_parsers().items():
        level = "##" if name in COMMANDS else "###"
        anchor = name.replace(" ", "-")
        lines += ["", f"{level} kdg {name} {{#{anchor}}}", "", *_code(parser.format_help())]
    return "\n".join([*lines, ""])


def _code(text: str) -> list[str]:
    return ["```text", *text.rstrip("\n").split("\n"), "```"]
