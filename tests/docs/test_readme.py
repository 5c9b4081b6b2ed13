"""README: its size, badges, picture and numbers, and the citations of the papers."""

from __future__ import annotations

import csv
import re
import runpy
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from kdgraph.figures import save_figure

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ASSETS = ROOT / "docs" / "assets"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODELS = {
    "random forest, fitted on all training rows": "random forest, all rows",
    "random forest": "random forest, all rows",
    "random forest, on 70 % of the rows": "random forest",
    "temperature scaling, out of bag": "temperature, out of bag",
    "isotonic regression, out of bag": "isotonic, out of bag",
    "temperature scaling, on the others": "temperature",
    "isotonic regression, on the others": "isotonic",
    "KDF (`method=kdf`, the default)": "kdf",
    "KDF, whitened (`kdf_whitened`)": "kdf_whitened",
    "linear pool behind the whitened gate (`gated_linear_pool`)": "gated_linear_pool",
    "… behind the cautious gate (`gated_cautious`)": "gated_cautious",
    "KDF behind the score gate (`method=gated_kdf`)": "gated_kdf",
    "KDF behind the score gate (`gated_kdf`)": "gated_kdf",
}
"""Name in a table → name in headline.csv."""
HEADLINE = [("test", "error"), ("test", "NLL"), ("test", "ECE")]
IN_README = [
    *HEADLINE,
    ("near", "AUROC"),
    *((name, "confidence") for name in ("test", "near", "shifted", "noise")),
]
IN_BENCHMARKS = [
    *HEADLINE,
    *((name, "confidence") for name in ("test", "near", "permuted", "shifted", "other", "noise")),
]


def texts(svg: Path) -> list[str]:
    return sorted(
        "".join(element.itertext()) for element in ET.parse(svg).iter() if "text" in element.tag
    )


def test_readme_is_short_and_narrow():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert [number for number, line in enumerate(lines, start=1) if len(line) > 120] == []


def test_links_of_readme_lead_to_files_of_the_repository():
    """Sections of other pages are checked where the site is built."""
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / target).is_file()] == []
    assert "](http" not in README and "<img" not in README


def test_badges_state_license_and_pythons_of_the_project():
    pythons = [
        name.rpartition(" ")[2]
        for name in PROJECT["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", name)
    ]
    badges = ASSETS / "badges"
    assert PROJECT["license"] in texts(badges / "license.svg")
    assert " | ".join(pythons) in texts(badges / "python.svg")
    assert f"Python {pythons[0]} to {pythons[-1]} on Linux" in README
    for path in badges.iterdir():
        assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("page", "columns"), [("README.md", IN_README), ("docs/benchmarks.md", IN_BENCHMARKS)]
)
def test_numbers_on_the_digits_are_those_of_the_sweep(page, columns):
    with (ROOT / "docs" / "headline.csv").open(newline="", encoding="utf-8") as file:
        values = {
            (row["method"], row["rows"], row["metric"]): float(row["value"])
            for row in csv.DictReader(file)
            if row["study"].startswith("digits")
        }
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and line.count("|") == len(columns) + 2
    ]
    selected = [row for row in rows if row[0] in MODELS]
    assert len(selected) == (4 if page == "README.md" else 11)
    for name, *cells in selected:
        expected = [f"{values[MODELS[name], *column]:.3f}".lstrip("0") for column in columns]
        assert cells == expected, name


def test_picture_of_headline_numbers_is_drawn_from_the_table(tmp_path):
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_headline.py"))["headline"]()
    (path,) = save_figure(drawn, tmp_path / "headline", ("svg",))
    assert texts(path) == texts(ASSETS / "headline.svg")


def test_citation_and_bibtex_name_the_same_five_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    required = {"cff-version", "message", "title", "authors"}
    assert required <= set(citation) and citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"] and citation["title"] == PROJECT["name"]
    bibtex = (ROOT / "docs" / "papers.bib").read_text(encoding="utf-8")
    entries = [
        dict(re.findall(r"^ +(\w+) += \{(.*)\},?$", entry, re.MULTILINE))
        for entry in re.split(r"^@", bibtex, flags=re.MULTILINE)[1:]
    ]
    assert len(entries) == 5
    for entry, reference in zip(entries, citation["references"], strict=True):
        assert (entry["title"], int(entry["year"])) == (reference["title"], reference["year"])
        authors = " and ".join(
            f"{a['family-names']}, {a['given-names']}" for a in reference["authors"]
        )
        assert entry["author"] == authors
        assert reference["identifiers"] == [{"type": "other", "value": f"arXiv:{entry['eprint']}"}]
        assert entry["author"].partition(",")[0] + " et al." in " ".join(README.split())
