"""Which parts are compatible: one line, exit code 2, before anything is drawn, read or fitted; and
what depends on data, in its stage.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier

from kdgraph.calibration import Uncalibrated
from kdgraph.config import compose, plan
from kdgraph.config.compatibility import (
    check_rows,
    check_upstream,
    falls_back_to_prior,
    takes,
    task_of,
)
from kdgraph.config.components import build
from kdgraph.config.models import upstream_of
from kdgraph.data.dataset import Dataset
from kdgraph.data.simulations import Heteroscedastic, Spiral
from kdgraph.data.tables import SklearnTable
from kdgraph.errors import ConfigError
from kdgraph.parents.networks import MultilayerPerceptron

NO_CLASSIFIER = (
    "dataset=heteroscedastic is for regression, and parent=random_forest is a classifier; choose a"
    " data set with classes, or what is for regression: method=local_pit"
)
REFUSED = {
    "a classifier on a regression": (["dataset=heteroscedastic", "method=kdf"], NO_CLASSIFIER),
    "the same in one run of a sweep": (
        ["-m", "dataset=spiral,heteroscedastic", "method=kdf", "metrics=default"],
        NO_CLASSIFIER,
    ),
    "a regressor on classes": (
        ["method=global_pit"],
        (
            "dataset=spiral has classes, and parent=linear is for regression; choose another, such"
            " as parent=random_forest"
        ),
    ),
    "a calibrator on a regressor": (
        ["dataset=heteroscedastic", "calibrator=kdf"],
        (
            "calibrator=kdf needs class probabilities, and parent=linear predicts none; choose"
            " calibrator=none, or what is for regression: method=linear parent=linear"
        ),
    ),
    "a gate on a regressor": (
        ["dataset=heteroscedastic", "gate=density"],
        "gate=density needs class probabilities, and parent=linear predicts none; choose gate=none",
    ),
    "a gate around a confidence": (
        ["calibrator=histogram", "gate=density"],
        (
            "gate=density needs class probabilities, and calibrator=histogram predicts none; choose"
            " gate=none, or calibrator.fill_proba=true"
        ),
    ),
    "a gate around a calibrator with groups": (
        ["calibrator=group_temperature", "gate=density"],
        (
            "calibrator=group_temperature needs the group of each row, and gate=density"
            " does not pass it on; choose gate=none, or a calibrator that treats no group apart:"
            " calibrator=isotonic"
        ),
    ),
    "a network's calibrator on a forest": (
        ["method=kdf", "calibrator=kdn"],
        (
            "calibrator=kdn needs the partition of a network, and parent=random_forest is a forest; choose"
            " parent=mlp"
        ),
    ),
    "a forest's detector on a network": (
        ["method=tood", "parent=mlp"],
        (
            "detector=tood needs the partition of trees, and parent=mlp is a network; choose"
            " parent=random_forest or parent=hist_gradient_boosting"
        ),
    ),
    "a forest's detector on boosted trees": (
        ["detector=score_ensemble", "parent=hist_gradient_boosting"],
        (
            "detector=score_ensemble needs the partition of a forest, and"
            " parent=hist_gradient_boosting is boosted trees; choose parent=random_forest"
        ),
    ),
    "t-SNE where test rows are held out": (
        ["method=lore_tsne", "protocol=strict", "ood=none", "metrics=top_label"],
        (
            "calibrator=lore_tsne embeds the rows to predict together with those it is fitted on,"
            " so it sees test rows; set protocol=paper, or choose another map:"
            " calibrator.features.reduce=pca"
        ),
    ),
    "t-SNE and rows out of distribution": (
        ["method=lore_tsne", "protocol=paper", "metrics=top_label", "ood=sphere"],
        (
            "calibrator=lore_tsne predicts no rows that were not embedded with the calibration"
            " rows, such as those out of distribution or on a grid; choose ood=none"
        ),
    ),
    "t-SNE and a grid": (
        ["method=lore_tsne", "protocol=paper", "metrics=paper_grid", "ood=none"],
        (
            "calibrator=lore_tsne predicts no rows that were not embedded with the calibration"
            " rows, such as those out of distribution or on a grid; choose metrics=top_label"
        ),
    ),
    "a method whose paper fits nothing on test rows": (
        ["method=tood", "protocol=paper"],
        (
            "protocol=paper fits components on test or OOD rows where their paper does, and that of"
            " detector=tood does not; leave protocol=strict"
        ),
    ),
    "a recalibrator on a classifier": (
        ["dataset=iris", "method=none", "recalibrator=global_pit"],
        (
            "recalibrator=global_pit needs predictive distributions, and parent=random_forest predicts"
            " none; choose recalibrator=none"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_incompatible_parts_are_refused_before_any_stage(case, kdg, tmp_path):
    arguments, sentence = REFUSED[case]
    assert kdg("run", *arguments) == (2, "", f"kdg: {sentence}\n")
    assert not list(tmp_path.iterdir())


def test_parts_wrap_the_parent_and_the_gate_the_calibrator():
    run = plan(["method=gated_isotonic", "detector=tood"]).jobs[0].config.components
    assert list(run.after) == ["calibrator", "gate", "detector"]
    below = [component.estimator for component in run.after.values()]
    assert below == [run.parent, run.after["calibrator"], run.parent]
    assert upstream_of("gate", run.parent, {}) == ("parent", run.parent)
    assert not hasattr(run.parent, "classes_")


def forest(n_estimators: int = 5) -> RandomForestClassifier:
    raise AssertionError("made before the run needs it")


def test_parent_function_is_not_called_before_the_run():
    made = {"name": "made", "_target_": f"{__name__}.forest"}
    run = replace(plan([]).jobs[0].config, parent=made).components
    assert run.parent is None and run.model is None
    assert list(run.after) == ["calibrator"]


class Known:
    """A table that declares its task."""

    name = "known"
    task = "regression"


def test_a_source_declares_the_kind_of_its_rows_where_it_can():
    class Unknown(Known):
        task = "auto"

    sources = (Spiral(), Heteroscedastic(), Known(), Unknown(), SklearnTable("iris"))
    assert [task_of(source) for source in sources] == [
        "classification",
        "regression",
        "regression",
        None,
        None,
    ]


def rows(has_scores: bool = False, task: str = "classification") -> Dataset:
    return Dataset(
        "custom", np.eye(2), np.arange(2), np.arange(2), ("a", "b"), task, has_scores=has_scores
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parent", "train", "sentence"),
    [
        (
            "random_forest",
            rows(task="regression"),
            (
                "dataset=custom is for regression, and parent=random_forest is a classifier; choose a"
                " data set with classes, or what is for regression: method=local_pit"
            ),
        ),
        (
            "random_forest",
            replace(rows(task="regression"), facts={"whole_values": 1234}),
            (
                "dataset=custom is for regression, and parent=random_forest is a classifier;"
                " dataset.task=classification takes its 1,234 whole numbers as classes; else choose"
                " a data set with classes, or what is for regression: method=local_pit"
            ),
        ),
        (
            "random_forest",
            rows(has_scores=True),
            "dataset=custom has class scores and nothing to train on; choose parent=scores",
        ),
        (
            "scores",
            rows(),
            (
                "dataset=custom has rows to train on, and parent=scores trains nothing; choose"
                " parent=random_forest"
            ),
        ),
    ],
)
def test_incompatible_rows_are_refused_once_they_are_loaded(parent, train, sentence):
    node = plan([f"parent={parent}"]).jobs[0].config.parent
    with pytest.raises(ConfigError) as caught:
        check_rows(parent, build(node), train)
    assert str(caught.value) == sentence


def test_a_part_may_require_a_method_without_a_description():
    class Energy(Uncalibrated):
        required_method = "predict_logits"

    with pytest.raises(ConfigError) as caught:
        check_upstream(
            "detector",
            "energy",
            Energy(None),
            RandomForestClassifier(),
            "parent=random_forest",
        )
    assert (
        str(caught.value)
        == "detector=energy needs predict_logits, and parent=random_forest predicts none; choose"
        " detector=none"
    )


class WithoutTags:
    """A classifier without the tags of scikit-learn."""


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        (MultilayerPerceptron(), True),
        (DummyClassifier(), True),
        (WithoutTags(), True),
        (RandomForestClassifier(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tags_of_a_parent_declare_whether_it_takes_images(parent, expected):
    assert takes(parent, "three_d_array") == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["method=kdf"], True),
        (["method=kdf_paper"], True),
        (["method=kdn_reference"], True),
        (["method=gated_isotonic"], True),
        (["method=kdf", "calibrator.alpha=null"], False),
        (["method=isotonic"], False),
    ],
)
def test_gates_and_graphs_with_a_floor_fall_back_to_the_prior(words, expected):
    assert falls_back_to_prior(compose(["dataset=iris", *words]).components) is expected
