"""Joined names stay in their folder, whatever the name is and wherever its links lead."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.containment import LeadsOutside, is_inner_name, path_inside

OUTWARD = [
    "../secret.txt",
    "tables/../../secret.txt",
    "/etc/hostname",
    "//server/share",
    "C:secret.txt",
    r"C:\secret.txt",
    r"..\secret.txt",
    r"\secret.txt",
    "a\0b",
    "",
    ".",
    "./",
    "a" * 256,
    "tables/" + "é" * 128,
]


@pytest.mark.parametrize("name", OUTWARD)
def test_names_that_lead_out_are_refused(tmp_path, name):
    with pytest.raises(LeadsOutside, match="leads out of"):
        path_inside(tmp_path, name)


@pytest.mark.parametrize("name", ["a.csv", "tables/a.csv", "a..b", "...", "ünï [a] $x.csv", "~"])
def test_inner_names_are_joined_unchanged(tmp_path, name):
    assert path_inside(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("name", ["link", "link/secret.txt", "tables/link/secret.txt"])
def test_links_that_lead_out_are_refused_in_any_part(tmp_path, name):
    outside, folder = tmp_path / "outside", tmp_path / "run"
    outside.mkdir()
    (outside / "secret.txt").write_text("key")
    (folder / "tables").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "tables" / "link").symlink_to("../../outside")
    with pytest.raises(LeadsOutside):
        path_inside(folder, name)


def test_dangling_and_endless_links_are_refused_or_stay_inside(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "run" / "endless").symlink_to("endless")
    with pytest.raises(LeadsOutside):
        path_inside(tmp_path / "run", "dangling")
    assert path_inside(tmp_path / "run", "endless/a") == tmp_path / "run" / "endless" / "a"


def test_links_within_the_folder_are_followed(tmp_path):
    (tmp_path / "disk" / "run" / "tables").mkdir(parents=True)
    (tmp_path / "outputs").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "run" / "link").symlink_to("tables")
    folder = tmp_path / "outputs" / "run"
    assert path_inside(folder, "link/a.csv") == folder / "link" / "a.csv"


@given(st.lists(st.sampled_from(["a", "..", ".", "/", "\\", "C:", "", "b.csv"]), max_size=6))
def test_every_accepted_name_normalises_to_a_path_below_the_folder(parts):
    name = "/".join(parts)
    if is_inner_name(name):
        assert os.path.normpath(f"/x/{name}").startswith("/x/")
