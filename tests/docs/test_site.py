"""The built site: complete, loads nothing from the network, and its search works from files."""

from __future__ import annotations

import ast
import html
import posixpath
import re
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from kdgraph.config.catalogue import Catalogue

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXTERNAL_SOURCE = re.compile(
    r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*?"
    r"\b(?:src|href|data|srcset)=[\"']?((?:https?:)?//[^\"' >]+)"
)


def page_texts(site: Path) -> dict[str, str]:
    return {
        path.relative_to(site).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(site.rglob("*.html"))
    }


def anchors(site: Path, folder: str, pattern: str) -> set[str]:
    """Return the ids of elements on the pages of a folder that match the pattern."""
    return {
        anchor
        for name, text in page_texts(site).items()
        if name.startswith(folder)
        for anchor in re.findall(pattern, text)
    }


def test_titles_of_pages_name_the_page(site):
    titles = {
        name: re.findall(r"<title>(.*?)</title>", text) for name, text in page_texts(site).items()
    }
    assert titles["index.html"] == ["Start - kdgraph"]
    assert [name for name, title in titles.items() if title == ["kdgraph - kdgraph"]] == []


def test_no_page_loads_anything_from_the_network(site):
    for name, text in page_texts(site).items():
        assert EXTERNAL_SOURCE.findall(text) == [], name
        assert "unpkg.com" not in text and 'class="mermaid"' not in text, name
    external_import = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
    for path in site.rglob("*.css"):
        assert external_import.findall(path.read_text(encoding="utf-8")) == [], path


def test_every_method_preset_has_an_anchor(site):
    assert anchors(site, "methods/", r'<h3 id="([\w]+)"') >= {
        name for name in Catalogue([ROOT / "conf"]).groups["method"] if "/" not in name
    }


def test_reference_has_every_public_name(site, hooks):
    """Public names are the classes and functions of the library without underscore."""
    documented_names = anchors(site, "reference/", r'id="(kdgraph\.[\w.]+)"')
    public_names = set()
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
                    public_names.add(f"{module}.{node.name}")
    assert len(public_names) > 500
    assert sorted(public_names - documented_names) == []


def test_exported_names_and_internals_have_separate_pages(site):
    texts = page_texts(site)
    assert 'id="kdgraph.density.classifiers.KernelDensityForest"' in texts["reference/density.html"]
    assert 'id="kdgraph.density.graph.QueryResult"' not in texts["reference/density.html"]
    assert 'id="kdgraph.density.graph.QueryResult"' in texts["reference/internals/density.html"]


def test_first_page_of_the_reference_links_every_exported_name(site, hooks):
    """In the table of each package, alphabetically, before any module."""
    text = page_texts(site)["reference/index.html"]
    for package in ("", *hooks["reference"].PACKAGES):
        module = f"kdgraph.{package}".rstrip(".")
        exported = [
            name for name in getattr(import_module(module), "__all__", ()) if name != "__version__"
        ]
        if exported:
            (table,) = re.findall(
                rf'<h3 id="{module.replace(".", "-")}".*?<table>(.*?)</table>', text, re.DOTALL
            )
            listed = re.findall(r'<a class="autorefs[^"]*"[^>]*><code>(\w+)</code></a></td>', table)
            assert listed == sorted(exported, key=str.casefold), module


def test_roles_of_docstrings_are_links_or_code(site):
    raw_role = re.compile(r":(?:class|func|meth|data|mod|attr|exc):[`<]")
    texts = page_texts(site)
    assert [name for name, text in texts.items() if raw_role.search(text)] == []


def test_formulas_are_shown_without_a_script(site):
    text = page_texts(site)["methods/density/kdf.html"]
    assert text.count('display="block"') == 2 and "arithmatex" not in text and r"\frac" not in text


def test_every_link_leads_to_a_page_and_an_anchor_of_the_site(site):
    """Also on pages that mkdocs copies, and links that hooks and docstrings make."""
    texts = page_texts(site)
    targets = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in texts.items()}
    broken = []
    for name, text in texts.items():
        if name == "404.html":  # its links are those of a server's root
            continue
        shown = re.sub(r"<(script|style|pre)\b.*?</\1>", "", text, flags=re.DOTALL)
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', shown):
            path, _, anchor = html.unescape(link).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            file = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(path)))
            file = name if not path else f"{file}/index.html" if (site / file).is_dir() else file
            known = targets.get(file, {unquote(anchor)})  # a file that is no page has no anchors
            if not (site / file).is_file() or (anchor and unquote(anchor) not in known):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_no_page_is_wider_than_a_phone(site, browser):
    """A page that scrolls sideways at 390 px has something that neither wraps nor scrolls itself."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": False},
    )
    width = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    pages = [
        *(
            "index.html",
            "commands.html",
            "CHANGELOG.html",
            "CONTRIBUTING.html",
            "ARCHITECTURE.html",
        ),
        *(f"configuration/{name}.html" for name in ("index", "calibrator", "method", "experiment")),
        *("reference/index.html", "reference/density.html", "methods/density/kdf.html"),
        *("results/index.html", "notebooks/lightgbm_adult.html"),
    ]
    wide = {}
    for name in pages:
        browser.get((site / name).as_uri())
        wide[name] = browser.execute_script(width)
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}


def test_colours_follow_the_system(site, browser):
    for scheme, expected in (("light", "default"), ("dark", "slate")):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get((site / "reference" / "density.html").as_uri())
        assert browser.find_element(By.TAG_NAME, "body").get_attribute("data-md-color-scheme") == (
            expected
        )


def test_pages_are_read_by_keyboard(site, browser):
    """The first Tab reaches the link past the navigation, and / the search."""
    browser.get((site / "commands.html").as_uri())
    ActionChains(browser).send_keys(Keys.TAB).perform()
    focused = browser.switch_to.active_element
    assert "md-skip" in (focused.get_attribute("class") or "").split()
    ActionChains(browser).send_keys("/").perform()
    search = "[data-md-component=search-query]"
    WebDriverWait(browser, 30, poll_frequency=0.05).until(
        lambda driver: (
            driver.switch_to.active_element == driver.find_element(By.CSS_SELECTOR, search)
        )
    )


def test_every_shown_picture_is_a_file_of_the_site(site):
    """mkdocs does not check the pictures of pages that it copies."""
    for name, text in page_texts(site).items():
        for source in re.findall(r'<img [^>]*?src="([^":]+)"', text):
            assert ((site / name).parent / source).is_file(), (name, source)


def test_hooks_are_not_in_the_site(site):
    assert not list(site.rglob("*.py")) and not (site / "hooks").exists()


def test_search_works_without_a_server(site, browser):
    browser.get((site / "index.html").as_uri())
    browser.execute_script("document.querySelector('#__search').click()")
    field = browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]")
    wait = WebDriverWait(browser, 60, poll_frequency=0.05)
    wait.until(lambda _: field.is_displayed())
    field.send_keys("leaf box")
    links = wait.until(
        lambda driver: driver.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
    )
    assert any(
        "methods/detection/leaf_box.html" in (link.get_attribute("href") or "") for link in links
    )
