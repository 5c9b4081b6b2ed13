"""The site as it is built: no network, nothing missing, and a search that works from files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADS = re.compile(
    r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*?\b(?:src|href|data|srcset)=[\"']?((?:https?:)?//[^\"'"
    r" >]+)"
)


def pages(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("*.html"))
    }


def anchors(site: Path, folder: str, pattern: str) -> set[str]:
    return {
        found
        for name, text in pages(site).items()
        if name.startswith(folder)
        for found in re.findall(pattern, text)
    }


def test_no_page_loads_anything_from_elsewhere(site):
    for name, text in pages(site).items():
        assert LOADS.findall(text) == [], name
        assert "unpkg.com" not in text and 'class="mermaid"' not in text, name
    for style in site.rglob("*.css"):
        assert (
            re.findall(
                r"(?:@import|url\()\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")
            )
            == []
        ), style


def test_every_method_has_its_place(site):
    found = {
        anchor
        for name, text in pages(site).items()
        if name.startswith("methods/")
        for anchor in re.findall(r'<h3 id="([\w]+)"', text)
    }
    assert found >= {
        path.stem
        for path in (ROOT / "conf" / "method").glob("*.yaml")
        if not path.stem.startswith("_")
    }


def test_the_reference_has_every_public_name(site, hooks):
    """Each class and function without underscore of the library's packages."""
    there = anchors(site, "reference/", r'id="(kdgraph\.[\w.]+)"')
    wanted = set()
    for package in hooks["reference"].PACKAGES:
        for path in sorted(
            path
            for path in (ROOT / "kdgraph" / package).rglob("*.py")
            if path.stem == "__init__" or path.stem[0] != "_"
        ):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith(
                    "_"
                ):
                    wanted.add(f"{module}.{node.name}")
    assert len(wanted) > 500
    assert sorted(wanted - there) == []


def test_exported_names_come_first_and_internals_are_apart(site):
    text = pages(site)
    assert 'id="kdgraph.density.classifiers.KernelDensityForest"' in text["reference/density.html"]
    assert 'id="kdgraph.density.graph.QueryResult"' not in text["reference/density.html"]
    assert 'id="kdgraph.density.graph.QueryResult"' in text["reference/internals/density.html"]


def test_formulas_are_shown_without_a_script(site):
    text = pages(site)["methods/density/kdf.html"]
    assert text.count('display="block"') == 2 and "arithmatex" not in text and r"\frac" not in text


def test_pictures_and_links_are_there(site):
    """Every picture that a page shows, which mkdocs does not check where it copies files."""
    for name, text in pages(site).items():
        for source in re.findall(r'<img [^>]*?src="([^":]+)"', text):
            assert ((site / name).parent / source).is_file(), (name, source)


def test_what_builds_the_site_is_not_in_it(site):
    assert not list(site.rglob("*.py")) and not (site / "hooks").exists()


def test_the_search_finds_where_pages_are_files(site, browser):
    browser.get((site / "index.html").as_uri())
    browser.execute_script("document.querySelector('#__search').click()")
    field = browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]")
    wait = WebDriverWait(browser, 60, poll_frequency=0.05)
    wait.until(lambda _: field.is_displayed())
    field.send_keys("leaf box")
    links = wait.until(
        lambda there: there.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    )
    assert any(
        "methods/detection/leaf_box.html" in (link.get_attribute("href") or "") for link in links
    )
