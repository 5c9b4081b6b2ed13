"""Runs on sets of images, and with another data set as what is out of distribution."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from kdgraph.base import FittedModel
from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.data.ood.other_data import OtherDataset
from kdgraph.data.scaling import Scaling
from kdgraph.errors import ConfigError
from kdgraph.report.run_table import run_table
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.run import run
from kdgraph.runner.stages import split, stage_rng
from tests.data.images.image_sets import flat_table, slope_images
from tests.data.openml.server import write_cached_dataset

FOREST = [
    "method=kdf",
    "dataset.flat=true",
    "parent.n_estimators=5",
    "n_jobs=1",
    "figures.formats=[png]",
]


@pytest.fixture
def sets(openml_cache, monkeypatch):
    """A little MNIST, whole, and a little SVHN, which is a subset; slopes of the second class go
    up, those of the first down.
    """
    for id, n, shape, seed in ((554, 60, (1, 8, 8), 0), (41081, 30, (3, 9, 9), 1)):
        images, labels = slope_images(n, shape, seed), np.arange(n) % 2
        images[labels == 1] = images[labels == 1, :, ::-1]
        write_cached_dataset(openml_cache, id, flat_table(images, labels.tolist()))


LITTLE = ["dataset=mnist", "dataset.shape=[1,8,8]", "dataset.official=[40,20]"]
SVHN = ["ood=dataset", "ood.name=svhn", "ood.n=10"]
LITTLE_SVHN = (
    "{name: svhn, _target_: kdgraph.data.images.OpenmlImages, id: 41081, shape: [3, 9, 9],"
    " official: [73257, 26032]}"
)


def test_a_forest_on_flat_images_beside_another_set(sets, tmp_path):
    config = compose([*LITTLE, *FOREST, *SVHN, f"ood.source={LITTLE_SVHN}", f"out={tmp_path}"])
    record = run(config)
    assert (
        record["dataset"]["n_train"],
        record["dataset"]["n_calibration"],
        record["dataset"]["n_test"],
    ) == (40, 0, 20)
    assert "subset" not in record["dataset"]["source"]
    (entry,) = record["ood_sets"]
    assert (entry["name"], entry["n"], entry["source"]["rows"]) == (
        "svhn",
        10,
        "10 at random of 30 rows",
    )
    repaired = ["resized from 9×9 to 8×8 (bilinear)", "grey from colours (Rec. 601 luma)", "flat"]
    assert entry["source"]["repaired"] == repaired
    names = ["reliability_diagram", "confidence_by_set", "ood_scores"]
    assert record["files"]["figures"] == [f"figures/{name}.png" for name in names]
    assert {m["ood"] for m in record["metrics"] if m["on"] == "ood"} == {"svhn"}
    line = run_table(record, "x").splitlines()[2]
    assert (
        line
        == f"  svhn: 10 at random of 30 rows; {'; '.join(repaired)}; a subset: 30 of 99,289 rows,"
        " without the official split"
    )


@pytest.mark.slow
def test_a_network_on_images_and_noise_from_the_command_line(sets, tmp_path, capsys):
    small = [
        "parent.max_epochs=1",
        "dataset.shape=[1,8,8]",
        "dataset.official=[70,30]",
        "n_jobs=1",
        "figures.formats=[png]",
    ]
    code = main(
        ["run", "--json", "dataset=mnist", "parent=cnn", "ood.n=10", *small, f"out={tmp_path}"]
    )
    record = json.loads(capsys.readouterr().out)
    assert code == 0 and record["dataset"]["shape"] == [1, 8, 8]
    assert record["dataset"]["source"]["subset"] == "60 of 100 rows, without the official split"
    names = ["reliability_diagram", "confidence_by_set", "ood_scores", "example_images"]
    assert record["files"]["figures"] == [f"figures/{name}.png" for name in names]
    assert "mnist: a subset: 60 of 100 rows, without the official split" in run_table(record, "x")


class RecordingModel:
    """A model that keeps the rows that it predicts."""

    def predict_proba(self, X):
        self.X = X
        return np.full((len(X), 3), 1 / 3)


def test_rows_of_another_table_are_scaled_as_the_training_rows():
    source = {"name": "trunk", "_target_": "kdgraph.data.simulations.Trunk", "n_dims": 13}
    config = compose(["dataset=wine"])
    splits, model = split(config.dataset, 0), RecordingModel()
    ood = {"name": "trunk", "_target_": "kdgraph.data.ood.OtherDataset", "n": 40}
    inputs = {
        "dataset": config.dataset,
        "ood": {**ood, "source": source},
        "splits": splits,
        "seed": 0,
    }
    evaluate(
        FittedModel(RecordingModel()),
        FittedModel(None, {"calibrator": model}),
        {"test": {"error": {}}},
        **inputs,
    )
    (measured,) = OtherDataset(build(source), n=40).sets(
        replace(splits, scaling=Scaling()), stage_rng(0, "ood")
    )
    assert splits.scaling.size != 1
    np.testing.assert_array_equal(model.X[-40:], splits.scaling.apply(measured.X))


def test_the_config_holds_the_whole_source_and_nothing_else():
    alone = compose(["dataset=wine"])
    config = compose(["dataset=wine", "ood=dataset", "ood.name=svhn"])
    assert (config.ood["name"], config.ood["source"]["id"], config.ood["source"]["name"]) == (
        "svhn",
        41081,
        "svhn",
    )
    assert (config.parent, config.calibrator, config.method) == (
        alone.parent,
        alone.calibrator,
        alone.method,
    )
    assert config.run_id != compose(["dataset=wine", "ood=dataset", "ood.name=cifar10"]).run_id


def test_a_data_set_in_a_folder_goes_by_its_own_name():
    assert compose(["ood=dataset", "ood.name=kc1"]).ood["source"]["id"] == 1067


@pytest.mark.slow
def test_names_can_be_swept_and_run_side_by_side(tmp_path, capsys):
    """Other processes compose the jobs again, and must come to the same ids."""
    swept = [
        "dataset=circle",
        "dataset.n_train=30",
        "parent.n_estimators=3",
        "ood=dataset",
        "ood.name=spiral,sinewave",
        "ood.n=20",
    ]
    launcher = ["hydra/launcher=processes", "hydra.launcher.n_jobs=2"]
    assert (
        main(
            [
                "run",
                "--json",
                "-m",
                *swept,
                *launcher,
                "metrics=default",
                "figures=none",
                f"out={tmp_path}",
            ]
        )
        == 0
    )
    assert [record["ood_sets"][0]["name"] for record in json.loads(capsys.readouterr().out)] == [
        "spiral",
        "sinewave",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["ood=dataset"],
            "ood=dataset needs the name of a data set: ood.name=…; 'kdg list dataset' shows them",
        ),
        (
            ["ood=dataset", "ood.name=svnh"],
            r"no dataset named 'svnh'; did you mean 'svhn'? ('kdg list dataset --all' shows all ",
        ),
        (
            ["dataset=wine", "ood=dataset", "ood.name=wine"],
            "ood.name=wine is what dataset=wine trains on, so its rows are in ",
        ),
        (
            ["dataset=cc18/mnist_784", "ood=dataset", "ood.name=mnist"],
            "ood.name=mnist is what dataset=mnist_784 trains on, ",
        ),
        (
            ["ood=dataset", "ood.name=iris", "ood.source.loder=wine"],
            "unknown key 'ood.source.loder'",
        ),
        (
            [
                "ood=dataset",
                "ood.name=iris",
                "ood.source={name: x, _target_: kdgraph.data.tables.SklearnTable, loder: wine}",
            ],
            "ood.source.",
        ),
        (["ood=dataset", "ood.name=iris", "dataset.foo=1"], "unknown key 'dataset.foo' ("),
    ],
)
def test_what_cannot_be_composed(arguments, sentence):
    with pytest.raises(ConfigError) as caught:
        compose(arguments)
    assert str(caught.value).startswith(sentence)


def test_images_for_a_forest_are_refused_with_both_ways_out(sets, tmp_path, capsys):
    assert main(["run", *LITTLE, "method=kdf", f"out={tmp_path}"]) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("choose a network: parent=cnn, or vectors of pixels: dataset.flat=true")
    )
