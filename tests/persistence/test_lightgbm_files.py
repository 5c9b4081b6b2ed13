"""Models of LightGBM predict the same bits after they are written again; edited ones are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kdgraph.persistence.lightgbm_files import rewrite_lightgbm

lightgbm = pytest.importorskip("lightgbm", reason="the extra boosting has lightgbm")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
FILLED = np.nan_to_num(X)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    colour=pd.Categorical(RNG.choice(["red", "blue é", "=green"], len(X))),
    month=pd.Categorical(RNG.integers(1, 13, len(X))),
)
BINARY = (FILLED[:, 0] > 0).astype(int)
CLASSES = BINARY + (FILLED[:, 1] > 0.5)
TARGETS = np.abs(FILLED[:, 0] * 2 + CLASSES) + 0.1


def squared_error(predictions: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
    return predictions - data.get_label(), np.ones(len(predictions))


KINDS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "binary": ({"objective": "binary"}, BINARY),
    "categories": ({"objective": "binary"}, (FRAME["colour"] == "red").to_numpy().astype(int)),
    "multiclass": ({"objective": "multiclass", "num_class": 3}, CLASSES),
    "one against all": ({"objective": "multiclassova", "num_class": 3}, CLASSES),
    "cross entropy": ({"objective": "cross_entropy"}, BINARY),
    "regression": ({"objective": "regression"}, TARGETS),
    "square root": ({"objective": "regression", "reg_sqrt": True}, TARGETS),
    "quantile": ({"objective": "quantile", "alpha": 0.3}, TARGETS),
    "relative error": ({"objective": "mape"}, TARGETS),
    "Tweedie": ({"objective": "tweedie"}, TARGETS),
    "DART": ({"objective": "binary", "boosting": "dart"}, BINARY),
    "random forest": (
        {"objective": "binary", "boosting": "rf", "bagging_fraction": 0.6, "bagging_freq": 1},
        BINARY,
    ),
    "GOSS": ({"objective": "binary", "data_sample_strategy": "goss"}, BINARY),
    "linear trees": ({"objective": "regression", "linear_tree": True}, TARGETS),
    "monotone": ({"objective": "regression", "monotone_constraints": [1, 0, 0, 0, 0, 0]}, TARGETS),
    "own objective": ({"objective": squared_error}, TARGETS),
    "single leaves": ({"objective": "binary", "min_data_in_leaf": 400}, BINARY),
}


def rows_of(kind: str) -> pd.DataFrame:
    """Return rows with categories and missing values, which linear trees do not take."""
    return FRAME[list("abcd")].fillna(0) if kind == "linear trees" else FRAME


@cache
def fitted(kind: str) -> Any:
    parameters, y = KINDS[kind]
    common = {"verbosity": -1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1}
    return lightgbm.train(common | parameters, lightgbm.Dataset(rows_of(kind), y), 5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # categories of a forest, and stumps
def test_models_that_are_written_again_predict_the_same_bits(kind, end):
    booster, rows = fitted(kind), rows_of(kind)
    text = rewrite_lightgbm(booster.model_to_string().replace("\n", end))
    again = lightgbm.Booster(model_str=text)
    for options in ({}, {"raw_score": True}, {"pred_leaf": True}):
        np.testing.assert_array_equal(
            again.predict(rows, **options), booster.predict(rows, **options)
        )
    assert again.dump_model()["tree_info"] == booster.dump_model()["tree_info"]
    assert again.pandas_categorical == booster.pandas_categorical
    assert again.feature_name() == booster.feature_name()
    assert rewrite_lightgbm(text) == text


def test_models_of_estimators_predict_the_same_bits():
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(FRAME, CLASSES)
    text = rewrite_lightgbm(model.booster_.model_to_string())
    np.testing.assert_array_equal(
        lightgbm.Booster(model_str=text).predict(FRAME), model.predict_proba(FRAME)
    )


def test_parameters_that_name_files_and_machines_are_left_out():
    text = fitted("binary").model_to_string()
    text_with_names = text.replace("[data: ]", "[data: /etc/passwd]").replace(
        "[machines: ]", "[machines: 10.0.0.1:80]"
    )
    assert text_with_names.count("passwd") == text_with_names.count("10.0.0.1") == 1
    again = lightgbm.Booster(model_str=rewrite_lightgbm(text_with_names))
    assert again.params["objective"] == "binary" and again.params["num_leaves"] == 7
    names = {"data", "valid", "machines", "machine_list_filename", "forcedsplits_filename"}
    assert not names & again.params.keys()


def edit(pattern: str, replacement: str, kind: str = "binary") -> str:
    text = fitted(kind).model_to_string()
    edited, n_changes = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert n_changes == 1 and edited != text
    return edited


def hidden(separator: str) -> Callable[[], str]:
    """Return a text with a second, good field behind a character that ends a line in Python."""

    def change() -> str:
        good = re.search(r"^split_feature=.*$", fitted("binary").model_to_string(), re.M)
        assert good is not None
        n = len(good[0].split())
        return edit(
            r"^split_feature=.*$",
            f"split_feature={' '.join(['2000000000'] * n)}\nleaf_x=1{separator}{good[0]}",
        )

    return change


def deep_tree() -> str:
    """Return a text with a tree of 600 levels."""
    n = 600
    numbers = {
        "left_child": [*range(1, n), -1],
        "right_child": [*range(-2, -n - 2, -1)],
        "threshold": [0.0] * n,
        "leaf_value": [0.0] * (n + 1),
        "leaf_weight": [1] * (n + 1),
        "leaf_count": [1] * (n + 1),
    }
    zeros = ("split_feature", "split_gain", "decision_type", "internal_value", "internal_weight")
    numbers |= {name: [0] * n for name in (*zeros, "internal_count")}
    lines = [f"{name}={' '.join(map(str, values))}" for name, values in numbers.items()]
    tree = "\n".join(["Tree=0", f"num_leaves={n + 1}", "num_cat=0", *lines, "is_linear=0"])
    return edit(r"^Tree=0(\n.*)*?(?=\n\n\nTree=1)", tree)


EDITS: dict[str, tuple[Callable[[], str], str]] = {
    **{
        f"hidden behind {separator!r}": (hidden(separator), "characters|unknown")
        for separator in "\x0b\x0c\x1c\x85\u2028"
    },
    "entry twice": (
        lambda: edit("^max_feature_idx=5", "max_feature_idx=2147483000\nmax_feature_idx=5"),
        "the entry 'max_feature_idx' is unknown or there twice",
    ),
    "field twice": (lambda: edit("^left_child=", "left_child=0 0\nleft_child="), "there twice"),
    "features": (lambda: edit("^max_feature_idx=5", "max_feature_idx=9"), "than there are features"),
    "no trees in an iteration": (
        lambda: edit("^num_tree_per_iteration=1", "num_tree_per_iteration=0"),
        "another number of classes",
    ),
    "negative trees in an iteration": (
        lambda: edit("^num_tree_per_iteration=1", "num_tree_per_iteration=-1"),
        "another number of classes",
    ),
    "no classes": (lambda: edit("^num_class=1", "num_class=0"), "another number of classes"),
    "huge number": (lambda: edit("^num_class=1", "num_class=99999999999"), "too large"),
    "classes of the objective": (
        lambda: edit("num_class:3", "num_class:9", "multiclass"), "the objective has other classes",
    ),
    "one output of several": (
        lambda: edit("^objective=.*", "objective=binary sigmoid:1", "multiclass"),
        "the objective has one output",
    ),
    "incomplete iteration": (
        lambda: edit(r"^Tree=14\n(.*\n)*?\n\n(?=end of trees)", "", "multiclass").replace(
            "tree_sizes=", "tree_sizes=", 1
        ),
        "more or fewer trees|lacks trees",
    ),
    "trees without an end": (lambda: edit("^end of trees", "end"), "no end"),
    "other first line": (lambda: edit("^tree$", "plant"), "no model of trees"),
    "unknown entry": (lambda: edit("^label_index", "label_indices"), "unknown"),
    "unknown field": (lambda: edit("^leaf_weight", "leaf_heights"), "unknown"),
    "missing field": (lambda: edit(r"^left_child=.*\n", ""), "missing"),
    "length": (lambda: edit("^left_child=", "left_child=1 "), "different lengths"),
    "child": (lambda: edit(r"^left_child=\d+", "left_child=90"), "leads nowhere"),
    "leaf": (lambda: edit("^(left_child=.*?)-1", r"\g<1>-99"), "leads nowhere"),
    "shared leaf": (lambda: edit("^(left_child=.*?)-1", r"\g<1>-2"), "leads nowhere"),
    "feature": (lambda: edit(r"^split_feature=\d", "split_feature=7"), "does not exist"),
    "negative feature": (lambda: edit(r"^split_feature=\d", "split_feature=-1"), "does not exist"),
    "word for a number": (lambda: edit(r"^threshold=\S+", "threshold=x"), "no number"),
    "infinite leaf": (lambda: edit(r"^leaf_value=\S+", "leaf_value=inf"), "no number"),
    "leaf beyond double precision": (
        lambda: edit(r"^leaf_value=\S+", "leaf_value=1e999"), "not finite",
    ),
    "digits of another script": (lambda: edit("^num_leaves=7", "num_leaves=٧"), "no number"),
    "sets of categories": (
        lambda: edit("^num_cat=[1-9]", "num_cat=0", "categories"), "categories that are not there",
    ),
    "feature of a linear leaf": (
        lambda: edit(r"^leaf_features=( *)\d", r"leaf_features=\g<1>9", "linear trees"),
        "a leaf depends on a feature that does not exist",
    ),
    "parameter": (lambda: edit(r"^\[num_leaves: ", "[\n"), "a parameter has no value"),
    "parameters without an end": (lambda: edit("^end of parameters", ""), "have no end"),
    "categories": (
        lambda: edit("^pandas_categorical:.*", 'pandas_categorical:{"a": 1}'), "another form",
    ),
    "depth": (deep_tree, "more than 500 levels"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_models_are_refused(name):
    change, message = EDITS[name]
    with pytest.raises(ValueError, match=message):
        rewrite_lightgbm(change())
