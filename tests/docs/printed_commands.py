"""Commands that README, CONTRIBUTING and the pages of docs/ print, and what a test does with each.

A command stands in a block ``console`` after a prompt, in an indented block, or as code within a
sentence. :func:`printed_commands` collects them, and :func:`kind_of` returns their kind, which
decides how they are tested; a command of no kind is an error.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kdgraph.cli import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        path
        for path in (ROOT / "docs").rglob("*.md")
        if "results" not in path.relative_to(ROOT).parts
    ),
]
PROGRAMS = [
    *("kdg", "make", "python", "python3.11", "pytest", "pip", "pipx", "uv", "conda", "hatch"),
    *("twine", "git", "docker", "source", "eval", "export", "dask", "ray", "wandb", "sbatch"),
    *("squeue", "gh"),
]
"""First words of a command: in an indented block, other lines are output."""
RUN_BY = {
    "docs/tutorial.md": "tests/docs/test_tutorial.py",
    **{
        f"docs/howto/{name}.md": "tests/test_howto.py"
        for name in [
            *("calibrator", "check", "dataset", "deploy", "detector", "exposure", "figure"),
            *("fitted_model", "library", "metric", "parent", "recalibrator", "regression"),
            *("torch_module", "track", "tune"),
        ]
    },
}
"""Page → the test that runs every command of its blocks ``console``."""
SCRIPTS_RUN_BY = {
    **RUN_BY,
    "README.md": "tests/docs/test_commands.py",
    "docs/index.md": "tests/docs/test_guide.py",
    "docs/guide/": "tests/docs/test_guide.py",
    "docs/out_of_bag.md": "tests/docs/test_commands.py",
    "docs/sets.md": "tests/docs/test_pages.py",
}
"""Page, or folder of pages, → the test that runs its blocks ``python``."""
SCRIPTS_NOT_RUN = {
    "docs/cluster.md": "needs a cluster",
    "docs/concepts.md": "reads a run and a table of the reader",
}
"""Page → the reason why no test runs its blocks ``python``."""
RUN = "run"
PLANNED = "planned"
PARSED = "parsed"
MENTIONED = "mentioned"
PROGRAM = "program"
MAKE = "make"
INSTALL = "install"
NOT_FOR_A_TEST = {
    r"^source \.venv/bin/activate$": "changes the shell of the reader",
    r"^pip install git\+$": "needs the address of a repository",
    r"^(pipx|python3\.11 -m venv) ": "downloads packages",
    r"^git config ": "changes the configuration of the checkout",
    r"^(dask scheduler|dask worker|ray start|sbatch|squeue)": "needs a cluster",
    r"^wandb sync": "needs an account",
    r"^export KDGRAPH_KEY_FILE=": "changes the shell of the reader",
    r"^kdg (predict|check|repair) .*…": "names a run of the reader",
}
"""Pattern of commands that no test can run or plan → reason."""
_WORD = re.compile(
    rf"^(?:[A-Z_]+=\S+ )*(?:{'|'.join(map(re.escape, PROGRAMS))})(?: |$)|^\.venv/bin/"
)
_PLACEHOLDER = re.compile(r"…|\b[A-Z]{3,}\b(?!=)")


@dataclass(frozen=True)
class PrintedCommand:
    """A command, and where it is printed.

    Attributes
    ----------
    page : str
        Page, from the root of the repository.
    line : int
        Its line there.
    text : str
        The command without prompt and comment.
    where : {"console", "indented", "sentence"}
        Kind of text that it stands in. Code within a sentence may be a part of a command.
    """

    page: str
    line: int
    text: str
    where: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    def words(self) -> list[str]:
        """Return the words of the command, as a shell divides them."""
        return shlex.split(self.text)

    def kdg_arguments(self) -> list[str] | None:
        """Return what follows ``kdg``, without variables before it; None for other programs."""
        words = self.words()
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        return words[1:] if words and words[0] == "kdg" else None


def printed_commands(page: Path) -> list[PrintedCommand]:
    """Return the commands of a page in their order, those within sentences included."""
    name = page.relative_to(ROOT).as_posix()
    lines = page.read_text(encoding="utf-8").splitlines()
    return [PrintedCommand(name, *fields) for fields in _commands(lines)]


def _commands(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    language: str | None = None
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, ""], start=1):
        fence = re.match(r"^ {0,3}```(\w*)", line)
        if fence:
            if language is None:
                language = fence[1]
            else:
                if language in ("console", "sh", "bash", "shell"):
                    yield from ((*fields, "console") for fields in _of_block(block))
                language, block = None, []
        elif language is not None:
            block.append((number, line))
        elif re.match(r"^ {4}", line):
            block.append((number, line[4:]))
        else:
            yield from ((*fields, "indented") for fields in _of_block(block))
            block = []
            for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", line):
                if _WORD.match(code) and (" " in code or code == "kdg"):
                    yield number, code, "sentence"


def _of_block(block: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines after a prompt, or, where none has a prompt, those that begin with a program."""
    prompted = any(line.startswith("$ ") for _, line in block)
    position = 0
    while position < len(block):
        number, line = block[position]
        position += 1
        text = line.removeprefix("$ ")
        if text == line if prompted else not _WORD.match(text):
            continue
        while text.endswith("\\") and position < len(block):
            text = f"{text[:-1].rstrip()} {block[position][1].strip()}"
            position += 1
        yield number, _without_comment(text)


def _without_comment(text: str) -> str:
    """Return a command without what follows ``#`` outside of quotes."""
    lexer = shlex.shlex(text, posix=False, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, "#"
    return " ".join(lexer)


def kind_of(command: PrintedCommand) -> str:
    """Return how a command is tested: a kind, or the reason why it is not.

    Raises
    ------
    LookupError
        The command is of no kind.
    """
    text = command.text
    for pattern, reason in NOT_FOR_A_TEST.items():
        if re.match(pattern, text):
            return reason
    arguments = command.kdg_arguments()
    if arguments is not None:
        if not arguments or arguments[0].startswith("-") or arguments[0] == "help":
            return MENTIONED
        if arguments[0] not in COMMANDS and not _PLACEHOLDER.match(arguments[0]):
            raise LookupError(f"{command}: kdg has no command '{arguments[0]}'")
        if command.where == "console" and command.page in RUN_BY:
            return RUN
        if (
            _PLACEHOLDER.search(text)
            or "--help" in arguments
            or (command.where == "sentence" and len(arguments) == 1)
        ):
            return MENTIONED
        return PLANNED if arguments[0] in ("run", "plan", "show") else PARSED
    first = command.words()[0]
    if first == "make":
        return MAKE
    if first == "pip":
        return INSTALL
    if first in ("python", "pytest") or first.startswith(".venv/bin/"):
        return PROGRAM
    if first == "eval":
        return PARSED
    raise LookupError(
        f"{command}: no test is planned for it; name its kind in {Path(__file__).name}"
    )
