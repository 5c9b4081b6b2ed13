"""The pages on how to add something: each is one piece of code, one file of YAML and commands that
work as they stand there.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from kdgraph.cli import main
from kdgraph.config import plan
from kdgraph.run_config.outliers import seen_in_training

pytestmark = pytest.mark.slow

PAGES = sorted((Path(__file__).parents[1] / "docs" / "howto").glob("*.md"))
MOST_LINES = 25
"""Of code, without blank ones."""


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(
        rf"^```{kind}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_every_kind_of_part_has_a_page():
    assert {page.stem for page in PAGES} == {
        "dataset",
        "parent",
        "calibrator",
        "detector",
        "exposure",
        "recalibrator",
        "metric",
        "figure",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_works_as_it_stands_there(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (code,), (yaml,), (commands,) = (blocks(page, kind) for kind in ("python", "yaml", "console"))
    assert (
        len([line for line in code.splitlines() if line.strip()]) <= MOST_LINES + 1
    )  # the name of the file is none
    for text in (code, yaml):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.partition("\n")[2])
    before = set(sys.modules)
    for line in commands.splitlines():
        prompt, path, kdg, *arguments = shlex.split(line)
        assert (prompt, path, kdg) == ("$", "PYTHONPATH=.", "kdg")
        assert main(arguments) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        assert err == "" and "outputs/" in out
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


def test_what_a_run_says_of_outliers_that_it_trained_with_stands_on_their_page():
    page = next(page for page in PAGES if page.stem == "exposure").read_text(encoding="utf-8")
    (job,) = plan(["dataset=wine", "parent=mlp_oe", "calibrator=none", "ood=noise"]).jobs
    (said,) = seen_in_training(job.config.science())
    assert f'"{said}"' in page
