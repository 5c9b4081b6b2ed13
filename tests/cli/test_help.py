"""Help: printed, with nothing run, and with examples that work."""

from __future__ import annotations

import shlex

import pytest

from kdgraph.cli.help import HELP

EXAMPLES = [
    line.strip()
    for text in HELP.values()
    for line in text.splitlines()
    if line.startswith("  kdg ")
    and not line.startswith("  kdg data")  # whose examples need a network
]


@pytest.mark.parametrize("verb", HELP)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_printed_and_nothing_is_run(kdg, tmp_path, verb, flag):
    for words in ([verb, flag], [verb, "dataset=nonsense", flag]):
        code, out, err = kdg(*words)
        assert (code, err) == (0, "") and out.startswith(f"usage: kdg {verb} ")
        assert f"\n  kdg {verb}" in out or f"$(kdg {verb} " in out
        assert "Exit codes: 0 done, " in out and max(map(len, out.splitlines())) <= 100
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", [example.partition(" > ")[0] for example in EXAMPLES])
def test_the_examples_work(kdg, tmp_path, line):
    (tmp_path / "conf").mkdir()
    code, out, err = kdg(*shlex.split(line)[1:])
    assert (code, err) == (0, "") and out
