"""The how-to pages: their modules, YAML files, commands and scripts work without changes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kdgraph.cli.main import main
from kdgraph.config import plan
from kdgraph.config.data_sources import seen_in_training
from kdgraph.figures.run_figures import _FIGURES
from kdgraph.metrics import METRICS
from tests.openml_data import require_cached

pytestmark = pytest.mark.slow

HOWTO = Path(__file__).parents[1] / "docs" / "howto"
# Pages with scripts, commands and output in place of a component, and the libraries they need.
LIBRARIES = {
    "check": ["lightgbm"],
    "deploy": ["onnx", "onnxruntime", "dask.dataframe"],
    "fitted_model": ["lightgbm"],
    "library": [],
    "torch_module": [],
    "track": ["mlflow", "wandb"],
    "tune": ["optuna"],
}
SCRIPT_PAGES = {HOWTO / f"{name}.md": needed for name, needed in LIBRARIES.items()}
# An example of a whole analysis, which has a test of its own.
REGRESSION = HOWTO / "regression.md"
# Pages of commands without a part, a script or output: tests/docs/test_commands.py has their tests.
COMMAND_PAGES = [HOWTO / f"{name}.md" for name in ("commands_by_task", "data", "install", "sweeps")]
PAGES = sorted(
    page for page in HOWTO.glob("*.md") if page not in (*SCRIPT_PAGES, REGRESSION, *COMMAND_PAGES)
)
# Lines of code without blank ones.
MAX_LINES = 25


def code_blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def test_every_kind_of_component_has_a_page():
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


@pytest.fixture
def _registries():
    """Unregister what a page registers: other tests compare with all metrics and figures."""
    registries = (METRICS, _FIGURES)
    before = [dict(registry) for registry in registries]
    yield
    for registry, content in zip(registries, before, strict=True):
        registry.clear()
        registry.update(content)


@pytest.mark.usefixtures("_registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_page_succeed(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (code,), (yaml,), (commands,) = (
        code_blocks(page, language) for language in ("python", "yaml", "console")
    )
    # The first line, the name of the file, does not count.
    assert len([line for line in code.splitlines() if line.strip()]) <= MAX_LINES + 1
    for text in (code, yaml):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.partition("\n")[2])
    imported_before = set(sys.modules)
    for line in commands.splitlines():
        prompt, path, kdg, *arguments = shlex.split(line)
        assert (prompt, path, kdg) == ("$", "PYTHONPATH=.", "kdg")
        assert main(arguments) == 0, capsys.readouterr().err
        out, err = capsys.readouterr()
        assert err == "" and "outputs/" in out
    for name in set(sys.modules) - imported_before:
        if name.startswith("my_"):
            del sys.modules[name]


@pytest.mark.filterwarnings("default:.* have the features of another row:UserWarning")
def test_regression_page_prints_what_it_quotes(tmp_path, monkeypatch, capsys):
    """Other versions of ngboost and numpy may grow a few other trees.

    The tolerance is the standard error of a coverage of 0.9 on the rows that it is of, some 500,
    and a percent of the CRPS. Steps of the story are asserted as they stand.
    """
    pytest.importorskip("ngboost", reason="ngboost is not installed; the extra peers has it")
    require_cached(42225)
    (code,), (quoted,) = (code_blocks(REGRESSION, language) for language in ("python", "text"))
    exec(compile(code, "diamonds.py", "exec"), {})
    printed = capsys.readouterr().out
    numbers, expected = (
        np.array([re.findall(r"\d+\.?\d*", line) for line in text.splitlines()], dtype=float)
        for text in (printed, quoted)
    )
    tolerance = np.array([0.01 * expected[0, 0], 0.014, 0.014, 0.014])
    assert (np.abs(numbers - expected) <= tolerance).all(), printed
    parent, shared, local = numbers
    assert local[0] < 0.92 * min(parent[0], shared[0])
    assert np.abs(local[2:] - 0.9).max() < 0.03 < np.abs(shared[2:] - 0.9).min()

    monkeypatch.chdir(tmp_path)
    (command,) = code_blocks(REGRESSION, "console")
    prompt, kdg, *arguments = shlex.split(command)
    small = ["dataset.n_train=1000", "dataset.n_calibration=500", "parent.n_estimators=20"]
    assert (prompt, kdg, main([*arguments, *small])) == ("$", "kdg", 0)
    assert "local_linear_pit" in capsys.readouterr().out


def test_exposure_page_quotes_the_warning_about_training_outliers():
    page = next(page for page in PAGES if page.stem == "exposure").read_text(encoding="utf-8")
    (job,) = plan(["dataset=wine", "parent=mlp_oe", "calibrator=none", "ood=noise"]).jobs
    (warning,) = seen_in_training(job.config.science())
    assert f'"{warning}"' in " ".join(page.split())


@pytest.mark.filterwarnings("ignore:.*trees of their own")
@pytest.mark.parametrize("page", SCRIPT_PAGES, ids=lambda page: page.stem)
def test_scripts_of_the_page_print_what_the_page_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for library in SCRIPT_PAGES[page]:
        pytest.importorskip(library, reason=f"{library} is not installed; peers or trackers has it")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M)
    output = ""
    for language, block in blocks:
        if language == "text":
            assert output == block
        elif not language:
            check_table(block, capsys.readouterr().out)
        elif language == "python":
            output = output_of_script(block)
        elif language == "console":
            for line in block.splitlines():
                prompt, kdg, *arguments = shlex.split(line)
                assert (prompt, kdg) == ("$", "kdg")
                assert main(arguments) == 0, capsys.readouterr().err


def check_table(quoted: str, printed: str) -> None:
    """Compare a quoted table with the printed one, but for its last columns, which are times.

    Trees of another version of a library may differ in a few rows: numbers may by .01, and fractions
    of resamples by 10 %.
    """
    lines = printed[printed.index(quoted.splitlines()[0]) :].splitlines()
    for expected, line in zip(quoted.splitlines(), lines, strict=False):
        cells, actual = (re.split(r"\s{2,}", text.strip())[:-2] for text in (expected, line))
        assert actual[:1] == cells[:1]
        for cell, value in zip(cells[1:], actual[1:], strict=True):
            pairs = [re.findall(r"[-+]?\d*\.?\d+", text) for text in (cell, value)]
            tolerance = 10 if cell.endswith("%") else 0.01
            np.testing.assert_allclose(
                np.array(pairs[1], dtype=float), np.array(pairs[0], dtype=float), atol=tolerance
            )


def output_of_script(code: str) -> str:
    """Return what a script prints in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
