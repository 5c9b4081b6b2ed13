"""Page of the command line, made of the parsers of ``kdg``, with outputs of real commands.

The outputs are those of the build: a process runs :data:`SESSION` in an empty folder, on a
simulation, which takes about 20 s and no network.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from kdgraph.cli import COMMANDS
from kdgraph.cli.arguments import WIDTH, CommandParser, all_parsers
from kdgraph.cli.main import HELP

ROOT = Path(__file__).resolve().parents[2]
PAGE = "commands.md"
_SMALL = "dataset=spiral method=kdf,isotonic seed=0,1 dataset.n_train=300"
SESSION = (
    "kdg run dataset=spiral method=kdf dataset.n_train=300",
    f"kdg plan -m {_SMALL}",
    f"kdg run -m {_SMALL} hydra.launcher.n_jobs=1",
    "kdg show gate=density calibrator=isotonic",
    "kdg list",
    "kdg list calibrator beta",
    "kdg table method=kdf,isotonic --metric error,ece",
    "kdg compare --metric ece --against isotonic",
    "kdg report --output report.html",
    "kdg gc --dry-run",
)
"""Commands whose output the page has, in the order in which they run in one folder."""
MOST_LINES = 30
"""Lines of an output that the page shows; of a longer one it has the first."""
_DRIVER = """
import shlex, sys
from kdgraph.cli.main import main
for command in sys.argv[1:]:
    code = main(shlex.split(command)[1:])
    print(f"\\0{code}", flush=True)
"""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the page, which mkdocs.yml has in its navigation."""
    files.append(File.generated(config, PAGE, content=commands_page(outputs())))
    return files


@cache
def outputs() -> dict[str, str]:
    """Return the output of each command of the session; a command that fails stops the build."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "KDGRAPH_KEY_FILE": f"{folder}/model.key",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUTF8": "1",
            "COLUMNS": str(WIDTH),
        }
        process = subprocess.run(
            [sys.executable, "-c", _DRIVER, *SESSION],
            cwd=folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
    parts = re.split(r"\0(\d+)\n", process.stdout)
    if process.returncode or parts[1::2] != ["0"] * len(SESSION):
        raise PluginError(f"a command of the page of commands failed: {process.stderr}")
    return dict(zip(SESSION, parts[::2], strict=False))


def commands_page(printed: dict[str, str]) -> str:
    """Return the page: all commands, then usage, options, examples and exit codes of each.

    Parameters
    ----------
    printed : dict of str to str
        Command → what it prints, for the examples.
    """
    lines = [
        "# Command line",
        "",
        "`make run` and `pip install` put `kdg` into the `bin` folder of an environment. After"
        " `make run` in a clone that is `.venv`: `source .venv/bin/activate` puts it on the path of"
        " a shell (`deactivate` takes it off), and `.venv/bin/kdg` is the same without. `kdg"
        " doctor` prints whether the installation works,"
        ' `eval "$(kdg completion bash)"` completes commands, groups and options.',
        "",
        "`kdg COMMAND --help` prints what this page has about a command. Its keys are those of the"
        " [configuration](configuration/index.md).",
        "",
        '<div class="stacked options" markdown>',
        "",
        "| command | |",
        "|---|---|",
        *(f"| [`kdg {name}`](#{name}) | {summary} |" for name, summary in COMMANDS.items()),
        "",
        "</div>",
        "",
        "Every command ends with one of these exit codes:",
        "",
        *entry("`0`", "done"),
        *entry("`1`", "a run failed, or what a command checks is not as it should be"),
        *entry("`2`", "an argument, a config or a file cannot be used; the error is one line"),
        *entry("`130`", "interrupted; what was finished stays"),
        *entry("`143`, `129`", "terminated by SIGTERM, SIGHUP; what was finished stays"),
    ]
    lines += ["## kdg {#kdg}", "", *block("text", HELP)]
    for name, parser in all_parsers().items():
        lines += command_section(name, parser, printed)
    return "\n".join([*lines, ""])


def command_section(name: str, parser: CommandParser, printed: dict[str, str]) -> list[str]:
    """Return the section of a command."""
    level = "##" if name in COMMANDS else "###"
    usage = parser.format_usage().removeprefix("usage: ")
    indent = " " * len("usage: ")
    usage = re.sub(rf"^{indent}", "", usage, flags=re.MULTILINE)
    lines = [f"{level} kdg {name} {{#{name.replace(' ', '-')}}}", ""]
    lines += [prose(parser.description or ""), "", *block("text", usage)]
    for group in parser._action_groups:  # argparse has no other way to its groups
        actions = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
        if actions and [each.dest for each in actions] != ["help"]:
            title = {"positional arguments": "Arguments"}.get(group.title or "", group.title or "")
            lines += [f"**{title[:1].upper()}{title[1:]}**", ""]
            for action in actions:
                if action.dest != "help":
                    lines += entry(names(action), prose(help_of(action, parser)))
    for paragraph in parser.notes.split("\n\n"):
        lines += [prose(paragraph), ""] if paragraph else []
    lines += ["**Examples**", "", *block("console", "\n".join(f"$ {x}" for x in parser.examples))]
    shown = {
        command: text for command, text in printed.items() if command.split()[1:2] == name.split()
    }
    if shown:
        lines += ["**Output**", ""]
    for command, text in shown.items():
        rows = text.rstrip().split("\n")
        cut = [*rows[:MOST_LINES], "…"] if len(rows) > MOST_LINES + 1 else rows
        lines += block("console", "\n".join([f"$ {command}", *cut]))
    lines += ["**Exit codes**", ""]
    for exit_code, meaning in parser.exit_codes.items():
        lines += entry(f"`{exit_code}`", prose(meaning))
    return lines


def entry(term: str, description: str) -> list[str]:
    """Return an entry of a list of definitions."""
    return [term, f":   {description}", ""]


def names(action: argparse.Action) -> str:
    """Return the forms of an option, the long one with its value; or the name of an argument."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
    values = action.metavar or choices
    value = str(values or action.dest.upper()) if action.nargs != 0 else ""
    if not action.option_strings:
        return f"`{values or action.dest}`"
    *short, long = action.option_strings
    shown = f"[{value}]" if action.nargs == "?" else value
    return ", ".join(f"`{form}`" for form in [*short, f"{long} {shown}".rstrip()])


def help_of(action: argparse.Action, parser: CommandParser) -> str:
    """Return the help of an option, with its default in it."""
    return (action.help or "") % {
        **vars(action),
        "prog": parser.prog,
    }


def prose(text: str) -> str:
    r"""Return a text of a help as Markdown: what is typed as code, and no accidental markup.

    >>> prose("save=false keeps no models (see --columns), dataset='mfeat_*' and <x>.")
    "`save=false` keeps no models (see `--columns`), `dataset='mfeat_*'` and &lt;x>."
    """
    typed = re.compile(
        r"'(kdg [^']+)'|(?<![\w`'])(--[a-z][\w-]*|~?[a-z_][\w./]*=(?:'[^']*'|[\w./,\[\]%$-]+))"
    )

    def marked(match: re.Match[str]) -> str:
        word = match[1] or match[2]
        bare = word.rstrip(".,")
        return f"`{bare}`{word[len(bare) :]}"

    parts, end = [], 0
    for match in typed.finditer(text):
        parts += [plain(text[end : match.start()]), marked(match)]
        end = match.end()
    return "".join([*parts, plain(text[end:])])


def plain(text: str) -> str:
    """Return text in which characters of Markdown and HTML stand for themselves."""
    return re.sub(r"([*_\[\]`])", r"\\\1", text).replace("<", "&lt;").replace("$", "&#36;")


def block(language: str, text: str) -> list[str]:
    """Return a block of code."""
    return [f"```{language}", *text.rstrip("\n").split("\n"), "```", ""]
