"""The tutorial: a new data set, parent and calibrator in fewer than 60 lines of code."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kdgraph.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
MAX_LINES = 59
# Overrides of the sweep, which takes minutes with the sizes of the page. The first command runs
# with these sizes.
SMALL_SAMPLES = ["dataset.n_test=200", "dataset.n_train=200"]


def code_blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_tutorial_has_fewer_than_60_lines_of_code():
    # The first line of each block is the name of its file.
    code_lines = [
        line
        for text in code_blocks("python") + code_blocks("yaml")
        for line in text.splitlines()[1:]
    ]
    assert len(code_lines) <= MAX_LINES
    assert len(code_blocks("python")) == 1 and len(code_blocks("yaml")) == 3


@pytest.mark.slow
def test_tutorial_commands_succeed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for text in code_blocks("python") + code_blocks("yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.partition("\n")[2])
    run, sweep, compare = [line for text in code_blocks("console") for line in text.splitlines()]

    def kdg(line: str, *overrides: str) -> tuple[int, str, str]:
        prompt, path, name, *arguments = shlex.split(line)
        assert (prompt, path, name) == ("$", "PYTHONPATH=.", "kdg")
        code = main([*arguments, *overrides])
        return code, *capsys.readouterr()

    code, out, err = kdg(run)
    assert (code, err) == (0, "") and "parzen   shrink + forest" in out
    run_dir = out.splitlines()[-1].split()[0]
    assert f"{run_dir} " in PAGE.read_text(encoding="utf-8"), "the page has another run directory"
    confidences = re.search(r"confidence at radius 5 +(\S+) +(\S+).*prior (\S+)", out)
    assert confidences is not None
    # The parent stays confident far away; the gate returns the prior.
    assert float(confidences[1]) > 0.9 and confidences[2] == confidences[3]
    code, out, err = kdg(run, "parent.width=-1")
    assert (code, err) == (2, "kdg: parent.width must be in (0, inf), got -1\n")
    assert f"`{err.removeprefix('kdg: ').strip()}`" in PAGE.read_text(encoding="utf-8")
    code, out, err = kdg(sweep, *SMALL_SAMPLES, "hydra/launcher=basic")
    assert code == 0 and "10 runs in outputs" in out
    code, out, err = kdg(compare)
    assert (code, err) == (0, "") and all(
        name in out for name in ("parzen (parent)", "parzen-isotonic", "parzen-shrink")
    )
    sys.modules.pop("newcomer", None)
