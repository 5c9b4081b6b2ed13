"""Help: printed, with nothing run, and with examples that work."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from kdgraph.cli import COMMANDS
from kdgraph.cli.arguments import NOT_WRITTEN, WIDTH, all_parsers, name_options
from kdgraph.cli.main import HELP
from kdgraph.errors import CannotWrite
from tests.variations import others_slow

PARSERS = all_parsers()
EXAMPLES = {
    command: [
        example.partition(" > ")[0] for example in parser.examples if example.startswith("kdg ")
    ]
    for command, parser in PARSERS.items()
}
RUNNABLE = [
    example
    for command in ("plan", "show", "list", "completion", "gc")
    for example in EXAMPLES[command]
]
"""Examples that need no network, no finished runs and no seconds of computation."""


@pytest.mark.parametrize("command", PARSERS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_printed_and_nothing_is_run(kdg, tmp_path, command, flag):
    words = command.split()
    for arguments in ([*words, flag], [*words, "dataset=nonsense", flag], [*words, "-m", flag]):
        code, out, err = kdg(*arguments)
        assert (code, err) == (0, "") and out.startswith(f"usage: kdg {command} ")
        assert "\nexamples:\n" in out and "\nexit codes:\n  0    " in out
        assert "\n  2    " in out and "\n  130  " in out
        assert max(map(len, out.splitlines())) <= WIDTH
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", PARSERS)
def test_each_command_has_a_paragraph_and_two_examples(command):
    parser = PARSERS[command]
    assert parser.description.endswith(".") and len(parser.examples) >= 2
    assert all(example.startswith(("kdg ", 'eval "$(kdg ')) for example in parser.examples)


@pytest.mark.parametrize("command", PARSERS)
def test_help_of_a_writing_command_has_exit_code_of_failure(command):
    parser = PARSERS[command]
    if {"--output", "--page"} & set(parser.options()):
        assert NOT_WRITTEN in parser.exit_codes[CannotWrite.exit_code]


def test_messages_name_options_instead_of_keys():
    option_of = {"method": "--methods", "dataset.path": "--data", "parent.trust=true": "--trust"}
    message = (
        "dataset.path='a b.csv': no method of dataset.paths, or method=kdf; 'kdg run method=kdf'"
        " shows it (parent.trust=true)"
    )
    assert name_options(message, option_of) == (
        "--data 'a b.csv': no method of dataset.paths, or --methods kdf; 'kdg run method=kdf'"
        " shows it (--trust)"
    )
    assert name_options("method must be a name", option_of) == "--methods must be a name"


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_the_examples_can_be_parsed(example):
    _, command, *words = shlex.split(example)
    parser = PARSERS[command]
    if parser.actions:
        parser = parser.actions[words.pop(0)]
    parser.parse(words)


@pytest.mark.parametrize("example", others_slow(RUNNABLE))
def test_the_examples_work(kdg, tmp_path, example):
    if example.startswith("kdg gc"):
        (tmp_path / "outputs" / ".store").mkdir(parents=True)
        example = example.replace("/scratch/outputs", "outputs")
    code, out, err = kdg(*shlex.split(example)[1:])
    assert (code, err) == (0, "") and out


def test_help_without_a_command_lists_all_of_them(kdg):
    code, out, err = kdg("--help")
    assert (code, out, err) == (0, HELP, "") and kdg() == kdg("help") == (0, HELP, "")
    assert max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) <= 44
    for command in COMMANDS:
        assert f"\n  {command} " in out


def test_help_may_precede_the_command(kdg):
    assert kdg("help", "data", "get") == kdg("data", "get", "--help")
    assert kdg("--help", "run") == kdg("run", "-h")
    assert kdg("help", "rn")[2] == "kdg: unknown command 'rn'; did you mean 'run'?\n"


def test_an_unknown_option_is_one_line_with_the_nearest(kdg):
    for words, sentence in {
        ("plan", "--multirn"): "--multirn; did you mean '--multirun'?",
        ("table", "--metrics=error"): "--metrics=error; did you mean '--metric'?",
        ("data", "list", "--confg-dir", "x"): "--confg-dir; did you mean '--config-dir'?",
        ("gc", "-x"): "-x; 'kdg gc --help' lists the options",
    }.items():
        code, out, err = kdg(*words)
        assert (code, out, err) == (2, "", f"kdg: unrecognized arguments: {sentence}\n")


def test_help_of_all_commands_imports_nothing_heavy():
    code = (
        "import sys; from kdgraph.cli.arguments import all_parsers\n"
        "for parser in all_parsers().values(): parser.format_help()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "sklearn", "hydra", "omegaconf", "numpy", "rich", "pandas", "yaml"}
    assert not heavy & set(done.stdout.split())
