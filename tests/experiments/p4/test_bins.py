"""The picture of local errors within bins: of which run, and the message without a run."""

from __future__ import annotations

import json

import pytest

from experiments.p4 import bins
from kdgraph.config import plan
from kdgraph.errors import DataError
from kdgraph.runner.run import run
from tests.openml_data import require_cached

WORDS = [
    "dataset=crime",
    "preprocess=standardized",
    "network=paper/p4/crime_long",
    "method=paper/p4/crime/lore_pca",
    "ood=none",
]


def test_without_a_run_in_the_plane_the_message_names_one(tmp_path):
    folder = tmp_path / "crime" / "lore_pca" / "1"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(
        json.dumps(
            {"seed": 0, "run_id": "1", "files": {"tables": {"by_group": "tables/by_group.csv"}}}
        )
    )
    with pytest.raises(DataError, match="metrics=local_features"):
        bins.figure2(tmp_path)


@pytest.mark.slow  # trains a network
def test_the_picture_is_of_the_first_seed(tmp_path):
    require_cached(42730)
    job = plan(
        [*WORDS, "metrics=local_features", "figures=none", "parent.max_epochs=2", f"out={tmp_path}"]
    ).jobs[0]
    run(job.config)
    assert [axes.get_xlabel() for axes in bins.figure2(tmp_path).axes if axes.get_xlabel()][
        -1
    ] == "LCE"
