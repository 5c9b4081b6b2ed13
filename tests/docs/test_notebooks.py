"""Notebooks of the documentation: they run, print what they show, and their claims hold."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import nbformat
import pytest
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbclient.exceptions import CellExecutionError

from tests.openml_data import require_cached
from tests.scripts.loading import load_script

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NUMBER = re.compile(r"(?P<mean>-?\d[\d,]*(?:\.\d+)?)(?: ± (?P<sd>\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Story:
    """Requirements of a notebook, and claims that hold on any machine.

    Attributes
    ----------
    openml : int
        Its data set.
    sha256 : str
        Beginning of the digest of the copy of the data that its numbers are of.
    libraries : tuple of str
        What it imports besides the dependencies of kdgraph.
    absolute, relative : float
        How far a number of a rerun may be from the stored one. A mean ± its standard deviation may
        also be three standard deviations away: on another processor, a network is trained as if
        from another seed.
    claims : str
        Assertions about the variables of the notebook: what its text concludes.
    """

    openml: int
    sha256: str
    libraries: tuple[str, ...]
    absolute: float
    relative: float
    claims: str


STORIES = {
    "lightgbm_adult": Story(
        openml=1590,
        sha256="7a738e644f30be9c",
        libraries=("lightgbm",),
        absolute=0.0,
        relative=0.0,
        claims="""
assert (over_draws["ECE, calibrated"] < 0.5 * over_draws["ECE"]).all()
assert (over_draws["NLL, calibrated"] < over_draws["NLL"] - 0.01).all()
for group in ("men", "women"):
    assert (by_sex[f"{group}, calibrated"] < by_sex[group]).all()
assert (by_sex["women, calibrated"] < 2 * by_sex["women, by chance"]).all()
for mistake in ("age in months", "hours per year"):
    assert share_changed(mistakes[mistake]) > 0.9
    confidence = {name: mmc(m.predict_proba(mistakes[mistake])) for name, m in models.items()}
    assert confidence["calibrated and gated"] < 0.77 and confidence["LightGBM"] > 0.85
for mistake in ("none", "age and hours exchanged", "each column shuffled"):
    assert share_changed(mistakes[mistake]) < 0.02
# 5 draws of some 3,300 women, with thresholds of some 660 others: standard error about .006.
coverage = covered.xs("mean", axis=1, level=1).T
assert coverage["for all"]["men"] < 0.885 and coverage["for all"]["women"] > 0.925
assert (abs(coverage["for each sex"] - 0.9) < 0.018).all()
assert set_size(model.predict_set(mistakes["age in months"])) < 1.1
""",
    ),
    "torch_fashion_mnist": Story(
        openml=40996,
        sha256="f53a9452a6cb2937",
        libraries=(),
        absolute=0.05,
        relative=0.1,
        claims="""
in_distribution, sets, area = (
    sum(pd.DataFrame(result).T for result in results) / len(results)
    for results in (quality, confidence, areas)
)
assert in_distribution["ECE"].idxmax() == "network"
assert in_distribution.loc["network", "ECE"] > 1.5 * in_distribution.loc["network", "ECE by chance"]
assert in_distribution.loc["KDN", "error"] < in_distribution.loc["network", "error"]
assert in_distribution.loc["score gate", "NLL"] > in_distribution.loc["calibrated", "NLL"]
assert sets.loc["network", "inverted"] > 0.6
assert (sets.loc[["KDN", "density gate"], "inverted"] < 0.2).all()
assert sets.loc["network", "boots"] > sets.loc["network", "test images"]
assert (network.predict(other_sets["boots"]) == KINDS.index("sneaker")).mean() > 0.5
# The score gate does most, and what it leaves is far from the prior, .13.
assert sets["boots"].idxmin() == sets["bags"].idxmin() == "score gate"
assert (sets["boots"] > 0.4).all()
assert area.loc["1 - confidence", "boots"] < 0.65
assert (area.loc[["Mahalanobis", "5th neighbour"], "boots"] > 0.68).all()
""",
    ),
    "ngboost_diamonds": Story(
        openml=42225,
        sha256="8607c48d09ea58f8",
        libraries=("ngboost",),
        absolute=0.005,
        relative=0.01,
        claims="""
score = means["CRPS"]
assert score["local PIT"] < 0.93 * score["NGBoost"] and score["global PIT"] > 0.98 * score["NGBoost"]
assert score["local PIT"] < score["local PIT, conformal"] < 0.95 * score["NGBoost"]
gap = (means[["small", "medium", "large"]] - 0.9).abs()
assert (gap.loc[["NGBoost", "global PIT"], ["small", "large"]] > 0.03).all(axis=None)
assert (gap.loc[["local PIT", "local PIT, conformal"]] < 0.025).all(axis=None)
assert (means["coverage"].drop("NGBoost") - 0.9).abs().max() < 0.015
assert means.loc["NGBoost", "PIT distance"] > 2 * means["PIT distance"].drop("NGBoost").max()
""",
    ),
}


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    return load_script("run_notebooks")


def text_of(output: dict[str, Any]) -> str:
    """Return what an output shows as text; a table without the layout that numbers change."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    html = "".join(data.get("text/html", ""))
    text = re.sub(r"<style.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL) or data["text/plain"]
    return " ".join("".join(text).split())


def check_same(shown: str, printed: str, absolute: float, relative: float) -> None:
    """Assert that two texts differ in numbers only, and in these by no more than is allowed.

    One unit in the last printed place is allowed in any case, except of integers that stand alone:
    a value between two steps may be rounded to either. Standard deviations are not compared.
    """
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    for first, second in zip(NUMBER.finditer(shown), NUMBER.finditer(printed), strict=True):
        expected, value, sd = (
            float(text.replace(",", ""))
            for text in (first["mean"], second["mean"], first["sd"] or "0")
        )
        decimals = len(first["mean"].partition(".")[2])
        unit = 10.0**-decimals if decimals or first["sd"] else 0.0
        # 1.01: the difference of two printed numbers is not exactly a unit.
        allowed = max(1.01 * unit, absolute, relative * abs(expected), 3 * sd)
        assert abs(value - expected) <= allowed, f"{value} for {expected} in: {printed}"


def test_every_notebook_has_a_story():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(STORIES)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STORIES)
def test_notebook_prints_what_it_shows_and_its_claims_hold(runner, name):
    """The numbers are compared where the data are the copy that they are of."""
    story = STORIES[name]
    for library in story.libraries:
        pytest.importorskip(library, reason=f"{library} is not installed; the extra peers has it")
    cached = require_cached(story.openml)
    stored = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    executed = runner.execute(stored, appended=story.claims)
    if not hashlib.sha256(cached.file.read_bytes()).hexdigest().startswith(story.sha256):
        return
    for cell, again in zip(stored.cells, executed.cells, strict=True):
        shown, printed = (
            [text_of(output) for output in c.get("outputs", ())] for c in (cell, again)
        )
        assert len(shown) == len(printed), printed
        for first, second in zip(shown, printed, strict=True):
            check_same(first, second, story.absolute, story.relative)


@pytest.mark.slow
def test_error_in_a_cell_fails_and_outputs_are_compared(runner):
    """Assertions that the test above adds are executed, and their errors are reported."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title"),
            nbformat.v4.new_code_cell("x = 0.25\nprint(f'x is {x}')\nprint('and')\n3 * x"),
        ]
    )
    executed = runner.execute(notebook, appended="assert x == 0.25")
    stream, value = executed.cells[1].outputs
    assert (text_of(stream), text_of(value)) == ("x is 0.25 and", "0.75")
    assert len(executed.cells) == 2 and notebook.cells[1].outputs == []
    with pytest.raises(CellExecutionError, match="assert x == 1"):
        runner.execute(notebook, appended="assert x == 1")


def test_texts_are_compared_up_to_rounding():
    check_same("ECE 0.036, 6,465 gaps", "ECE 0.037, 6,465 gaps", 0.0, 0.0)
    check_same("CRPS 264.0", "CRPS 266.0", 0.0, 0.01)
    check_same("CRPS 263 ± 2", "CRPS 257 ± 3", 0.0, 0.0)
    for printed in ("ECE 0.038, 6,465 gaps", "ECE 0.036, 6,466 gaps", "NLL 0.036, 6,465 gaps"):
        with pytest.raises(AssertionError):
            check_same("ECE 0.036, 6,465 gaps", printed, 0.0, 0.0)


@pytest.mark.parametrize("name", STORIES)
def test_notebook_is_stored_as_executed_from_top_to_bottom(name):
    """Nothing of the machine is in it: no path, no warning, no error."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [o for cell in code for o in cell.outputs if o.get("name") == "stderr"] == []
    assert set(notebook.metadata) == {"kernelspec"}
    assert sum("image/png" in o.get("data", ()) for cell in code for o in cell.outputs) >= 1
    assert notebook.cells[0].source.startswith("# ")


@pytest.fixture
def notebook() -> dict[str, Any]:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
        {
            "output_type": "execute_result",
            "data": {
                "text/html": '<div>\n<style scoped>\n a {}\n</style>\n<table border="1" class="x">'
                '<tr style="text-align: right;"><td>1 ± 2</td></tr></table>\n</div>',
                "text/plain": "1",
            },
        },
        {
            "output_type": "display_data",
            "data": {"image/png": base64.b64encode(b"pixels").decode(), "text/plain": "<F>"},
            "metadata": {"image/png": {"width": 420}},
        },
    ]
    return {
        "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text."]},
            {"cell_type": "code", "source": "# A drawing.\ndraw()", "outputs": outputs},
        ]
    }


def test_page_of_a_notebook_has_text_code_and_outputs(hooks, notebook):
    page, pictures = hooks["notebooks"].page_of(notebook, "story")
    assert pictures == {"story_1.png": b"pixels"}
    assert page == (
        "# Title\n\nThis page is a notebook, [story.ipynb](story.ipynb): its code runs as it"
        " stands.\n\nText.\n\n```python\n# A drawing.\ndraw()\n```\n\n```text\none\ntwo\n```\n\n"
        "<div>\n<table><tr><td>1&nbsp;±&nbsp;2</td></tr></table>\n</div>\n\n"
        "![A drawing](story_1.png){ width=420 }\n"
    )


def test_notebook_becomes_a_page_beside_its_file(hooks, notebook):
    config: Any = SimpleNamespace(
        site_dir="site", use_directory_urls=False, plugins=SimpleNamespace(_current_plugin="x")
    )
    file = File.generated(config, "notebooks/story.ipynb", content=json.dumps(notebook))
    files = hooks["notebooks"].on_files(Files([file]), config=config)
    uris = sorted(file.src_uri for file in files)
    assert uris == [f"notebooks/story{end}" for end in (".ipynb", ".md", "_1.png")]


def test_links_to_notebooks_lead_to_their_pages(hooks):
    text = "[a](../notebooks/a.ipynb), [b](notebooks/b.ipynb#c), [d](d.ipynb), `e.ipynb`"
    changed = hooks["notebooks"].on_page_markdown(text)
    assert changed == text.replace("notebooks/a.ipynb", "notebooks/a.md")


def test_warning_in_a_notebook_is_refused(hooks, notebook):
    notebook["cells"][1]["outputs"][0]["name"] = "stderr"
    with pytest.raises(
        PluginError, match=r"^notebooks/story.ipynb has an output that no page shows"
    ):
        hooks["notebooks"].page_of(notebook, "story")
