"""Check of the files in the cache."""

from __future__ import annotations

import os

import pytest

from kdgraph.data.openml.cache import CHECKSUM_FILE, cached_ids, check_cached
from kdgraph.data.openml.client import fetch_dataset
from tests.data.openml.server import arff, mixed_table, parquet, qualities, write_cached_dataset


def test_intact_data_set_passes_the_check(openml_cache):
    write_cached_dataset(openml_cache, 61, mixed_table())
    check = check_cached(61)
    assert (check.id, check.name, check.rows, check.columns, check.problem) == (
        61,
        "made-up-61",
        40,
        6,
        None,
    )
    assert check.size == sum(
        path.stat().st_size for path in openml_cache.rglob("*") if path.is_file()
    )


def test_cached_ids_are_sorted(openml_cache):
    assert cached_ids() == []
    for id in (300, 9, 61):
        write_cached_dataset(openml_cache, id, mixed_table())
    assert cached_ids() == [9, 61, 300]


def test_changed_data_fail_the_checksum_of_the_fetch(openml_server):
    """Replace the data by another table of the same shape, which only the checksum detects."""
    openml_server.add(61, mixed_table())
    data = fetch_dataset(61)
    assert (data.folder / CHECKSUM_FILE).read_text().endswith("  dataset_61.pq\n")
    assert check_cached(61).problem is None
    data.file.write_bytes(parquet(mixed_table().assign(length=0.0)))
    problem = check_cached(61).problem
    assert problem is not None and problem.startswith(f"{data.file} is damaged (SHA-256 ")


def test_no_checksum_is_written_to_a_read_only_folder(openml_server, monkeypatch):
    monkeypatch.setattr(
        "pathlib.Path.write_text",
        lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")),
    )
    openml_server.add(61, mixed_table())
    assert (
        not (fetch_dataset(61).folder / CHECKSUM_FILE).exists() and check_cached(61).problem is None
    )


def invert_values(folder):
    """Invert bytes of the values, so that the file can be opened but not read."""
    file = folder / "dataset_61.pq"
    content = bytearray(file.read_bytes())
    content[4:200] = bytes(255 - byte for byte in content[4:200])
    file.write_bytes(content)


def truncate_parquet(folder):
    file = folder / "dataset_61.pq"
    file.write_bytes(file.read_bytes()[:-30])


def remove_a_column(folder):
    (folder / "dataset_61.pq").write_bytes(parquet(mixed_table().drop(columns="length")))


def remove_rows(folder):
    (folder / "qualities.xml").write_text(qualities(40))
    (folder / "dataset_61.pq").write_bytes(parquet(mixed_table(30)))


def replace_by_arff(folder):
    (folder / "dataset_61.pq").unlink()
    (folder / "dataset.arff").write_text(arff(mixed_table()))


def remove_data_file(folder):
    (folder / "dataset_61.pq").unlink()


def remove_description(folder):
    (folder / "description.xml").unlink()


def empty_description(folder):
    (folder / "description.xml").write_text("")


@pytest.mark.parametrize(
    ("damage", "file", "reason"),
    [
        (invert_values, "dataset_61.pq", ""),
        (truncate_parquet, "dataset_61.pq", ""),
        (remove_a_column, "dataset_61.pq", "number of columns 5 where 6 is announced"),
        (remove_rows, "dataset_61.pq", "number of rows 30 where 40 is announced"),
        (replace_by_arff, "dataset.arff", "MD5 "),
        (remove_data_file, "description.xml", "the description or the rows are not there"),
        (remove_description, "description.xml", "the description or the rows are not there"),
        (empty_description, "description.xml", "no element found"),
    ],
)
def test_damage_is_described_with_the_way_out(openml_cache, damage, file, reason):
    folder = write_cached_dataset(openml_cache, 61, mixed_table(), md5_checksum="0" * 32)
    damage(folder)
    problem = check_cached(61).problem
    assert problem is not None and "\n" not in problem
    assert problem.startswith(f"{folder / file} is damaged ({reason}")
    assert problem.endswith(f"); delete {folder} and fetch it again with 'kdg data get 61'")


def test_unreadable_qualities_are_ignored(openml_cache):
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    for text in ("", "<oml", qualities(40).replace("40.0", "many")):
        (folder / "qualities.xml").write_text(text)
        assert check_cached(61).problem is None


def test_real_files_pass_the_check():
    if "OPENML_CACHE_DIR" not in os.environ or not cached_ids():
        pytest.skip("OPENML_CACHE_DIR names no folder with data sets of OpenML")
    small = [id for id in cached_ids() if id < 100]
    assert [check.problem for check in map(check_cached, small) if check.problem] == []
