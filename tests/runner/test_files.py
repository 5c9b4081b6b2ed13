"""A checksum at the end of JSON: whatever byte changes, the content is not read as if it were
whole.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.runner.files import ChecksumError, add_checksum, check_and_load, file_checksum

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8")).filter(lambda key: key != "checksum"), VALUES
    ),
    st.sampled_from([None, 1]),
)
def test_what_is_sealed_is_read_back_and_is_json(value, indent):
    content = add_checksum(value, indent)
    assert check_and_load(content) == value
    checksum = json.loads(content).pop("checksum")
    assert len(checksum) == 64 and (indent or b"\n" not in content)


@pytest.mark.parametrize("indent", [None, 1])
def test_any_changed_bit_is_detected(indent):
    content = add_checksum({"error": 0.04, "name": "é", "nested": {"checksum": "no"}}, indent)
    assert json.loads(content)["nested"] == {"checksum": "no"}
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            with pytest.raises(ChecksumError):
                check_and_load(bytes(changed))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"seed": 1}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a": NaN}',
        b"9" * 10_000,
        b'"checksum": ""}',
    ],
)
def test_what_was_never_sealed_is_damaged(content):
    with pytest.raises(ChecksumError, match=r"^it has no checksum at its end$"):
        check_and_load(content)


def test_cut_off_and_concatenated_files_are_damaged():
    first, second = add_checksum({"seed": 1}), add_checksum({"seed": 2})
    for content in (
        first[:-40],
        first[5:],
        first + second,
        first[:8] + second[8:-20] + first[-20:],
    ):
        with pytest.raises(ChecksumError):
            check_and_load(content)


def test_a_file_that_is_not_there_has_no_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert (
        file_checksum(tmp_path / "a")
        == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    assert file_checksum(tmp_path / "b") is None is file_checksum(tmp_path)
