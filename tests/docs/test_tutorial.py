"""The tutorial: a new data set, parent and calibrator in fewer than 60 lines of code."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
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


def numbers(metric: str, text: str) -> list[float]:
    """Return the first line of numbers of a metric in the output of a run."""
    line = re.search(rf"^ +{metric}((?: +[\d.]+(?: ◂)?)+)$", text, re.MULTILINE)
    assert line is not None, metric
    return [float(number) for number in re.findall(r"[\d.]+", line[1])]


@pytest.mark.slow
def test_tutorial_commands_succeed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for text in code_blocks("python") + code_blocks("yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.partition("\n")[2])
    run, sweep, compare, table = [
        line for text in code_blocks("console") for line in text.splitlines()
    ]

    def kdg(line: str, *overrides: str) -> tuple[int, str, str]:
        prompt, path, name, *arguments = shlex.split(line)
        assert (prompt, path, name) == ("$", "PYTHONPATH=.", "kdg")
        code = main([*arguments, *overrides])
        return code, *capsys.readouterr()

    code, out, err = kdg(run)
    assert (code, err) == (0, "") and "parzen   shrink + forest" in out
    run_dir = out.splitlines()[-1].split()[0]
    text = PAGE.read_text(encoding="utf-8")
    assert f"{run_dir} " in text, "the page has another run directory"
    # Two rows of 1,000 whose probabilities tie up to rounding may move by machine.
    for metric in ("error", "NLL", "Brier", "ECE, 15 bins"):
        assert numbers(metric, out) == pytest.approx(numbers(metric, text), abs=0.002)
    confidences = re.search(r"confidence at radius 5 +(\S+) +(\S+).*prior (\S+)", out)
    assert confidences is not None
    # The parent stays confident far away; the gate returns the prior.
    assert float(confidences[1]) > 0.9 and confidences[2] == confidences[3]
    code, out, err = kdg(run, "parent.width=-1")
    assert (code, err) == (2, "kdg: parent.width must be in (0, inf), got -1\n")
    assert f"`{err.removeprefix('kdg: ').strip()}`" in text
    code, out, err = kdg(sweep, *SMALL_SAMPLES, "hydra/launcher=basic")
    assert code == 0 and "20 runs in outputs" in out
    code, out, err = kdg(compare)
    assert (code, err) == (0, "") and all(
        name in out for name in ("parzen (parent)", "parzen-isotonic", "parzen-shrink")
    )
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.normal(size=(200, 2)) + y[:, None]
    rows = pd.DataFrame(X, columns=["a", "b"]).assign(label=np.where(y, "yes", "no"))
    rows.to_csv("my.csv", index=False)
    code, out, err = kdg(table)
    assert (code, err) == (0, "") and "outputs/my/parzen-shrink-forest/" in out
    sys.modules.pop("newcomer", None)
