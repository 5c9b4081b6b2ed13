from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kdgraph.data.files.arrays import open_npz
from kdgraph.errors import DataError


def test_open_npz_reads_arrays_only_on_access(tmp_path):
    path = tmp_path / "two.npz"
    np.savez(path, numbers=np.arange(3), objects=np.array([{}], dtype=object))
    with open_npz(path) as arrays:
        assert arrays.files == ["numbers", "objects"]
        np.testing.assert_array_equal(arrays["numbers"], [0, 1, 2])
    message = "holds Python objects, which are not read because they can run code; save numbers"
    with pytest.raises(DataError, match=re.escape(message)), open_npz(path) as arrays:
        arrays["objects"]


def test_open_npz_refuses_other_files_in_one_line(tmp_path):
    Path(path := tmp_path / "no.npz").write_bytes(b"no")
    message = (
        f"dataset.path={path} is not a .npz file, or damaged: it is not a zip file;"
        " numpy.savez('my.npz', X=X, y=y) writes one"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"), open_npz(path):
        pass


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_arrays_shorter_than_their_header_are_damaged(tmp_path, compression):
    header = io.BytesIO()
    # 32 PB: no process has so many addresses.
    shape = (10**15, 4)
    content = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, content)
    path = tmp_path / "long.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(64))
    message = (
        f"dataset.path={path} is damaged: it declares the shape {shape} of 'X', which holds 192"
        " bytes; make it again"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"), open_npz(path) as arrays:
        arrays["X"]


def test_arrays_larger_than_the_memory_are_not_called_damaged(tmp_path, monkeypatch):
    np.savez(tmp_path / "right.npz", X=np.zeros((3, 2)))

    def fail(*args, **kwargs):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(np.lib.format, "read_array", fail)
    with pytest.raises(MemoryError), open_npz(tmp_path / "right.npz") as arrays:
        arrays["X"]
