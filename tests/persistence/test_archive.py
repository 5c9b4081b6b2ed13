"""The container: readable by other tools, refused if damaged, limited in memory."""

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
    """Return a zip of these members with a valid digest and checksum."""
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


def verified_arrays(content: bytes) -> list[np.ndarray]:
    """Return the arrays of a file after the check of its signature."""
    assert is_signed_by_user(content)
    return unpack(content)[1]


def npy_bytes(array: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def archive_with_short_member() -> bytes:
    """Return a file whose document is shorter than the directory of the zip declares."""
    content = archive_of({"document.json": b"{}" * 50}, deflated="")
    # Both sizes of a member are 20 bytes after the signature of its entry in the directory.
    sizes_start = content.rindex(b"PK\x01\x02") + 20
    sizes = (10_000).to_bytes(4, "little") * 2
    return sign(content[:sizes_start] + sizes + content[sizes_start + 8 :])


def refusal_of_zipfile(content: bytes) -> str:
    """Return the message of a file whose document the zip library refuses, which has other words in
    versions of Python that look for overlapping members.
    """
    with pytest.raises((EOFError, zipfile.BadZipFile)) as caught:
        zipfile.ZipFile(io.BytesIO(content)).read("document.json")
    error = caught.value
    return f"is damaged ({': '.join(filter(None, [type(error).__name__, str(error)]))})"


def test_round_trip_gives_equal_writable_arrays():
    document, arrays = unpack(CONTENT)
    assert document == {"value": [1, "é"]}
    for array, expected in zip(arrays, ARRAYS, strict=True):
        assert array.dtype == expected.dtype and array.flags.writeable
        np.testing.assert_array_equal(array, expected)


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
def test_any_flipped_byte_is_detected(position, flip):
    content = CONTENT[:position] + bytes([CONTENT[position] ^ flip]) + CONTENT[position + 1 :]
    with pytest.raises(DamagedFileError, match=r"^is damaged"):
        is_signed_by_user(content)


@given(st.integers(0, len(CONTENT) - 1))
@settings(max_examples=50, deadline=None)
def test_any_truncation_is_detected(length):
    with pytest.raises(DamagedFileError, match=r"^is damaged"):
        is_signed_by_user(CONTENT[:length])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_invalid_content_with_a_valid_checksum_is_detected(data):
    """The file is refused, or gives as many arrays as before; no other exception is raised."""
    position = data.draw(st.integers(0, len(CONTENT) - len(UNSIGNED_END) - 1))
    content = sign(
        CONTENT[:position]
        + data.draw(st.binary(min_size=1, max_size=8))
        + CONTENT[position + data.draw(st.integers(0, 8)) :]
    )
    try:
        arrays = verified_arrays(content)
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
        (archive_with_short_member(), refusal_of_zipfile(archive_with_short_member())),
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
        "zip without members",
        "wrong checksum",
        "no zip",
        "no document",
        "document without arrays",
        "document of text",
        "member that ends early",
        "negative length",
    ],
)
def test_invalid_files_are_refused_in_one_line(content, message):
    with pytest.raises(DamagedFileError) as caught:
        verified_arrays(content)
    assert str(caught.value) == message


def test_file_of_another_version_is_not_reported_as_damaged():
    with pytest.raises(LoadError, match=r"^was written by another version of kdgraph$") as caught:
        is_signed_by_user(b"PK" + b"kdgraph 1 sha256 " + b"0" * 64)
    assert not isinstance(caught.value, DamagedFileError)


def test_array_of_python_objects_is_refused():
    pickled = npy_bytes(np.array([print], dtype=object), allow_pickle=True)
    for declared in ("|O", "<i8"):
        with pytest.raises(DamagedFileError, match="is object"):
            unpack(
                archive_of(
                    {
                        "document.json": json.dumps(
                            {"arrays": [[declared, 1, len(pickled)]]}
                        ).encode(),
                        "0.npy": pickled,
                    }
                )
            )


def test_array_of_undeclared_type_or_size_is_refused():
    for declared, n in (("<i4", 3), ("<i8", 4), ("<i8", 2), ("<U1", 3)):
        with pytest.raises(DamagedFileError):
            unpack(
                archive_of(
                    {
                        "document.json": json.dumps({"arrays": [[declared, n, 152]]}).encode(),
                        "0.npy": npy_bytes(np.arange(3.0)),
                    }
                )
            )


def test_small_file_cannot_allocate_all_memory():
    for entry in (["<f8", 10**9, 128], ["<f8", 3, 10**10]):
        with pytest.raises(DamagedFileError, match="its arrays are too large for such a file"):
            unpack(archive_of({"document.json": json.dumps({"arrays": [entry]}).encode()}))


def test_array_longer_than_its_declared_size_is_refused():
    zeros = pyarrow.Codec("zstd").compress(npy_bytes(np.zeros(40_000_000)), asbytes=True)
    for entry, message in (
        (["<f8", 3, 200_000_000], r"array 0 is float64\(40000000,\), not float64\(3,\)"),
        (["<f8", 40_000_000, 200_000], "too large"),
    ):
        with pytest.raises(DamagedFileError, match=message):
            unpack(
                archive_of(
                    {"document.json": json.dumps({"arrays": [entry]}).encode(), "0.npy.zst": zeros}
                )
            )
    short, long = npy_bytes(np.arange(3.0))[:-1], npy_bytes(np.arange(3.0)) + b" "
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


def test_file_cannot_unpack_to_more_than_80_percent_of_memory(monkeypatch):
    """The limit holds for every compression ratio; this machine has 20 MB."""
    incompressible = np.random.default_rng(0).random(1_000_000)  # 8 MB
    content = pack({}, [incompressible, incompressible + 1, incompressible + 2])
    assert len(unpack(content)[1]) == 3
    monkeypatch.setattr(archives, "_memory_size", lambda: 20_000_000)
    with pytest.raises(
        DamagedFileError, match=r"its arrays are too large for such a file, or for this machine\)$"
    ):
        unpack(content)


def test_arrays_are_unpacked_without_a_copy():
    """A second copy of the arrays would double the memory that loading takes."""
    content = pack({}, [np.zeros(4_000_000), np.random.default_rng(0).random(4_000_000)])
    tracemalloc.start()
    try:
        _, arrays = unpack(content)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The arrays have 32 MB each; the compressed members and the chunks take less than 12 MB.
    assert peak < sum(array.nbytes for array in arrays) + 12_000_000
