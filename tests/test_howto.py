"""The how-to pages: their modules, YAML files, commands and scripts work without changes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kdgraph.cli.main import main
from kdgraph.config import plan
from kdgraph.config.data_sources import seen_in_training
from kdgraph.figures.run_figures import _FIGURES
from kdgraph.metrics import METRICS

pytestmark = pytest.mark.slow

ALL_PAGES = sorted((Path(__file__).parents[1] / "docs" / "howto").glob("*.md"))
# Pages with scripts, commands and output in place of a component, and the libraries they need.
LIBRARIES = {"fitted_model": ["lightgbm"], "torch_module": []}
SCRIPT_PAGES = {page: LIBRARIES[page.stem] for page in ALL_PAGES if page.stem in LIBRARIES}
PAGES = [page for page in ALL_PAGES if page not in SCRIPT_PAGES]
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


def test_exposure_page_quotes_the_warning_about_training_outliers():
    page = next(page for page in PAGES if page.stem == "exposure").read_text(encoding="utf-8")
    (job,) = plan(["dataset=wine", "parent=mlp_oe", "calibrator=none", "ood=noise"]).jobs
    (warning,) = seen_in_training(job.config.science())
    assert f'"{warning}"' in page


@pytest.mark.filterwarnings("ignore:.*trees of their own")
@pytest.mark.parametrize("page", SCRIPT_PAGES, ids=lambda page: page.stem)
def test_scripts_of_the_page_print_what_the_page_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for library in SCRIPT_PAGES[page]:
        pytest.importorskip(library, reason=f"{library} is not installed; the extra peers has it")
    blocks = re.findall(
        r"^```(python|console|text)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.S | re.M
    )
    output = ""
    for language, block in blocks:
        if language == "text":
            assert output == block
        elif language == "python":
            output = output_of_script(block)
        else:
            for line in block.splitlines():
                prompt, kdg, *arguments = shlex.split(line)
                assert (prompt, kdg) == ("$", "kdg")
                assert main(arguments) == 0, capsys.readouterr().err


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
