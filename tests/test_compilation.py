"""Kernels run wherever they may be stored: nowhere, in a closed folder, in files that were cut."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

from kdgraph import compilation
from kdgraph.compilation import KernelFolder, kernel_folder
from tests.variations import others_slow

SOURCE = """
from kdgraph.compilation import kernel

@kernel(boundscheck=False)
def half(x):
    return x / 2

@kernel(boundscheck=False)
def quarter(x):
    return half(half(x))
"""


class Kernels:
    """A module with kernels, imported anew as by another process."""

    def __init__(self, folder: Path) -> None:
        self.path, self.folder = folder / "kernels_of_a_test.py", folder / "__pycache__"
        self.path.write_text(SOURCE)

    def load(self) -> ModuleType:
        spec = importlib.util.spec_from_file_location("kernels_of_a_test", self.path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def hits(self) -> int:
        """Call a kernel and return how many kernels came from files."""
        module = self.load()
        assert module.quarter(8.0) == 2.0
        return sum(sum(f.stats.cache_hits.values()) for f in (module.quarter, module.half))


@pytest.fixture
def kernels(tmp_path, monkeypatch) -> Iterator[Kernels]:
    """The user's folder for kernels, which numba takes last, cannot be made."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compilation._note_compilation.cache_clear()
    yield Kernels(tmp_path / "package")
    compilation._note_compilation.cache_clear()


def close(kernels: Kernels) -> None:
    """Have a file in the place of the folder beside the source, as root may write to any folder."""
    kernels.folder.write_text("")


def messages_of(caplog):
    """Return kdgraph's own messages: numba logs the steps of a compilation where it may."""
    return [record.getMessage() for record in caplog.records if record.name == "kdgraph"]


def test_kernels_are_kept_beside_their_source(kernels, caplog):
    assert kernels.hits() == 0 and kernels.hits() == 1
    assert kernel_folder(kernels.load().half) == KernelFolder(kernels.folder, is_writable=True)
    assert len(list(kernels.folder.glob("*.nbi"))) == 2 and not messages_of(caplog)


def test_kernels_are_compiled_in_memory_without_a_folder(kernels, caplog):
    close(kernels)
    assert kernels.hits() == 0 and kernels.hits() == 0
    assert kernel_folder(kernels.load().half) == KernelFolder(None, is_writable=False)
    assert messages_of(caplog) == [
        "kdgraph: kernels are compiled in memory, anew in each process (no folder can be written"
        " to); NUMBA_CACHE_DIR=DIR names a folder for them"
    ]


def test_numba_compiles_no_such_module_by_itself(kernels):
    """If it did, this module would not be needed."""
    close(kernels)
    kernels.path.write_text("from numba import njit\n@njit(cache=True)\ndef half(x): return x / 2")
    with pytest.raises(RuntimeError, match="no locator available"):
        kernels.load()


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("fraction", others_slow([0.0, 0.02, 0.5, 0.99], 0.5))
def test_files_that_were_cut_short_are_made_again(kernels, ending, fraction, caplog):
    kernels.hits()
    for path in kernels.folder.glob(f"*{ending}"):
        path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    assert kernels.hits() == 0 and kernels.hits() == 1
    assert not messages_of(caplog)


@pytest.mark.parametrize("content", [b"\x80\x04.", b"no pickle"])
def test_files_of_something_else_are_made_again(kernels, content):
    kernels.hits()
    for path in kernels.folder.glob("*.nb?"):
        path.write_bytes(content)
    assert kernels.hits() == 0 and kernels.hits() == 1


def test_a_folder_of_the_user_comes_before_that_of_the_source(kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "custom"))
    assert kernels.hits() == 0 and kernels.hits() == 1
    assert not kernels.folder.exists() and len(list((tmp_path / "custom").rglob("*.nbi"))) == 2


def test_kernels_in_a_closed_folder_are_read(kernels, monkeypatch, caplog):
    """An image may have compiled them; a folder that others may write to is used too."""
    kernels.hits()
    before = {path: path.read_bytes() for path in kernels.folder.iterdir()}

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("numba.core.caching.tempfile.TemporaryFile", refuse)
        assert kernels.hits() == 1 and not messages_of(caplog)
        assert kernel_folder(kernels.load().half) == KernelFolder(kernels.folder, is_writable=False)
        assert kernels.load().half(np.float32(3)) == 1.5  # not compiled before
        assert len(messages_of(caplog)) == 1
    assert {path: path.read_bytes() for path in kernels.folder.iterdir()} == before


def test_a_full_disk_costs_time_and_nothing_else(kernels, monkeypatch, caplog):
    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", fail)
    assert kernels.hits() == 0
    assert messages_of(caplog) == [
        "kdgraph: kernels are compiled in memory, anew in each process"
        f" ({kernels.folder}: No space left on device); NUMBA_CACHE_DIR=DIR names a folder for them"
    ]


def test_without_compilation_functions_stay_functions(kernels, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    module = kernels.load()
    assert module.quarter(8.0) == 2.0 and not hasattr(module.half, "stats")
    assert kernel_folder(module.half) == KernelFolder(None, is_writable=False)


@pytest.mark.slow
def test_processes_replace_truncated_files_at_the_same_time(kernels):
    kernels.hits()
    for path in kernels.folder.glob("*.nb?"):
        path.write_bytes(path.read_bytes()[:40])
    code = "import kernels_of_a_test as k; assert k.quarter(8.0) == 2.0"
    root = Path(compilation.__file__).parents[1]
    paths = os.pathsep.join([str(kernels.path.parent), str(root)])
    environment = {**os.environ, "PYTHONPATH": paths}
    processes = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    kernels.hits()  # an index may lack what another process replaced it with
    assert kernels.hits() >= 1
