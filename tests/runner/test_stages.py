"""The fit of a parent that trains for long: it is watched, it is kept on disk meanwhile, and
neither stays in it or changes a bit.
"""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kdgraph.config import compose
from kdgraph.data.dataset import Dataset
from kdgraph.data.scaling import Scaling
from kdgraph.data.simulations import Shapes, Spiral
from kdgraph.data.splits import make_splits
from kdgraph.errors import ConfigError
from kdgraph.runner.stages import fit

MLP = {
    "name": "mlp",
    "_target_": "kdgraph.parents.networks.MultilayerPerceptron",
    "hidden": [8],
    "max_epochs": 3,
    "device": "cpu",
}
FOREST = {
    "name": "random_forest",
    "_target_": "sklearn.ensemble.RandomForestClassifier",
    "n_estimators": 3,
}
SIZES = {"n_train": 60, "n_calibration": 20, "n_test": 10}


@pytest.fixture(scope="module")
def spiral():
    return make_splits(Spiral(), **SIZES, rng=np.random.default_rng(0)).train


@pytest.fixture(scope="module")
def shapes():
    return make_splits(Shapes(size=60, channels=1), **SIZES, rng=np.random.default_rng(0)).train


def test_who_watches_and_where_the_state_is_kept_leaves_no_trace(spiral, tmp_path):
    calls = []
    watched = fit(MLP, spiral, seed=1, n_jobs=2, report=calls.append, checkpoint=tmp_path / "state")
    alone = fit(MLP, spiral, seed=1, n_jobs=1)
    assert [progress.epoch for progress in calls] == [1, 2, 3] and not list(tmp_path.iterdir())
    assert (watched.report, watched.checkpoint, watched.verbose, watched.n_jobs) == (
        None,
        None,
        False,
        1,
    )
    read = pickle.loads(pickle.dumps(watched))
    assert read.get_params() == alone.get_params()
    assert np.array_equal(read.predict_proba(spiral.X), alone.predict_proba(spiral.X))


def test_a_parent_without_such_parameters_gets_none(spiral, tmp_path):
    fitted = fit(FOREST, spiral, seed=1, n_jobs=2, report=print, checkpoint=tmp_path / "state")
    assert (fitted.verbose, fitted.n_jobs) == (0, 1) and not list(tmp_path.iterdir())


def test_a_feature_that_float32_loses_is_named_with_the_way_out():
    days = 2_460_000.5 + np.arange(60) / 1440
    rows = Dataset.from_labels(
        "nights", np.column_stack([np.sin(days * 9), days]), np.arange(60) % 2, ("flux", "day")
    )
    model = {FOREST["name"]: "RandomForestClassifier", MLP["name"]: "MultilayerPerceptron"}
    for parent in (FOREST, MLP):
        message = (
            "nights: of 60 different values of 'day', single precision, in which"
            f" {model[parent['name']]} computes, has 1"
        )
        with pytest.warns(
            UserWarning,
            match=f"^{re.escape(message)}; dataset.scale=min_max takes the offset away$",
        ):
            fit(parent, rows, seed=0, n_jobs=1)
        centred = replace(rows, X=Scaling.fit(rows.X, "min_max").apply(rows.X))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)  # the labels are noise
            fit(parent, centred, seed=0, n_jobs=1)
            fit(
                parent,
                rows,
                preprocess={"_target_": "kdgraph.parents.Preprocess", "standardize": True},
                seed=0,
                n_jobs=1,
            )


@pytest.mark.parametrize("parent", [MLP, FOREST], ids=["network", "forest"])
def test_a_seed_has_any_size_and_all_of_its_digits_count(spiral, parent):
    seeds = [1, 2**32 + 1, 2**63, 2**64 + 1, 2**64 + 2, 10**40]
    fitted = [fit(parent, spiral, seed=seed, n_jobs=1).random_state for seed in seeds]
    assert len(set(fitted)) == len(seeds)


def test_images_are_not_for_every_parent(shapes):
    with pytest.raises(ConfigError) as caught:
        fit(FOREST, shapes, seed=0, n_jobs=1)
    assert (
        str(caught.value)
        == "dataset=shapes has images, and parent=random_forest takes vectors; choose a network:"
        " parent=cnn"
    )
    assert fit(MLP, shapes, seed=0, n_jobs=1).predict_proba(shapes.X).shape == (60, 2)


@pytest.mark.parametrize("name", ["cnn", "lenet", "resnet", "encoder"])
def test_networks_for_images_take_no_vectors(spiral, name):
    with pytest.raises(ConfigError) as caught:
        fit(compose([f"parent={name}"]).parent, spiral, seed=0, n_jobs=1)
    assert (
        str(caught.value)
        == f"dataset=spiral has vectors, and parent={name} takes images; choose another: parent=mlp"
    )
