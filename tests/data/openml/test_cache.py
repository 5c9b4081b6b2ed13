"""Whether the cache is whole."""

from __future__ import annotations

import os

import pytest

from kdgraph.data.openml.cache import CHECKSUM_FILE, cached_ids, check_cached
from kdgraph.data.openml.client import fetch_dataset
from tests.data.openml.server import arff, bake, frame, parquet, qualities


def test_what_is_whole(openml_cache):
    bake(openml_cache, 61, frame())
    found = check_cached(61)
    assert (found.id, found.name, found.rows, found.columns, found.problem) == (
        61,
        "made-up-61",
        40,
        6,
        None,
    )
    assert found.size == sum(
        path.stat().st_size for path in openml_cache.rglob("*") if path.is_file()
    )


def test_the_numbers_that_are_there(openml_cache):
    assert cached_ids() == []
    for id in (300, 9, 61):
        bake(openml_cache, id, frame())
    assert cached_ids() == [9, 61, 300]


def test_a_digest_is_noted_when_a_set_is_fetched(openml_server):
    """Other bytes that still are a table of this shape: nothing else would notice them."""
    openml_server.add(61, frame())
    data = fetch_dataset(61)
    assert (data.folder / CHECKSUM_FILE).read_text().endswith("  dataset_61.pq\n")
    assert check_cached(61).problem is None
    data.file.write_bytes(parquet(frame().assign(length=0.0)))
    problem = check_cached(61).problem
    assert problem is not None and problem.startswith(f"{data.file} is damaged (SHA-256 ")


def test_a_folder_that_cannot_be_written_to_does_without_the_digest(openml_server, monkeypatch):
    monkeypatch.setattr(
        "pathlib.Path.write_text",
        lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")),
    )
    openml_server.add(61, frame())
    assert (
        not (fetch_dataset(61).folder / CHECKSUM_FILE).exists() and check_cached(61).problem is None
    )


def spoil_parquet(folder):
    """Bytes of the values turn: the table can be opened, and not read."""
    file = folder / "dataset_61.pq"
    whole = bytearray(file.read_bytes())
    whole[4:200] = bytes(255 - byte for byte in whole[4:200])
    file.write_bytes(whole)


def cut_parquet(folder):
    file = folder / "dataset_61.pq"
    file.write_bytes(file.read_bytes()[:-30])


def lose_a_column(folder):
    (folder / "dataset_61.pq").write_bytes(parquet(frame().drop(columns="length")))


def lose_rows(folder):
    (folder / "qualities.xml").write_text(qualities(40))
    (folder / "dataset_61.pq").write_bytes(parquet(frame(30)))


def other_arff(folder):
    (folder / "dataset_61.pq").unlink()
    (folder / "dataset.arff").write_text(arff(frame()))


def lose_the_rows(folder):
    (folder / "dataset_61.pq").unlink()


def lose_the_description(folder):
    (folder / "description.xml").unlink()


def empty_the_description(folder):
    (folder / "description.xml").write_text("")


@pytest.mark.parametrize(
    ("spoil", "file", "reason"),
    [
        (spoil_parquet, "dataset_61.pq", ""),
        (cut_parquet, "dataset_61.pq", ""),
        (lose_a_column, "dataset_61.pq", "number of columns 5 where 6 is announced"),
        (lose_rows, "dataset_61.pq", "number of rows 30 where 40 is announced"),
        (other_arff, "dataset.arff", "MD5 "),
        (lose_the_rows, "description.xml", "the description or the rows are not there"),
        (lose_the_description, "description.xml", "the description or the rows are not there"),
        (empty_the_description, "description.xml", "no element found"),
    ],
)
def test_what_is_damaged(openml_cache, spoil, file, reason):
    folder = bake(openml_cache, 61, frame(), md5_checksum="0" * 32)
    spoil(folder)
    problem = check_cached(61).problem
    assert problem is not None and "\n" not in problem
    assert problem.startswith(f"{folder / file} is damaged ({reason}")
    assert problem.endswith(f"); delete {folder} and fetch it again with 'kdg data get 61'")


def test_qualities_that_cannot_be_read_say_nothing(openml_cache):
    folder = bake(openml_cache, 61, frame())
    for text in ("", "<oml", qualities(40).replace("40.0", "many")):
        (folder / "qualities.xml").write_text(text)
        assert check_cached(61).problem is None


def test_real_files_are_whole():
    if "OPENML_CACHE_DIR" not in os.environ or not cached_ids():
        pytest.skip("OPENML_CACHE_DIR names no folder with data sets of OpenML")
    small = [id for id in cached_ids() if id < 100]
    assert [found.problem for found in map(check_cached, small) if found.problem] == []
