"""Fixtures of several packages: a server on loopback in place of openml.org, and empty caches.

No test connects to the real server.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.data.openml.server import Server, serve
from tests.openml_data import OpenmlReaders

# Set before openml is imported, which creates a folder there. The key for models is created there
# too, so that no test uses the real key.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="kdgraph-tests-")
os.environ.pop("KDGRAPH_KEY_FILE", None)

# No test downloads, in its own process or in one that it starts: nothing listens at this proxy.
os.environ["https_proxy"] = os.environ["HTTPS_PROXY"] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"

# Under nohup the signal is ignored, also by the processes that tests start to see them end by it.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Imported before a test captures stderr, because it logs when it is imported.
import openml

settings.register_profile(
    "kdgraph", deadline=None
)  # the duration of an example depends on the machine
settings.load_profile("kdgraph")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--openml-readers",
        metavar="FILE",
        help="write the modules whose tests read OPENML_CACHE_DIR into a file",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--openml-readers"):
        config.pluginmanager.register(OpenmlReaders(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which takes a third of the time.

    It is rarer after it, too, because composed configs are many small objects: a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


@pytest.fixture(autouse=True)
def _no_log_outlives_its_stream() -> Iterator[None]:
    """Remove log handlers of Hydra, which write to the stderr of a test that has ended."""
    before = set(logging.root.handlers)
    yield
    for handler in set(logging.root.handlers) - before:
        logging.root.removeHandler(handler)


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch) -> Path:
    """Make an empty folder the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kdg(capsys, in_tmp_path):
    """Call ``kdg`` in an empty folder; returns exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        from kdgraph.cli.main import main

        code = main(arguments)
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def _server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def openml_cache(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """Return an empty cache folder of openml, whose server is openml.org."""
    root = tmp_path_factory.mktemp("openml")
    monkeypatch.setenv("OPENML_CACHE_DIR", str(root))
    from kdgraph.data.openml.client import NetworkState

    monkeypatch.setattr(openml.config, "_root_cache_directory", root)
    monkeypatch.setattr(openml.config, "server", "https://www.openml.org/api/v1/xml")
    monkeypatch.setattr(NetworkState, "failure", None)
    return root


@pytest.fixture
def openml_server(_server, openml_cache, monkeypatch) -> Server:
    """Return the server on loopback, without files, as openml's server; retries do not wait."""
    for state in (_server.files, _server.failures, _server.log):
        state.clear()
    monkeypatch.setattr(openml.config, "server", _server.api)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return _server


@pytest.fixture
def no_reply(monkeypatch) -> None:
    """Let no name of a host be found, as without a network; retries do not wait."""

    def refuse(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture
def no_network(monkeypatch) -> None:
    """Make every attempt to open a connection fail."""

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(scope="session")
def as_user() -> Callable[[int], list[str]]:
    """Return the words before a command that make another user run it; skip unless root runs it.

    All these users have one group.
    """
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root may run a command as another user, with setpriv")
    words = [setpriv, "--regid=3000", "--clear-groups"]
    root = Path(__file__).parents[1]
    code = "import kdgraph.runner.locks"
    if subprocess.run(
        [*words, "--reuid=2001", sys.executable, "-c", code], cwd=root, capture_output=True
    ).returncode:
        pytest.skip("another user may not run this Python, or not read this checkout")
    return lambda uid: [*words, f"--reuid={uid}"]
