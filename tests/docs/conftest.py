"""The site of docs/, built once for all tests of it, and the hooks that build it."""

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

ROOT = Path(__file__).parents[2]
OFFLINE = """
import socket
def refuse(*args, **kwargs):
    raise OSError("a connection was opened")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="session")
def hooks() -> dict[str, ModuleType]:
    """The hooks by name, as mkdocs loads them: by their path."""
    found = {}
    for path in sorted((ROOT / "docs" / "hooks").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"docs_hook_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        found[path.stem] = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[path.stem])
    return found


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id) -> Path:
    """The site, built once for all processes that test it."""
    shared = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    folder = shared / "site"
    with FileLock(shared / "site.lock"):
        if not (folder / "index.html").exists():
            built = build(shared / "building", tmp_path_factory.mktemp("offline"))
            built.rename(folder)
    return folder


def build(folder: Path, here: Path) -> Path:
    """As ``make docs`` builds it, in a process that can open no connection."""
    (here / "sitecustomize.py").write_text(OFFLINE)
    environment = os.environ | {
        "PYTHONPATH": f"{here}{os.pathsep}{ROOT}",
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
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture
def browser() -> Iterator[WebDriver]:
    """Chromium; what a page logs as an error fails the test."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("no browser: the search is tested where chromium and chromedriver are on PATH")
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    logged = [entry["message"] for entry in found.get_log("browser") if entry["level"] == "SEVERE"]
    found.quit()
    assert logged == []
