"""Fixtures of the documentation tests: the built site, the hooks that build it, and a browser."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

from kdgraph.extras import is_installed

ROOT = Path(__file__).parents[2]
OFFLINE = """
import socket
def refuse(*args, **kwargs):
    raise OSError("a connection was opened")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="session")
def hooks() -> dict[str, ModuleType]:
    """Hooks by name, imported by their paths as mkdocs imports them, with their folder on the path."""
    modules = {}
    folder = ROOT / "docs" / "hooks"
    sys.path.insert(0, str(folder))
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"docs_hook_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        modules[path.stem] = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[path.stem])
    sys.path.remove(str(folder))
    return modules


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id) -> Path:
    """Folder of the site, which is built once for all processes that test it."""
    described = ("catboost", "lightgbm", "quantile_forest", "xgboost")
    if absent := [library for library in described if not is_installed(library)]:
        pytest.skip(f"not installed: {', '.join(absent)}; the site describes their parameters")
    shared = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    folder = shared / "site"
    with FileLock(shared / "site.lock"):
        if not (folder / "index.html").exists():
            unfinished = shared / "building"
            build_site(unfinished, tmp_path_factory.mktemp("offline"))
            unfinished.rename(folder)
    return folder


def build_site(folder: Path, customization: Path) -> None:
    """Build the site like ``make docs``, in a process that cannot open connections.

    The folder ``customization`` receives the module that Python imports when it starts.
    """
    (customization / "sitecustomize.py").write_text(OFFLINE)
    environment = os.environ | {
        "PYTHONPATH": f"{customization}{os.pathsep}{ROOT}",
        "NO_MKDOCS_2_WARNING": "1",
    }
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(folder),
    ]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


@pytest.fixture
def browser() -> Iterator[WebDriver]:
    """Chromium; an error that a page logs fails the test."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("no browser: the search is tested where chromium and chromedriver are on PATH")
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    yield chrome
    errors = [entry["message"] for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
    chrome.quit()
    assert errors == []
