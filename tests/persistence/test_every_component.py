"""Whatever conf/ can compose is written and read again: the same predictions to the bit, in this
process and in a fresh one.
"""

from __future__ import annotations

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
from kdgraph.components import build, target_of
from kdgraph.config import conf_dir, plan
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.persistence import from_bytes, save, to_bytes
from kdgraph.runner.stages import calibrate, fit

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "sklearn.ensemble": {"n_estimators": 5},
    "MultilayerPerceptron": {"hidden": [8, 8], "max_epochs": 2},
    "ConvolutionalNetwork": {"max_epochs": 1},
    "ResidualNetwork": {"depth": 8, "width": 4, "max_epochs": 1},
    "EncoderNetwork": {"hidden": [8], "embedding_size": 4, "max_epochs": 1},
    "PrecomputedScores": {},
    "LatentClassifier": {
        "encoder": {
            "_target_": "kdgraph.parents.networks.ConvolutionalAutoencoder",
            "max_epochs": 1,
        },
        "classifier": {"_target_": "sklearn.ensemble.ExtraTreesClassifier", "n_estimators": 5},
    },
}
"""Values that make a parent small, by a word of its class."""
SMALL_REGRESSORS: dict[str, dict[str, Any]] = {
    "networks": {"hidden": [8, 8], "max_epochs": 2},
    "NearestNeighbourRegressor": {"k": 20},
}
"""Likewise."""


def options(group: str) -> list[str]:
    """``paper/p1/trunk``, … of a group."""
    files = sorted((conf_dir() / group).rglob("[!_]*.yaml"))
    return [path.relative_to(conf_dir() / group).with_suffix("").as_posix() for path in files]


def regresses(name: str) -> bool:
    """Whether a parent is for regression; a file that is built on another has its class from
    there.
    """
    node = yaml.safe_load((conf_dir() / "parent" / f"{name}.yaml").read_text())
    if "_target_" in node:
        return hasattr(target_of(node), "predict_dist")
    bases = [
        each.removeprefix("/parent/").partition("@")[0]
        for each in node["defaults"]
        if str(each).startswith("/parent/")
    ]
    return any(regresses(base) for base in bases if not base.startswith("_"))


REGRESSORS, RECALIBRATORS = (
    [name for name in options("parent") if regresses(name)],
    options("recalibrator"),
)
FETCHED = ("paper/p1/vit",)
"""Whose weights have to be had from elsewhere."""
PARENTS = [name for name in options("parent") if name not in (*REGRESSORS, *FETCHED)]
CALIBRATORS, GATES = options("calibrator"), options("gate")


@cache
def rows(kind: Literal["vectors", "images", "scores"]) -> Splits:
    """Three classes that overlap; the second role is smaller."""
    rng = np.random.default_rng(0)
    parts = []
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
        parts.append(
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
    return Splits(*parts)


@cache
def parent(name: str) -> tuple[Any, Splits]:
    """The fitted parent and its rows."""
    node = node_of("parent", name)
    node = node | next(values for word, values in SMALL.items() if word in node["_target_"])
    are_images = any(
        word in node["_target_"] for word in ("Convolutional", "Residual", "Encoder", "Latent")
    )
    splits = rows("scores" if name == "scores" else "images" if are_images else "vectors")
    return fit(node, splits.train, seed=0, n_jobs=1), splits


@cache
def node_of(group: str, name: str, *more: str) -> Any:
    """Composed and not checked: the parent is another than the preset's."""
    return OmegaConf.to_container(plan([f"{group}={name}", *more]).base[group], resolve=True)


def combined() -> list[tuple[str, str]]:
    """Every parent with its own graph and as it is; every calibrator behind a forest or a network,
    whichever it reads.
    """
    network = [
        name
        for name in CALIBRATORS
        if name in ("kdn", "best_on_network", "mmce", "oe", "ceda", "acet", "acet_quick", "odin")
    ]
    graphs = [
        (name, "kdf" if name in ("random_forest", "extra_trees", "extra_trees_latent") else "kdn")
        for name in PARENTS
        if name != "scores"
    ]
    return sorted(
        {
            *graphs,
            *((name, "none") for name in PARENTS),
            *(("mlp" if c in network else "random_forest", c) for c in CALIBRATORS),
        }
    )


def gates_of(parent_name: str, calibrator_name: str) -> list[str]:
    """All of them of four models: what a gate stands on is fitted again for each. Else none and,
    where something calibrates, one other, each in its turn: behind a parent as it is there is the
    same gate as behind its graph.
    """
    are_images = parent(parent_name)[1].train.are_images
    gates = [
        name for name in GATES if not (are_images and node_of("gate", name).get("partition"))
    ]  # a forest of vectors
    if (parent_name, calibrator_name) in {
        ("random_forest", "none"),
        ("random_forest", "kdf"),
        ("mlp", "kdn"),
        ("cnn", "none"),
    }:
        return gates
    if calibrator_name == "none":
        return ["none"]
    others = [name for name in gates if name != "none"]
    return ["none", others[combined().index((parent_name, calibrator_name)) % len(others)]]


@pytest.mark.parametrize(
    ("parent_name", "calibrator_name"), combined(), ids=map("-".join, combined())
)
@pytest.mark.filterwarnings(
    "ignore:.*the confidence there"
)  # of a class whose few rows are all right
def test_loaded_classifier_predicts_equal_bits(parent_name, calibrator_name):
    fitted, splits = parent(parent_name)
    node = node_of("calibrator", calibrator_name)
    node = {**node, "folds": 2} if "folds" in node else node
    protocol = (
        "paper" if calibrator_name == "lore_tsne" else "held_out"
    )  # it knows no rows but those that it was fitted with
    part = None if node["_target_"] is None else build(node, estimator=fitted)
    carries = part is None or (
        hasattr(part, "predict_proba") and not getattr(part, "takes_groups", False)
    )  # what a gate stands on
    for gate_name in (
        gates_of(parent_name, calibrator_name) if carries and parent_name != "scores" else ["none"]
    ):
        nodes = {"calibrator": node, "gate": node_of("gate", gate_name)}
        unseeded = np.random.mtrand._rand.get_state()[1:3]
        fitted_model = calibrate(nodes, fitted, splits, protocol=protocol, seed=0, n_jobs=1)
        for before, after in zip(unseeded, np.random.mtrand._rand.get_state()[1:3], strict=True):
            np.testing.assert_array_equal(before, after, err_msg="something drew from no seed")
        loaded = from_bytes(
            to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}
        ).value
        answers = ["proba", "top_label"] if fitted_model.supports("proba") else ["top_label"]
        outputs, expected = (
            model.predict_outputs(answers, splits.test.X, splits.test.groups)
            for model in (loaded, fitted_model)
        )
        np.testing.assert_array_equal(
            outputs["top_label"].confidence, expected["top_label"].confidence
        )
        if "proba" in answers:
            np.testing.assert_array_equal(outputs["proba"], expected["proba"])
        assert loaded.parent is fitted and loaded.summary() == fitted_model.summary()
        assert all(
            part.estimator.estimator in (fitted, loaded.post_hoc.get("calibrator"))
            for part in loaded.post_hoc.values()
        )


@pytest.mark.parametrize("name", PARENTS)
def test_loaded_parent_predicts_equal_bits_and_can_be_cloned(name):
    fitted, splits = parent(name)
    loaded = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(
        loaded.predict_proba(splits.test.X), fitted.predict_proba(splits.test.X)
    )
    assert loaded is not fitted and vars(clone(loaded)).keys() == vars(clone(fitted)).keys()
    assert clone(loaded).get_params().keys() == fitted.get_params().keys()


def recalibrated() -> list[tuple[str, str]]:
    """Everything behind a line, and behind every other parent local recalibration and one more,
    each in its turn.
    """
    turns = {
        name: {"local_pit", RECALIBRATORS[i % len(RECALIBRATORS)]}
        for i, name in enumerate(REGRESSORS)
    }
    return [
        (name, after)
        for name, some in turns.items()
        for after in sorted(RECALIBRATORS if name == "linear" else some)
    ]


@pytest.mark.parametrize(
    ("name", "recalibrator_name"), recalibrated(), ids=map("-".join, recalibrated())
)
def test_loaded_regressor_predicts_equal_bits(name, recalibrator_name):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) for n in (60, 40, 30)]
    train, calibration, test = (
        Dataset(
            "rows",
            X,
            np.exp(X[:, 0] + rng.normal(size=len(X))),
            np.empty(0),
            ("a", "b", "c"),
            "regression",
        )
        for X in parts
    )
    splits = Splits(train, calibration, test)
    node = node_of("parent", name, "dataset=heteroscedastic")
    node = node | next(
        (values for word, values in SMALL_REGRESSORS.items() if word in node["_target_"]), {}
    )
    fitted = fit(node, splits.train, seed=0, n_jobs=1)
    node = node_of("recalibrator", recalibrator_name, "dataset=heteroscedastic")
    fitted_model = calibrate({"recalibrator": node}, fitted, splits, seed=0, n_jobs=1)
    loaded = from_bytes(to_bytes(fitted_model, {"parent": fitted}), "it", {"parent": fitted}).value
    alone = from_bytes(to_bytes(fitted), "it").value
    q, X = np.array([0.1, 0.5, 0.9]), splits.test.X
    for a, b in ((FittedModel(alone), FittedModel(fitted)), (loaded, fitted_model)):
        outputs, expected = (
            model.predict_outputs(["distribution"], X)["distribution"] for model in (a, b)
        )
        np.testing.assert_array_equal(outputs.ppf(q), expected.ppf(q))
        np.testing.assert_array_equal(outputs.mean(), expected.mean())
    assert loaded.summary() == fitted_model.summary()


FRESH = """
import sys
from pathlib import Path
import numpy as np
from kdgraph.persistence import load
for path in sorted(Path(sys.argv[1]).glob("calibrated_*.kdg")):
    rows = np.load(path.with_suffix(".npz"))
    same = np.array_equal(load(path).predict_proba(rows["X"]), rows["proba"])
    print(path.stem.removeprefix("calibrated_"), same, "torch" in sys.modules)
"""


def test_a_fresh_process_predicts_the_same_to_the_bit(tmp_path):
    """The parent is found beside the file; a forest needs no torch."""
    for name, calibrator_name in (("mlp", "kdn"), ("lenet", "kdn"), ("random_forest", "kdf")):
        fitted, splits = parent(name)
        fitted_model = calibrate(
            {
                "calibrator": node_of("calibrator", calibrator_name),
                "gate": node_of("gate", "density"),
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
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.splitlines() == [
        "kdf_random_forest True False",
        "kdn_lenet True True",
        "kdn_mlp True True",
    ], done.stderr
