from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.data.files.paths import file_stem, list_names, resolve_existing
from kdgraph.errors import DataNotAvailable


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b/my.csv", "my"),
        ("my.csv.gz", "my"),
        ("my.data.csv", "my.data"),
        ("my data (2).csv", "my_data_2_"),
        ("folder/", "folder"),
        ("größe.csv", "größe"),
        ("", "table"),
        (None, "table"),
        ("..", "table"),
        (".csv", "csv"),
    ],
)
def test_file_stem_drops_folders_endings_and_spaces(path, name):
    assert file_stem(path) == name


@given(st.text())
def test_file_stem_is_a_valid_run_name(path):
    assert re.fullmatch(r"[\w.-]+", file_stem(path)) and set(file_stem(path)) != {"."}


def test_name_that_is_too_long_does_not_exist(tmp_path):
    name = "n" * 300
    with pytest.raises(
        DataNotAvailable,
        match=f"^{re.escape(f'dataset.path={tmp_path}/{name}: no such file in {tmp_path}')}$",
    ):
        resolve_existing(f"{tmp_path}/{name}")
    with pytest.raises(DataNotAvailable, match=r": there is no folder "):
        resolve_existing(f"{tmp_path}/{name}/file.csv")


def test_list_names_of_a_missing_folder_is_empty(tmp_path):
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert (
        list_names(tmp_path) == ["a", "b"]
        and list_names(tmp_path / "c") == []
        and list_names(tmp_path / "a") == []
    )
