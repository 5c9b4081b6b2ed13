"""Tests that read data of openml.org: where they are skipped, and a list of them.

A test that needs a data set calls :func:`require_cached`, so that it is skipped in a clone without
one. With ``--openml-readers FILE`` the modules whose tests opened a file of the cache are written,
one a line; running these once more with an empty cache finds tests that do not call it::

    pytest --openml-readers readers.txt
    OPENML_CACHE_DIR=$(mktemp -d) pytest @readers.txt
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kdgraph.data.openml.cache import OpenmlData, find_cached

_OPTION = "--openml-readers"
_WORKER_OUTPUT = "openml_readers"


def require_cached(id: int) -> OpenmlData:
    """Return a data set of the folder that OPENML_CACHE_DIR names; without it, skip the test."""
    data = find_cached(id) if "OPENML_CACHE_DIR" in os.environ else None
    if data is None:
        pytest.skip(f"OpenML {id} is in no folder that OPENML_CACHE_DIR names")
    return data


class OpenmlReaders:
    """Plugin of pytest that lists the modules whose tests open a file of the cache.

    Files that a child process of a test opens are not seen.
    """

    def __init__(self, config: pytest.Config):
        self._config = config
        self._readers: set[str] = set()
        self._current: str | None = None
        self._folder = f"{Path(os.environ['OPENML_CACHE_DIR']).resolve()}{os.sep}"
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or self._current is None or not isinstance(arguments[0], str):
            return
        if os.path.realpath(arguments[0]).startswith(self._folder):
            self._readers.add(self._current)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Attribute what is opened to the module of the test that runs."""
        self._current = item.nodeid.partition("::")[0]
        try:
            return (yield)
        finally:
            self._current = None

    def pytest_testnodedown(self, node: Any) -> None:
        """Collect the names that a process of pytest-xdist found."""
        self._readers.update(getattr(node, "workeroutput", {}).get(_WORKER_OUTPUT, ()))

    def pytest_sessionfinish(self) -> None:
        """Write the file, or hand the names to the process that does."""
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[_WORKER_OUTPUT] = sorted(self._readers)
            return
        names = "".join(f"{name}\n" for name in sorted(self._readers))
        Path(self._config.getoption(_OPTION)).write_text(names, encoding="utf-8")
