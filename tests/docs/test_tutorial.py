"""The tutorial: a data set, a parent and a calibrator of a newcomer's in fewer than 60 lines, in an
empty folder.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kdgraph.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
FEWER_THAN = 60
FAST = {"dataset.n_train=200", "dataset.n_test=200"}
"""Beside what the sweep of the page says: the page's own sizes take minutes, and the first command
runs at them.
"""


def blocks(kind: str) -> list[str]:
    return re.findall(
        rf"^```{kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_it_takes_fewer_than_60_lines_in_all():
    written = [
        line for text in blocks("python") + blocks("yaml") for line in text.splitlines()[1:]
    ]  # the first is the name of the file
    assert len(written) < FEWER_THAN
    assert len(blocks("python")) == 1 and len(blocks("yaml")) == 3


@pytest.mark.slow
def test_a_newcomer_who_follows_it_gets_there(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for text in blocks("python") + blocks("yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.partition("\n")[2])
    one, sweep, compare = [line for text in blocks("console") for line in text.splitlines()]

    def kdg(line: str, *more: str) -> tuple[int, str, str]:
        prompt, path, name, *arguments = shlex.split(line)
        assert (prompt, path, name) == ("$", "PYTHONPATH=.", "kdg")
        code = main([*arguments, *more])
        return code, *capsys.readouterr()

    code, out, err = kdg(one)
    assert (code, err) == (0, "") and "parzen   shrink + forest" in out
    run_dir = out.splitlines()[-1].split()[0]
    assert f"{run_dir} " in PAGE.read_text(encoding="utf-8"), "the page has another run directory"
    far = re.search(r"confidence at radius 5 +(\S+) +(\S+).*prior (\S+)", out)
    assert (
        far is not None and float(far[1]) > 0.9 and far[2] == far[3]
    )  # behind the gate the prior is left
    code, out, err = kdg(one, "parent.width=-1")
    assert (code, err) == (2, "kdg: parent.width must be in (0, inf), got -1\n")
    assert f"`{err.removeprefix('kdg: ').strip()}`" in PAGE.read_text(encoding="utf-8")
    code, out, err = kdg(sweep, *sorted(FAST), "hydra/launcher=basic")
    assert code == 0 and "10 runs in outputs" in out
    code, out, err = kdg(compare)
    assert (code, err) == (0, "") and all(
        name in out for name in ("parzen (parent)", "parzen-isotonic", "parzen-shrink")
    )
    sys.modules.pop("newcomer", None)
