"""A run on images, with a parent that is given like one of a user: shapes, shifts, pictures and the
record.
"""

from __future__ import annotations

import json
import sys

import matplotlib.image
import pandas as pd
import pytest

from kdgraph.base import Predictions
from kdgraph.config import compose
from kdgraph.errors import ParameterError
from kdgraph.figures.images import distance_from_training
from kdgraph.figures.run_figures import ood_set_title
from kdgraph.figures.shift import shift_axis_label
from kdgraph.report.run_table import run_table
from kdgraph.runner.run import run

PARENT = """
from sklearn.ensemble import RandomForestClassifier

class FlatForest(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X.reshape(len(X), -1), y, sample_weight)

    def predict_proba(self, X):
        return super().predict_proba(X.reshape(len(X), -1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
"""
SMALL = [
    "dataset.size=60",
    "dataset.channels=1",
    "dataset.n_train=40",
    "dataset.n_calibration=12",
    "dataset.n_test=10",
]


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    """Composes with the parent of this module."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "flat_forest.py").write_text(PARENT)
    (folder / "conf" / "parent").mkdir(parents=True)
    (folder / "conf" / "parent" / "flat.yaml").write_text(
        "# Forest on pixels\ndefaults: [random_forest, _self_]\nname: flat\n_target_:"
        " flat_forest.FlatForest\nn_estimators: 5\n"
    )
    sys.path.insert(0, str(folder))
    arguments = [
        "dataset=shapes",
        "method=isotonic",
        "parent=flat",
        *SMALL,
        "n_jobs=1",
        "figures.formats=[png]",
        f"out={folder / 'out'}",
    ]
    yield lambda *more: compose([*arguments, *more], config_dir=folder / "conf")
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def shifted(composed):
    config = composed(
        "ood.n=4", "ood.intensities=[0,127,255]", "ood.epsilons=[0,0.5,1]", "ood.axes=[0.01,10,25]"
    )
    return config, run(config)


def test_the_record_names_the_kind_of_rows(shifted):
    _, record = shifted
    assert record["dataset"]["n_features"] == 3600
    assert record["dataset"]["shape"] == [1, 60, 60]
    assert record["dataset"]["classes"] == ["circle", "rectangle"]
    assert record["dataset"]["prior"] == [0.5, 0.5]


def test_shifts_are_measured_and_marked_on_the_data(shifted):
    config, record = shifted
    entries = [
        m
        for m in record["metrics"]
        if m["metric"] == "mmc" and m["of"] == "parent" and m["on"] == "ood"
    ]
    assert [(m["ood"], m["params"]) for m in entries[::4]] == [
        ("intensity", {"intensity": 0.0}),
        ("blend", {"epsilon": 0.5}),
        ("ellipse", {"axis": 25.0}),
    ]
    assert [m["params"] for m in entries if m.get("in_distribution")] == [
        {"intensity": 127.0},
        {"epsilon": 0.0},
        {"epsilon": 1.0},
        {"axis": 10.0},
    ]
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    assert frame.groupby("set").size().to_dict() == {
        "blend": 12,
        "ellipse": 12,
        "intensity": 12,
        "test": 10,
    }
    assert set(frame.loc[frame["set"] == "test", "y"]) == {"circle", "rectangle"}
    assert frame[["parent_circle", "calibrated_rectangle"]].notna().all(axis=None)


def test_the_figures_are_those_that_images_allow(shifted):
    config, record = shifted
    names = ["reliability_diagram", "confidence_against_shift", "ood_scores", "example_images"]
    assert record["files"]["figures"] == [f"figures/{name}.png" for name in names]
    height, width, _ = matplotlib.image.imread(
        config.run_dir / "figures" / "example_images.png"
    ).shape
    assert (
        width == pytest.approx(5 * 250, rel=0.1) and height > 250
    )  # circle, rectangle and one of each shift, at 200 dots an inch


def test_the_table_has_a_row_for_each_set_and_marks_none(shifted):
    _, record = shifted
    table = run_table(record, "x").splitlines()
    start = next(i for i, line in enumerate(table) if "out of distribution" in line)
    lines = [line.split("  ")[1] for line in table[start + 1 : -1]]
    assert lines == [
        "intensity 0",
        "intensity 255",
        "blend",
        "ellipse, axis 0.01",
        "ellipse, axis 25",
    ]


def test_spheres_around_images(composed):
    config = composed("ood=sphere", "ood.unit=max_norm", "ood.radii=[0.5,2]", "ood.n=3")
    record = run(config)
    names = ["reliability_diagram", "confidence_against_radius", "ood_scores", "example_images"]
    assert record["files"]["figures"] == [f"figures/{name}.png" for name in names]
    assert json.loads((config.run_dir / "result.json").read_text())["metrics"] == record["metrics"]


def test_images_are_not_scaled(composed):
    with pytest.raises(
        ParameterError,
        match=(
            r"^scale must be none for images, which are in .*, got 'max_norm'; it is for vectors$"
        ),
    ):
        run(composed("dataset.scale=max_norm"))


def test_words_on_figures():
    predictions = Predictions("ood", 0, {}, {}, "ellipse", {"axis": 30.0}, id_values=(10.0,))
    assert (
        shift_axis_label(predictions),
        ood_set_title(predictions),
        distance_from_training(predictions),
    ) == (
        "axis of the ellipse",
        "ellipse\naxis 30",
        20,
    )
    predictions = Predictions("ood", 0, {}, {}, "intensity", {"intensity": 16.0})
    assert (
        shift_axis_label(predictions),
        ood_set_title(predictions),
        distance_from_training(predictions),
    ) == (
        "intensity",
        "intensity\n16",
        16,
    )
    predictions = Predictions("ood", 0, {}, {}, "box", {"low": -2.0, "high": 2.0})
    assert (ood_set_title(predictions), distance_from_training(predictions)) == (
        "box\nlow -2, high 2",
        0,
    )
