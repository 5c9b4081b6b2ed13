"""Model files whose trees of XGBoost or LightGBM are edited are refused in one line.

The compiled code of these libraries ends the process where it predicts with such trees, reads
memory that is not its own, or never returns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kdgraph.parents import BoostedTreesClassifier
from kdgraph.persistence import DamagedFileError, boosters, from_bytes, to_bytes
from kdgraph.persistence.tree_files import (
    decode_ubjson,
    problem_of_lightgbm_trees,
    problem_of_tree,
    problem_of_xgboost_trees,
    xgboost_document,
)
from tests.parents.test_boosting import library_model, table

X, Y = table(400)
MISSING = "{} is not installed; the extra boosting has it"


def refusal(
    name: str, change: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch, model: Any
) -> str:
    """Return the message for a file of the model, whose booster is written with a change."""
    [key] = [key for key, codec in boosters.CODECS.items() if codec.tag == name]
    codec = boosters.CODECS[key]

    def changed_parts(booster: Any) -> tuple[Any, ...]:
        memory, *others = codec.to_parts(booster)
        return np.frombuffer(change(memory.tobytes()), np.uint8), *others

    monkeypatch.setitem(boosters.CODECS, key, replace(codec, to_parts=changed_parts))
    content = to_bytes(model)
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(content, "model.kdg")
    message = str(caught.value)
    assert "\n" not in message
    return message


def fitted(name: str) -> BoostedTreesClassifier:
    model = BoostedTreesClassifier(library_model(name, 4), categorical=[1], random_state=0)
    return model.fit(X, Y)


def set_entry(name: str, value: Any, node: int = 0) -> Callable[[dict[str, Any]], None]:
    """Return a change of an array of the first tree of XGBoost."""

    def change(learner: dict[str, Any]) -> None:
        learner["gradient_booster"]["model"]["trees"][0][name][node] = value

    return change


def first_leaf(learner: dict[str, Any]) -> None:
    tree = learner["gradient_booster"]["model"]["trees"][0]
    tree["left_children"][tree["left_children"].index(-1)] = -5


def drop_entry(learner: dict[str, Any]) -> None:
    del learner["gradient_booster"]["model"]["trees"][0]["right_children"][-1]


def no_sets(learner: dict[str, Any]) -> None:
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["categories"] = []


def huge_category(learner: dict[str, Any]) -> None:
    for tree in learner["gradient_booster"]["model"]["trees"]:
        tree["categories"] = [2**31 - 1] * len(tree["categories"])


XGBOOST_CHANGES = {
    "child after the last node": (set_entry("left_children", 10**6), "a node leads nowhere"),
    "cycle": (set_entry("left_children", 0), "a node leads nowhere"),
    "one child": (set_entry("left_children", -1), "a node has one child"),
    "other sign of a leaf": (first_leaf, "a node has one child|a node leads nowhere"),
    "other length": (drop_entry, "arrays of different lengths"),
    "feature": (set_entry("split_indices", 4), "a node splits on a feature that does not exist"),
    "negative feature": (
        set_entry("split_indices", -7),
        "a node splits on a feature that does not exist",
    ),
    "parent": (
        set_entry("parents", 0, node=3),
        "a node has another parent than the one that leads to it",
    ),
    "sets": (no_sets, "a node splits on categories that are not there"),
    "huge category": (huge_category, "a node splits on categories that are not there"),
    "class": (
        lambda learner: learner["gradient_booster"]["model"]["tree_info"].__setitem__(0, 9),
        "a tree belongs to no class",
    ),
    "iteration": (
        lambda learner: learner["gradient_booster"]["model"]["iteration_indptr"].append(99),
        "an iteration has trees that are not there",
    ),
    "no trees": (
        lambda learner: learner["gradient_booster"]["model"]["trees"][0].clear(),
        "parts of it are missing",
    ),
}


@pytest.mark.parametrize("change", XGBOOST_CHANGES)
def test_edited_trees_of_xgboost_are_refused(change, monkeypatch):
    edit, problem = XGBOOST_CHANGES[change]
    model = fitted("xgboost")

    def edited(memory: bytes) -> bytes:
        xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
        booster = xgboost.Booster()
        booster.load_model(bytearray(memory))
        document = json.loads(bytes(booster.save_raw("json")))
        edit(document["learner"])
        return json.dumps(document).encode()

    message = refusal("xgboost", edited, monkeypatch, model)
    assert re.fullmatch(
        r"model.kdg is damaged \(ValueError: the model of XGBoost in it cannot be read:"
        rf" ({problem}); save the fitted model again\)",
        message,
    )


LIGHTGBM_CHANGES = {
    "child": (r"(left_child=.*?)-\d\d", r"\g<1>-99", "a node leads nowhere"),
    "feature": (
        r"split_feature=\d",
        "split_feature=7",
        "a node splits on a feature that does not exist",
    ),
    "length": (
        r"left_child=",
        "left_child=10000",
        "its parts have other lengths than its header lists",
    ),
    "sets": (
        r"num_cat=[1-9]",
        "num_cat=0",
        "a node splits on categories that are not there",
    ),
    "end": (r"(?s)end of trees.*", "", "it has no trees, or no end"),
    "parameter": (r"\[num_leaves: ", "[\n", "a parameter has no value"),
    "number": (r"threshold=\S", "threshold=x", "could not convert string to float.*"),
}


@pytest.mark.parametrize("change", LIGHTGBM_CHANGES)
def test_edited_trees_of_lightgbm_are_refused(change, monkeypatch):
    pattern, replacement, problem = LIGHTGBM_CHANGES[change]

    def edited(memory: bytes) -> bytes:
        text, n_changes = re.subn(pattern, replacement, memory.decode(), count=1)
        assert n_changes == 1
        return text.encode()

    message = refusal("lightgbm", edited, monkeypatch, fitted("lightgbm"))
    assert re.fullmatch(
        r"model.kdg is damaged \(ValueError: the model of LightGBM in it cannot be read:"
        rf" ({problem}); save the fitted model again\)",
        message,
    )


def test_trees_that_the_libraries_grow_have_no_problem():
    """Several targets, several outputs of a tree, sets of categories, and linear leaves."""
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    lightgbm = pytest.importorskip("lightgbm", reason=MISSING.format("lightgbm"))
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) % 2
    kinds: dict[str, Any] = {"feature_types": ["q", "c", "q", "q"], "enable_categorical": True}
    quantiles = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]}
    for model, outcomes in (
        (xgboost.XGBRegressor(n_estimators=3, **quantiles, **kinds), y),
        (xgboost.XGBRegressor(n_estimators=3, multi_strategy="multi_output_tree"), np.c_[y, -y]),
        (xgboost.XGBRegressor(n_estimators=3, booster="dart"), y),
        (xgboost.XGBClassifier(n_estimators=3), (y > 0).astype(int) + (y > 1)),
    ):
        raw = bytes(model.fit(X, outcomes).get_booster().save_raw("ubj"))
        assert problem_of_xgboost_trees(xgboost_document(raw)["learner"]) is None
    for linear_tree in (False, True):
        model = lightgbm.LGBMRegressor(n_estimators=3, linear_tree=linear_tree, verbose=-1)
        text = model.fit(np.nan_to_num(X), y, categorical_feature=[1]).booster_.model_to_string()
        assert ("is_linear=1" in text) == linear_tree
        assert problem_of_lightgbm_trees(text) is None
    assert re.search(r"leaf_features=.*\d", text)
    wrong_feature = re.sub(r"leaf_features=( *)\d", r"leaf_features=\g<1>9", text)
    assert wrong_feature != text
    assert problem_of_lightgbm_trees(wrong_feature) == (
        "a leaf depends on a feature that does not exist"
    )


def test_ubjson_has_the_values_of_json():
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    booster = xgboost.XGBClassifier(n_estimators=2).fit(X, Y == "yes").get_booster()
    binary = decode_ubjson(bytes(booster.save_raw("ubj")))
    text = json.loads(bytes(booster.save_raw("json")))

    def compare(a: Any, b: Any) -> None:
        if isinstance(b, dict):
            assert a.keys() == b.keys()
            for key in b:
                compare(a[key], b[key])
        elif isinstance(b, list) and b and not isinstance(b[0], int | float):
            for first, second in zip(a, b, strict=True):
                compare(first, second)
        else:
            # The text has as many digits as single precision needs.
            np.testing.assert_array_equal(a, np.asarray(b, dtype=np.asarray(a).dtype))

    compare(binary, text)


def test_nodes_of_a_forest_that_split_on_a_negative_feature_lead_nowhere():
    tree = RandomForestClassifier(1, random_state=0).fit(X[:, [0, 3]], Y)[0].tree_
    arrays = tree.children_left, tree.children_right, tree.feature.copy()
    assert problem_of_tree(*arrays, tree.n_features) is None
    arrays[2][0] = -2
    assert problem_of_tree(*arrays, tree.n_features) == (
        "a node splits on a feature that does not exist"
    )
