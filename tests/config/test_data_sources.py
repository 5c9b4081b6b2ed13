"""Other content of any file that rows are read from is another run, and other keys in the store;
the same content is not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kdgraph.config import RunConfig, compose
from kdgraph.config.components import parameters_of
from kdgraph.config.data_sources import files_read
from kdgraph.data.dataset import Dataset
from kdgraph.runner.index import Index, _line
from kdgraph.runner.stages import split
from kdgraph.runner.stored_stages import stage_keys

IMAGES, TEXT = (
    {"name": "custom", "_target_": f"kdgraph.data.{name}"}
    for name in ("images.ImageFiles", "tables.TextFile")
)


@cache
def base() -> RunConfig:
    return compose(["dataset=wine", "ood=none"])


def other(source: dict) -> dict:
    return {"name": "dataset", "_target_": "kdgraph.data.ood.OtherDataset", "source": source}


def pictures(folder: Path) -> None:
    for i, label in enumerate("ab"):
        (folder / label).mkdir(parents=True)
        Image.fromarray(np.full((2, 2), i, dtype=np.uint8)).save(folder / label / "1.png")


def texts(folder: Path) -> None:
    for label in "ab":
        (folder / label).mkdir(parents=True)
        (folder / label / "1.txt").write_text(label)


def idx(folder: Path) -> None:
    folder.mkdir()
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        (folder / name).write_text(name)


CHANGES: dict[str, tuple[dict, Callable[[Path], None], str, str]] = {
    "a picture of a folder": (IMAGES, pictures, ".", "b/1.png"),
    "a text of a folder": (TEXT, texts, ".", "b/1.txt"),
    "labels in a folder of idx files": (IMAGES, idx, ".", "train-labels-idx1-ubyte"),
    "labels beside an idx file": (
        IMAGES,
        idx,
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
    ),
}


@pytest.mark.parametrize(("source", "make", "path", "changed"), CHANGES.values(), ids=CHANGES)
def test_other_content_is_another_run(tmp_path, source, make, path, changed):
    make(tmp_path / "custom")
    config = replace(base(), ood=other({**source, "path": str(tmp_path / "custom" / path)}))
    splits, ids = split(base().dataset, 0), []
    file = tmp_path / "custom" / changed
    for content in (before := file.read_bytes(), b"other", before):
        file.write_bytes(content)
        ids.append((replace(config).run_id, stage_keys(config, splits)["evaluate"]))
    assert ids[0] == ids[2] and ids[0][0] != ids[1][0] and ids[0][1] != ids[1][1]
    file.rename(file.with_name(f"0{file.name}"))
    assert replace(config).run_id != ids[0][0]


@pytest.mark.parametrize(("source", "make"), [(IMAGES, pictures), (TEXT, texts), (IMAGES, idx)])
def test_what_a_source_does_not_read_is_no_part_of_the_run(tmp_path, source, make):
    make(tmp_path / "custom")
    config = replace(base(), dataset={**source, "path": str(tmp_path / "custom")})
    before = replace(config).run_id
    (tmp_path / "custom" / "outputs").mkdir()
    (tmp_path / "custom" / "outputs" / ".hidden.png").write_text("of another run")
    (tmp_path / "custom" / "notes.md").write_text("what this is")
    os.utime(next((tmp_path / "custom").rglob("*1*")), (1, 1))
    assert replace(config).run_id == before


def test_sweep_point_is_cached_while_its_folder_is_unchanged(tmp_path):
    pictures(tmp_path / "custom")
    config = replace(
        base(), dataset={**IMAGES, "path": str(tmp_path / "custom")}, out=str(tmp_path)
    )

    run = config.run_dir.relative_to(tmp_path).as_posix()
    entry = json.loads(_line("a", run, config.science()))
    index = Index(tmp_path, tmp_path / "index", {"a": entry})
    assert index.known() == {"a": config.run_dir}
    os.utime(tmp_path / "custom/a/1.png", (1, 1))
    assert index.known()
    (tmp_path / "custom/a/2.png").write_bytes((tmp_path / "custom/a/1.png").read_bytes())
    assert not index.known()


class OwnSource:
    """A user's source that does not declare what it reads."""

    name = "custom"

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> Dataset:
        return Dataset.from_labels(self.name, np.zeros((4, 1)), np.array([0, 1, 0, 1]))


def test_a_source_of_a_users_reads_the_file_that_its_path_names(tmp_path):
    (tmp_path / "a").write_text("a")
    science = {
        "dataset": {
            "name": "custom",
            "_target_": f"{__name__}.OwnSource",
            "path": str(tmp_path / "a"),
        },
        "ood": None,
    }
    assert [read.files() for read in files_read(science).values()] == [[tmp_path / "a"]]


def test_simulations_read_no_file():
    import kdgraph.data.simulations as simulations

    for name in simulations.__all__:
        source = getattr(simulations, name)
        assert not hasattr(source, "file_parameters")
        assert "path" not in parameters_of(source)
    node = {"_target_": "kdgraph.data.simulations.Spiral", "path": "my.csv"}
    assert files_read({"dataset": node, "ood": {}}) == {}
