"""The file: opened by other tools, refused when damaged, never larger in memory than it may be."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.persistence import DamagedFileError, LoadError
from kdgraph.persistence import archive as archives
from kdgraph.persistence.archive import UNSIGNED_END, is_signed_by_user, pack, sign, unpack

ARRAYS = [
    np.arange(3000),
    np.random.default_rng(0).random(3000),
    np.array(["a", "bcd"]),
    np.zeros(0),
]
CONTENT = pack({"value": [1, "é"]}, ARRAYS)


def archive_of(members: dict[str, bytes], deflated: str = "document.json") -> bytes:
    """A zip of these members with a digest and a checksum that fit."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(
                zipfile.ZipInfo(name),
                content,
                zipfile.ZIP_DEFLATED if name == deflated else zipfile.ZIP_STORED,
            )
        archive.comment = UNSIGNED_END
    return sign(buffer.getvalue())


def opened(content: bytes) -> list[np.ndarray]:
    """The arrays of a file, as who reads it gets them."""
    assert is_signed_by_user(content)
    return unpack(content)[1]


def npy(array: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def cut_member() -> bytes:
    """A file whose document is shorter than the zip's directory has it."""
    whole = archive_of({"document.json": b"{}" * 50}, deflated="")
    place = whole.rindex(b"PK\x01\x02") + 20  # of both sizes in an entry of the directory
    sizes = (10_000).to_bytes(4, "little") * 2
    return sign(whole[:place] + sizes + whole[place + 8 :])


def test_round_trip_gives_equal_writable_arrays():
    document, arrays = unpack(CONTENT)
    assert document == {"value": [1, "é"]}
    for found, array in zip(arrays, ARRAYS, strict=True):
        assert found.dtype == array.dtype and found.flags.writeable
        np.testing.assert_array_equal(found, array)


def test_members_are_readable_by_other_tools():
    with zipfile.ZipFile(io.BytesIO(CONTENT)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["0.npy.zst", "1.npy", "2.npy", "3.npy", "document.json"]
        unpacked = pyarrow.input_stream(
            pyarrow.BufferReader(archive.read("0.npy.zst")), compression="zstd"
        ).read()
        np.testing.assert_array_equal(np.load(io.BytesIO(unpacked)), ARRAYS[0])
        np.testing.assert_array_equal(np.load(io.BytesIO(archive.read("1.npy"))), ARRAYS[1])
        assert json.loads(archive.read("document.json"))["value"] == [1, "é"]


def test_integers_are_stored_in_the_narrowest_type():
    with zipfile.ZipFile(io.BytesIO(CONTENT)) as archive:
        unpacked = pyarrow.input_stream(
            pyarrow.BufferReader(archive.read("0.npy.zst")), compression="zstd"
        ).read()
    assert np.load(io.BytesIO(unpacked)).dtype == np.int16


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_any_flipped_byte_is_detected(place, flip):
    content = CONTENT[:place] + bytes([CONTENT[place] ^ flip]) + CONTENT[place + 1 :]
    with pytest.raises(DamagedFileError, match=r"^is damaged"):
        is_signed_by_user(content)


@given(st.integers(0, len(CONTENT) - 1))
@settings(max_examples=50, deadline=None)
def test_any_cut_is_noticed(length):
    with pytest.raises(DamagedFileError, match=r"^is damaged"):
        is_signed_by_user(CONTENT[:length])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_invalid_content_with_a_valid_checksum_is_detected(data):
    """Whatever stands in the file: it is refused, or arrays come of the types and sizes that it
    says; nothing else is raised.
    """
    place = data.draw(st.integers(0, len(CONTENT) - len(UNSIGNED_END) - 1))
    content = sign(
        CONTENT[:place]
        + data.draw(st.binary(min_size=1, max_size=8))
        + CONTENT[place + data.draw(st.integers(0, 8)) :]
    )
    try:
        arrays = opened(content)
    except DamagedFileError:
        return
    assert len(arrays) == len(ARRAYS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged or no file of kdgraph (its checksum is not there)"),
        (b"PK\x05\x06" + bytes(18), "is damaged or no file of kdgraph (its checksum is not there)"),
        (CONTENT[:-1] + b"x", "is damaged (its checksum does not fit)"),
        (sign(b"no zip" + UNSIGNED_END), "is damaged (BadZipFile: File is not a zip file)"),
        (
            archive_of({}),
            "is damaged (KeyError: \"There is no item named 'document.json' in the archive\")",
        ),
        (archive_of({"document.json": b"{}"}), "is damaged (KeyError: 'arrays')"),
        (
            archive_of({"document.json": b'"text"'}),
            "is damaged (AttributeError: 'str' object has no attribute 'pop')",
        ),
        (cut_member(), "is damaged (EOFError)"),
        (
            archive_of({"document.json": b'{"arrays": [["<f8", -1, 9]]}'}),
            (
                "is damaged (ValueError: its arrays are too large for such a file, or for this"
                " machine)"
            ),
        ),
    ],
    ids=[
        "empty",
        "an empty zip",
        "another sum",
        "no zip",
        "no document",
        "no table",
        "text",
        "a member that ends early",
        "negative",
    ],
)
def test_other_files_are_refused_in_one_line(content, message):
    with pytest.raises(DamagedFileError) as caught:
        opened(content)
    assert str(caught.value) == message


def test_a_file_of_another_version_is_no_damage():
    with pytest.raises(LoadError, match=r"^was written by another version of kdgraph$") as caught:
        is_signed_by_user(b"PK" + b"kdgraph 1 sha256 " + b"0" * 64)
    assert not isinstance(caught.value, DamagedFileError)


def test_an_array_of_python_objects_is_not_read():
    evil = npy(np.array([print], dtype=object), allow_pickle=True)
    for declared in ("|O", "<i8"):
        with pytest.raises(DamagedFileError, match="is object"):
            unpack(
                archive_of(
                    {
                        "document.json": json.dumps(
                            {"arrays": [[declared, 1, len(evil)]]}
                        ).encode(),
                        "0.npy": evil,
                    }
                )
            )


def test_an_array_of_another_type_or_size_is_not_read():
    for declared, n in (("<i4", 3), ("<i8", 4), ("<i8", 2), ("<U1", 3)):
        with pytest.raises(DamagedFileError):
            unpack(
                archive_of(
                    {
                        "document.json": json.dumps({"arrays": [[declared, n, 152]]}).encode(),
                        "0.npy": npy(np.arange(3.0)),
                    }
                )
            )


def test_small_file_cannot_allocate_all_memory():
    for table in (["<f8", 10**9, 128], ["<f8", 3, 10**10]):
        with pytest.raises(DamagedFileError, match="its arrays are too large for such a file"):
            unpack(archive_of({"document.json": json.dumps({"arrays": [table]}).encode()}))


def test_an_array_longer_than_its_declared_size_is_rejected():
    zeros = pyarrow.Codec("zstd").compress(npy(np.zeros(40_000_000)), asbytes=True)
    for table, message in (
        (["<f8", 3, 200_000_000], r"array 0 is float64\(40000000,\), not float64\(3,\)"),
        (["<f8", 40_000_000, 200_000], "too large"),
    ):
        with pytest.raises(DamagedFileError, match=message):
            unpack(
                archive_of(
                    {"document.json": json.dumps({"arrays": [table]}).encode(), "0.npy.zst": zeros}
                )
            )
    short, long = npy(np.arange(3.0))[:-1], npy(np.arange(3.0)) + b" "
    for content, message in (
        (short, "an array ends early"),
        (long, "array 0 is longer than its header declares"),
    ):
        with pytest.raises(DamagedFileError, match=message):
            unpack(
                archive_of(
                    {
                        "document.json": (
                            json.dumps({"arrays": [["<f8", 3, len(content)]]}).encode()
                        ),
                        "0.npy": content,
                    }
                )
            )
    with pytest.raises(DamagedFileError, match=r"document.json is too large for such a file"):
        unpack(archive_of({"document.json": b" " * 300_000_000}))


def test_highly_compressible_content_is_stored_uncompressed(monkeypatch):
    zeros = np.zeros(1_000_000)
    assert len(pack({}, [zeros])) < 8_000
    monkeypatch.setattr("kdgraph.persistence.archive._MIN_UNPACK_LIMIT", 1_000_000)
    content = pack({}, [zeros])
    assert len(content) > 8_000_000
    np.testing.assert_array_equal(unpack(content)[1][0], zeros)


def test_no_file_may_fill_the_memory_of_the_machine(monkeypatch):
    """Whatever its ratio: 80 % of the memory is the most, here of a machine with 20 MB."""
    ones = np.random.default_rng(0).random(1_000_000)  # 8 MB that do not shrink
    content = pack({}, [ones, ones + 1, ones + 2])
    assert len(unpack(content)[1]) == 3
    monkeypatch.setattr(archives, "_memory_size", lambda: 20_000_000)
    with pytest.raises(
        DamagedFileError, match=r"its arrays are too large for such a file, or for this machine\)$"
    ):
        unpack(content)


def test_arrays_are_unpacked_without_a_copy():
    """A second copy of an array would double the memory that a model takes."""
    content = pack({}, [np.zeros(4_000_000), np.random.default_rng(0).random(4_000_000)])
    tracemalloc.start()
    try:
        _, arrays = unpack(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Two arrays of 32 MB, and less than half of a third for the compressed members and the pieces.
    assert peak < sum(array.nbytes for array in arrays) + 12_000_000
