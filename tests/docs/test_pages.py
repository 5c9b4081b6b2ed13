"""What pages of docs/ say by hand, and what hooks add to it."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from kdgraph.config import compose

DOCS = Path(__file__).parents[2] / "docs"
CONF = DOCS.parent / "conf"
METHODS = sorted(path for path in (DOCS / "methods").rglob("*.md") if path.name != "index.md")


def front(path: Path) -> dict:
    found = re.match(r"---\n(.*?)\n---\n", path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, path
    return yaml.safe_load(found[1])


def test_run_directory_of_the_readme_is_that_of_its_command():
    """The id of a run follows from its config and changes with every key and schema."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^ +\$ kdg run (.+)$", text, re.MULTILINE)
    assert command is not None
    run_dir = f"{compose(command[1].split()).run_dir}"
    assert text.count(f"{run_dir} ") == 2, f"README.md must name {run_dir}"


def test_every_preset_has_one_page():
    listed = [preset for path in METHODS for preset in front(path)["presets"]]
    assert sorted(listed) == sorted(
        path.stem for path in (CONF / "method").glob("*.yaml") if not path.stem.startswith("_")
    )


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_method_has_a_formula_its_source_when_to_use_it_and_its_limits(path):
    text = path.read_text(encoding="utf-8")
    parts = ["$$", "**Source.** ", "**When.** ", "**Limits.** "]
    assert [part for part in parts if part not in text] == []
    assert sorted(parts, key=text.index) == parts


def test_every_formula_is_one_in_mathml(hooks):
    for path in sorted(DOCS.rglob("*.md")):
        text = re.sub(
            r"```.*?```|`[^`]*`|^ {4}.*?$",
            "",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL | re.MULTILINE,
        )
        for formula in re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL) + re.findall(
            r"(?<!\$)\$([^$\n]+)\$(?!\$)", text
        ):
            assert hooks["formulas"].mathml(formula).startswith("<math"), (path, formula)


def test_every_picture_is_drawn_by_the_command_and_shown():
    drawn = re.findall(
        r'^    "(\w+)": \(\s*\1,',
        (DOCS / "draw.py").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(drawn) >= 4 and sorted(drawn) == sorted(
        path.stem for path in (DOCS / "pictures").glob("*.svg")
    )
    text = "".join(
        (DOCS / name).read_text(encoding="utf-8") for name in ("index.md", "concepts.md")
    )
    assert [name for name in drawn if f"](pictures/{name}.svg)" not in text] == []


@pytest.mark.parametrize("name", ["docstrings", "formulas"])
def test_examples_in_hooks(hooks, name):
    found = doctest.testmod(hooks[name])
    assert found.attempted > 0 and found.failed == 0


def test_a_formula_that_cannot_be_shown_is_refused_with_its_page(hooks):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="x.md"))
    with pytest.raises(
        PluginError, match=r"^x.md: no MathML of \\unknown in the formula \\unknown$"
    ):
        hooks["formulas"].on_page_content(
            '<span class="arithmatex">\\(\\unknown\\)</span>', page=page
        )


def test_parameters_are_those_of_the_configuration(hooks):
    lines = hooks["presets"].sections(["kde", "kde_pooled"], {})
    text = "\n".join(lines)
    assert "    kdg run dataset=spiral method=kde_pooled" in lines
    assert (
        "| `bandwidth` | `b_mon2` | b_mon, b_mon2, b_mon4, b_opt or a number in (0, inf) | b_mon"
        " \\| b_mon2" in text
    )
    assert (
        text.endswith("| `pool` | `cv` | a number in [0, inf) or cv |  |\n")
        or "As calibrator `kde`, but of calibrator `kde_pooled`:" in text
    )
    assert (
        len([line for line in lines if line.startswith("| `")]) == 11 + 1
    )  # the second shows what is other


@pytest.mark.parametrize(
    ("preset", "keys"),
    [
        ("gated_cautious", ["max_mean_shift", "distance"]),  # through two files that it builds on
        pytest.param(
            "oe", ["changes.exposure.weight"], marks=pytest.mark.slow
        ),  # of a node that comes from the parents; imports torch
        (
            "local_pit_conformal",
            ["recalibrator.k", "correction_fraction"],
        ),  # of a recalibrator within
        ("gamma_glm", ["dispersion"]),  # the parent, where nothing stands after it
        pytest.param("energy_tuned", ["exposure.margin_in", "temperature"], marks=pytest.mark.slow),
        ("lore_tsne", ["features.reduce"]),  # a flow mapping
    ],
)
def test_parameters_of_what_is_built_on_others(hooks, preset, keys):
    text = "\n".join(hooks["presets"].sections([preset], {}))
    assert [key for key in keys if f"| `{key}` |" not in text] == []


def test_an_unknown_preset_is_refused(hooks):
    with pytest.raises(PluginError, match="there is no method 'kdff' in conf/method"):
        hooks["presets"].sections(["kdff"], {})


def test_links_of_texts_lead_to_what_the_site_has(hooks):
    relinked = hooks["checkout"].relinked
    there = Files([])
    said = (
        "[m](CONTRIBUTING.md), [of the package](kdgraph/errors.py),"
        " [out](https://example.org/x.md), `[x](y)`"
    )
    assert relinked(said, "", "a/b.md", there).startswith(
        "m, of the package, [out](https://example.org/x.md)"
    )
    with pytest.raises(PluginError, match=r"^b\.md links to not_there\.md, which is not there$"):
        relinked("[x](not_there.md)", "", "b.md", there)
    assert (
        relinked("```\n[x](not_there.md)\n```\n    [x](not_there.md)", "", "b.md", there).count(
            "not_there"
        )
        == 2
    )


def test_results_that_are_found_are_listed(hooks):
    config: Any = SimpleNamespace(
        site_dir="site", use_directory_urls=False, plugins=SimpleNamespace(_current_plugin="x")
    )
    contents = {
        "index.md": "# Results",
        "page.md": "# Every number\n\nThis.",
        "cells.csv": "a",
        "alone/page.html": "<p>",
    }
    files = Files(
        [File.generated(config, f"results/{name}", content=text) for name, text in contents.items()]
    )
    assert hooks["checkout"].found_in_results(files).splitlines() == [
        "- [Every number](page.md)",
        "- [page.html](alone/page.html), the same by itself",
        "- [cells.csv](cells.csv)",
    ]


def test_sections_of_the_readme(hooks):
    assert (
        hooks["checkout"]
        .section("What you get")
        .startswith("    $ kdg run dataset=spiral method=kdf\n")
    )
    with pytest.raises(PluginError, match="the README has no section 'What you do not get'"):
        hooks["checkout"].section("What you do not get")


def test_a_page_of_figures_shows_what_is_drawn_and_says_what_is_missing(hooks, tmp_path):
    table = tmp_path / "p9" / "figures.csv"
    (table.parent / "pictures").mkdir(parents=True)
    (table.parent / "pictures" / "a.svg").write_text("<svg/>")
    table.write_text(
        "figure,page,shows,drawn_by,files,caption,missing\n1,2,a line,python -m x,pictures/a,As"
        ' printed.,\n2,2,b,,,,"weights, here"\n'
    )
    text = hooks["checkout"].figures_page(table)
    assert (
        "![Figure 1](pictures/a.svg)" in text
        and "A line." in text
        and "As printed." in text
        and "`python -m x`" in text
    )
    assert text.rstrip().endswith("*Missing:* weights, here.")
