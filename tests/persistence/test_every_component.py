"""Every model that conf/ composes predicts equal bits after loading, also in a new process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf
from sklearn.base import clone

from kdgraph.base import FittedModel
from kdgraph.config import conf_dir, plan
from kdgraph.config.components import build, target_of
from kdgraph.config.yaml_files import option_files, read_text
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.persistence import from_bytes, save, to_bytes
from kdgraph.runner.stages import calibrate, fit

pytestmark = pytest.mark.slow

# Values that make a parent small, by a part of the name of its class.
SMALL_PARENTS: dict[str, dict[str, Any]] = {
    "CalibratedClassifierCV": {
        "estimator": {"_target_": "sklearn.tree.DecisionTreeClassifier"},
        "cv": 2,
    },
    "BoostedTreesClassifier": {"patience": 2},
    "sklearn.ensemble": {"n_estimators": 5},
    "MultilayerPerceptron": {"hidden": [8, 8], "max_epochs": 2},
    "ConvolutionalNetwork": {"max_epochs": 1},
    "ResidualNetwork": {"depth": 8, "width": 4, "max_epochs": 1},
    "EncoderNetwork": {"hidden": [8], "embedding_size": 4, "max_epochs": 1},
    "ContrastiveEncoder": {"hidden": [8], "max_epochs": 1, "pretrain_epochs": 1},
    "PrecomputedScores": {},
    "LatentClassifier": {
        "encoder": {
            "_target_": "experiments.p3.autoencoder.ConvolutionalAutoencoder",
            "max_epochs": 1,
        },
        "classifier": {"_target_": "sklearn.ensemble.ExtraTreesClassifier", "n_estimators": 5},
    },
}
SMALL_REGRESSORS: dict[str, dict[str, Any]] = {
    "networks": {"hidden": [8, 8], "max_epochs": 2},
    "NearestNeighbourRegressor": {"k": 20},
    "TreesOutcomes": {"n_estimators": 5},
    "ForestOutcomes": {"n_estimators": 5},
    "QuantileBoosting": {"max_iter": 5},
    "BoostedTreesRegressor": {"patience": 2},
    "NaturalGradientBoosting": {"n_estimators": 5},
}


def options(group: str) -> list[str]:
    """Return the options of a config group, such as ``paper/p1/trunk``."""
    files = [path for path in option_files(conf_dir() / group) if path.name[0] != "_"]
    return [path.relative_to(conf_dir() / group).with_suffix("").as_posix() for path in files]


def is_regressor(name: str) -> bool:
    """Return whether a parent is for regression, by its class or that of the file it extends."""
    node = yaml.safe_load(read_text(conf_dir() / "parent" / f"{name}.yaml"))
    if "_target_" in node:
        return hasattr(target_of(node), "predict_dist")
    bases = [
        default.removeprefix("/parent/").partition("@")[0]
        for default in node["defaults"]
        if str(default).startswith("/parent/")
    ]
    return any(is_regressor(base) for base in bases if not base.startswith("_"))


# Parents of another package whose compiled objects no file without pickle can hold.
UNSAVED = ("quantile_forest",)
# Its task is that of its file; tests/fitted saves and loads it.
FROM_FILES = ("fitted",)
REGRESSORS, RECALIBRATORS = (
    [
        name
        for name in options("parent")
        if name not in (*UNSAVED, *FROM_FILES) and is_regressor(name)
    ],
    options("recalibrator"),
)
# Package that fits a regressor.
PACKAGES = {"ngboost": "ngboost"} | {
    f"quantile_{name}": name for name in ("catboost", "lightgbm", "xgboost")
}
# Parents with weights that are downloaded.
PRETRAINED = ("paper/p1/vit",)
BOOSTED = ("catboost", "hist_gradient_boosting", "lightgbm", "xgboost")
TREES = ("random_forest", "extra_trees", "paper/p3/extra_trees_latent", *BOOSTED)
# Parents of optional libraries, which are tested where these are installed.
ABSENT = [
    name for name in ("catboost", "lightgbm", "xgboost") if importlib.util.find_spec(name) is None
]
PARENTS = [
    name
    for name in options("parent")
    if name not in (*ABSENT, *REGRESSORS, *UNSAVED, *PRETRAINED, *FROM_FILES)
]
CALIBRATORS, GATES = options("calibrator"), options("gate")
DETECTORS = [name for name in options("detector") if name != "none"]


@cache
def overlapping_classes(kind: Literal["vectors", "images", "scores"]) -> Splits:
    """Return training, calibration and test rows of three classes that overlap."""
    rng = np.random.default_rng(0)
    datasets = []
    for n in (60, 36, 30):
        y = np.arange(n) % 3
        X = rng.normal(y[:, None], 1.0, (n, 4))
        if kind == "scores":
            X = rng.dirichlet(np.ones(3), size=n)
        if kind == "images":
            X = rng.random((n, 1, 12, 12), dtype=np.float32) * (
                0.5 + y[:, None, None, None] / 4
            ).astype(np.float32)
        names = () if kind == "images" else tuple("abcd"[: X.shape[1]])
        groups = {"groups": np.arange(n) // 3 % 2, "group_names": ("g", "h")}
        datasets.append(
            Dataset(
                "rows",
                X,
                y,
                np.array(["u", "v", "w"]),
                names,
                has_scores=kind == "scores",
                **groups,
            )
        )
    return Splits(*datasets)


@cache
def fitted_parent(name: str) -> tuple[Any, Splits]:
    """Return the fitted parent and its rows."""
    node = config_node("parent", name)
    node = node | next(values for part, values in SMALL_PARENTS.items() if part in node["_target_"])
    takes_images = any(
        part in node["_target_"] for part in ("Convolutional", "Residual", "Encoder", "Latent")
    )
    splits = overlapping_classes(
        "scores" if name == "scores" else "images" if takes_images else "vectors"
    )
    return fit(node, splits.train, seed=0, n_jobs=1), splits


@cache
def config_node(group: str, name: str, *overrides: str) -> Any:
    """Return a composed node that is not checked, because its preset has another parent."""
    return OmegaConf.to_container(plan([f"{group}={name}", *overrides]).base[group], resolve=True)


def parents_and_calibrators() -> list[tuple[str, str]]:
    """Return pairs of presets.

    Every parent is paired with its kernel density graph and with no calibrator; every calibrator
    with a forest or, if it requires one, a network.
    """
    network_calibrators = [
        name
        for name in CALIBRATORS
        if "kdn" in name or name in ("network_best", "odin_temperature")
    ]
    graphs = [
        (name, "kdf" if name in TREES else "kdn")
        for name in PARENTS
        if name != "scores" and not name.startswith("cv_")  # which have no partition
    ]
    return sorted(
        {
            *graphs,
            *((name, "none") for name in PARENTS),
            *(("mlp" if c in network_calibrators else "random_forest", c) for c in CALIBRATORS),
        }
    )


def gates_of(parent_name: str, calibrator_name: str) -> list[str]:
    """Return the gates to test after a parent and a calibrator.

    Four pairs are tested with all gates, because each gate fits the calibrator again. Others are
    tested without a gate and, if there is a calibrator, with one of the gates in turn: a parent
    without a calibrator has the same gate as with its graph.
    """
    are_images = fitted_parent(parent_name)[1].train.are_images
    # A gate with a partition of its own fits a forest on vectors.
    is_forest = parent_name in ("random_forest", "extra_trees")
    gates = [
        name
        for name in GATES
        if not (are_images and config_node("gate", name).get("partition"))
        and (is_forest or name != "score")  # whose detector reads a forest
    ]
    if (parent_name, calibrator_name) in {
        ("random_forest", "none"),
        ("random_forest", "kdf"),
        ("mlp", "kdn"),
        ("cnn", "none"),
    }:
        return gates
    if calibrator_name == "none":
        return ["none"]
    real_gates = [name for name in gates if name != "none"]
    turn = parents_and_calibrators().index((parent_name, calibrator_name))
    return ["none", real_gates[turn % len(real_gates)]]


@pytest.mark.parametrize(
    ("parent_name", "calibrator_name"),
    parents_and_calibrators(),
    ids=map("-".join, parents_and_calibrators()),
)
# The few rows of a class are all predicted correctly.
@pytest.mark.filterwarnings("ignore:.*the confidence there")
def test_loaded_classifier_predicts_equal_bits(parent_name, calibrator_name):
    fitted, splits = fitted_parent(parent_name)
    node = config_node("calibrator", calibrator_name)
    node = {**node, "folds": 2} if "folds" in node else node
    # t-SNE embeds only the rows that it was fitted on.
    protocol = "paper" if calibrator_name == "lore_tsne" else "strict"
    calibrator = None if node["_target_"] is None else build(node, estimator=fitted)
    supports_gates = calibrator is None or (
        hasattr(calibrator, "predict_proba") and not getattr(calibrator, "takes_groups", False)
    )
    for gate_name in (
        gates_of(parent_name, calibrator_name)
        if supports_gates and parent_name != "scores"
        else ["none"]
    ):
        nodes = {"calibrator": node, "gate": config_node("gate", gate_name)}
        global_state = np.random.mtrand._rand.get_state()[1:3]
        fitted_model = calibrate(nodes, fitted, splits, protocol=protocol, seed=0, n_jobs=1)
        for before, after in zip(
            global_state, np.random.mtrand._rand.get_state()[1:3], strict=True
        ):
            np.testing.assert_array_equal(
                before, after, err_msg="the global generator of NumPy was used"
            )
        loaded = from_bytes(
            to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}
        ).value
        output_names = ["proba", "top_label"] if fitted_model.supports("proba") else ["top_label"]
        outputs, expected = (
            model.predict_outputs(output_names, splits.test.X, splits.test.groups)
            for model in (loaded, fitted_model)
        )
        np.testing.assert_array_equal(
            outputs["top_label"].confidence, expected["top_label"].confidence
        )
        if "proba" in output_names:
            np.testing.assert_array_equal(outputs["proba"], expected["proba"])
        assert loaded.parent is fitted and loaded.summary() == fitted_model.summary()
        assert all(
            part.estimator.estimator in (fitted, loaded.post_hoc.get("calibrator"))
            for part in loaded.post_hoc.values()
        )


@pytest.mark.parametrize("name", DETECTORS)
@pytest.mark.filterwarnings("ignore:.* held-out rows are fewer than set_size")
def test_loaded_detector_gives_equal_bits(name):
    node = config_node("detector", name)
    is_of_network = target_of(node).required_partition == "network"
    fitted, splits = fitted_parent("mlp" if is_of_network else "extra_trees")
    fitted_model = calibrate({"detector": node}, fitted, splits, seed=0, n_jobs=1)
    loaded = from_bytes(to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}).value
    scores, expected = (
        model.score_sets(splits.test.X, np.random.default_rng(0)).values
        if model.has_set_scores
        else model.predict_outputs(["ood_score"], splits.test.X)["ood_score"]
        for model in (loaded, fitted_model)
    )
    np.testing.assert_array_equal(scores, expected)
    assert loaded.summary() == fitted_model.summary()


@pytest.mark.parametrize("name", [name for name in options("conformal") if name != "none"])
@pytest.mark.filterwarnings("ignore:coverage=0.9 needs")  # a group has 7 calibration rows
def test_loaded_sets_are_equal(name):
    fitted, splits = fitted_parent("random_forest")
    for conditional in ("none", "class", "group"):
        nodes = {
            "calibrator": config_node("calibrator", "isotonic"),
            "conformal": {**config_node("conformal", name), "conditional": conditional},
        }
        fitted_model = calibrate(nodes, fitted, splits, seed=0, n_jobs=1)
        loaded = from_bytes(
            to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}
        ).value
        outputs, expected = (
            model.predict_outputs(["prediction_set", "proba"], splits.test.X, splits.test.groups)
            for model in (loaded, fitted_model)
        )
        for output, values in expected.items():
            np.testing.assert_array_equal(outputs[output], values)
        assert loaded.summary() == fitted_model.summary()


@pytest.mark.parametrize("name", PARENTS)
def test_loaded_parent_predicts_equal_bits_and_can_be_cloned(name):
    fitted, splits = fitted_parent(name)
    loaded = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(
        loaded.predict_proba(splits.test.X), fitted.predict_proba(splits.test.X)
    )
    assert loaded is not fitted and vars(clone(loaded)).keys() == vars(clone(fitted)).keys()
    assert clone(loaded).get_params().keys() == fitted.get_params().keys()


def parents_and_recalibrators() -> list[tuple[str, str]]:
    """Return pairs of presets.

    The linear parent is paired with every recalibrator, the others with local PIT and one of the
    recalibrators in turn.
    """
    # The scale of residuals is of normal and lognormal distributions alone.
    general = [name for name in RECALIBRATORS if name != "residual_scale"]
    recalibrators_of = {
        name: {"local_pit", general[i % len(general)]} for i, name in enumerate(REGRESSORS)
    }
    recalibrators_of["linear"] = set(RECALIBRATORS)
    return [
        (name, recalibrator_name)
        for name, recalibrator_names in recalibrators_of.items()
        for recalibrator_name in sorted(recalibrator_names)
    ]


@pytest.mark.parametrize(
    ("name", "recalibrator_name"),
    parents_and_recalibrators(),
    ids=map("-".join, parents_and_recalibrators()),
)
def test_loaded_regressor_predicts_equal_bits(name, recalibrator_name):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name], reason=f"{PACKAGES[name]} is not installed")
    rng = np.random.default_rng(0)
    train, calibration, test = (
        Dataset(
            "rows",
            X,
            np.exp(X[:, 0] + rng.normal(size=len(X))),
            np.empty(0),
            ("a", "b", "c"),
            "regression",
        )
        for X in [rng.normal(size=(n, 3)) for n in (60, 40, 30)]
    )
    splits = Splits(train, calibration, test)
    node = config_node("parent", name, "dataset=heteroscedastic")
    node = node | next(
        (values for part, values in SMALL_REGRESSORS.items() if part in node["_target_"]), {}
    )
    fitted = fit(node, splits.train, seed=0, n_jobs=1)
    node = config_node("recalibrator", recalibrator_name, "dataset=heteroscedastic")
    fitted_model = calibrate({"recalibrator": node}, fitted, splits, seed=0, n_jobs=1)
    loaded = from_bytes(to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}).value
    loaded_parent = from_bytes(to_bytes(fitted), "it").value
    q, X = np.array([0.1, 0.5, 0.9]), splits.test.X
    for models in ((FittedModel(loaded_parent), FittedModel(fitted)), (loaded, fitted_model)):
        distribution, expected = (
            model.predict_outputs(["distribution"], X)["distribution"] for model in models
        )
        np.testing.assert_array_equal(distribution.ppf(q), expected.ppf(q))
        np.testing.assert_array_equal(distribution.mean(), expected.mean())
    assert loaded.summary() == fitted_model.summary()


PREDICT_IN_NEW_PROCESS = """
import sys
from pathlib import Path
import numpy as np
from kdgraph.persistence import load
for path in sorted(Path(sys.argv[1]).glob("calibrated_*.kdg")):
    expected = np.load(path.with_suffix(".npz"))
    is_equal = np.array_equal(load(path).predict_proba(expected["X"]), expected["proba"])
    print(path.stem.removeprefix("calibrated_"), is_equal, "torch" in sys.modules)
"""


def test_new_process_predicts_equal_bits(tmp_path):
    """The parent is read from the same folder; a forest is loaded without torch."""
    for name, calibrator_name in (("mlp", "kdn"), ("lenet", "kdn"), ("random_forest", "kdf")):
        fitted, splits = fitted_parent(name)
        fitted_model = calibrate(
            {
                "calibrator": config_node("calibrator", calibrator_name),
                "gate": config_node("gate", "density"),
            },
            fitted,
            splits,
            seed=0,
            n_jobs=1,
        )
        save(fitted, tmp_path / f"{name}.kdg")
        (tmp_path / f"calibrated_{calibrator_name}_{name}.kdg").write_bytes(
            to_bytes(fitted_model, {name: fitted})
        )
        proba = fitted_model.predict_proba(splits.test.X)
        np.savez(
            tmp_path / f"calibrated_{calibrator_name}_{name}.npz", X=splits.test.X, proba=proba
        )
    process = subprocess.run(
        [sys.executable, "-c", PREDICT_IN_NEW_PROCESS, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.splitlines() == [
        "kdf_random_forest True False",
        "kdn_lenet True True",
        "kdn_mlp True True",
    ], process.stderr
