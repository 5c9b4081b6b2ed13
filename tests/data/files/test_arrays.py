from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kdgraph.data.files.arrays import open_npz
from kdgraph.errors import DataError


def test_open_npz_reads_arrays_only_on_access(tmp_path):
    path = tmp_path / "two.npz"
    np.savez(path, wanted=np.arange(3), objects=np.array([{}], dtype=object))
    with open_npz(path) as arrays:
        assert arrays.files == ["wanted", "objects"]
        np.testing.assert_array_equal(arrays["wanted"], [0, 1, 2])
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
