"""What tests of several rooms share: an openml.org on loopback and caches of their own. No test
asks the real one.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.data.openml.server import Server, serve

# Before openml is imported, which makes a folder there. The key for models is made there too: no
# test uses the real user's.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="kdgraph-tests-")
os.environ.pop("KDGRAPH_KEY_FILE", None)

# before a test captures stderr: what it logs when it is imported would be taken for the command's
import openml

settings.register_profile(
    "kdgraph", deadline=None
)  # how long an example takes is the machine's, and benchmarks time what matters
settings.load_profile("kdgraph")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The tests that are collected stay to the end: the garbage collector, which takes a third of
    the time here, need not look for them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _no_log_outlives_its_stream() -> Iterator[None]:
    """Hydra's views of a config (``--info``, ``--cfg``) log to the stderr of their test, which is
    closed when that ends.
    """
    before = set(logging.root.handlers)
    yield
    for handler in set(logging.root.handlers) - before:
        logging.root.removeHandler(handler)


@pytest.fixture
def kdg(capsys, tmp_path, monkeypatch):
    """Call ``kdg`` in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        from kdgraph.cli import main

        code = main(arguments)
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def _server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture
def openml_cache(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """An empty cache folder, for which openml is set to openml.org; nothing of it is left
    afterwards.
    """
    root = tmp_path_factory.mktemp("openml")
    monkeypatch.setenv("OPENML_CACHE_DIR", str(root))
    from kdgraph.data.openml.client import NetworkState

    monkeypatch.setattr(openml.config, "_root_cache_directory", root)
    monkeypatch.setattr(openml.config, "server", "https://www.openml.org/api/v1/xml")
    monkeypatch.setattr(NetworkState, "failure", None)
    return root


@pytest.fixture
def openml_server(_server, openml_cache, monkeypatch) -> Server:
    """The server on loopback, which openml is set to; nothing is served yet, and failures wait for
    no one.
    """
    for kept in (_server.files, _server.failures, _server.log):
        kept.clear()
    monkeypatch.setattr(openml.config, "server", _server.api)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return _server


@pytest.fixture
def no_network(monkeypatch) -> None:
    """Every attempt to open a connection fails the test."""

    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
