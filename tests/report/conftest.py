"""A headless browser, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

FLAGS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --force-prefers-reduced-motion --window-size=1300,900"""


@pytest.fixture(scope="session")
def _browser(tmp_path_factory) -> Iterator[WebDriver]:
    chromium = next(
        (
            path
            for name in ("chromium", "chromium-browser", "google-chrome")
            if (path := shutil.which(name))
        ),
        None,
    )
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("no browser: the report is tested where chromium and chromedriver are on PATH")
    options = Options()
    options.binary_location = chromium
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    chrome.quit()


@pytest.fixture
def browser(_browser) -> Iterator[WebDriver]:
    """Chromium, empty; what a page logs as an error fails the test."""
    _browser.get("about:blank")
    _browser.get_log("browser")
    yield _browser
    assert [
        entry["message"] for entry in _browser.get_log("browser") if entry["level"] == "SEVERE"
    ] == []


@pytest.fixture
def phone(browser) -> Iterator[WebDriver]:
    """Chromium with a viewport of 390 × 844 pixels, in which nothing is zoomed out."""
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def width_of_content(browser: WebDriver) -> int:
    """Return the width of the page that is open, in CSS pixels, without what scrolls in itself."""
    return browser.execute_script("return document.documentElement.scrollWidth")
