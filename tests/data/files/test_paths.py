from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.data.files.paths import file_stem


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
def test_names_of_files(path, name):
    assert file_stem(path) == name


@given(st.text())
def test_every_name_can_be_that_of_a_run(path):
    assert re.fullmatch(r"[\w.-]+", file_stem(path)) and set(file_stem(path)) != {"."}
