"""Models of XGBoost predict the same bits after they are written again; edited ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kdgraph.persistence.ubjson import decode_ubjson, encode_ubjson
from kdgraph.persistence.xgboost_files import rewrite_xgboost

xgboost = pytest.importorskip("xgboost", reason="the extra boosting has xgboost")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
FILLED = np.nan_to_num(X)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    colour=pd.Categorical(RNG.choice(["red", "blue é", "green"], len(X))),
    **{
        name: pd.Categorical(RNG.integers(1, 8, len(X)).astype(name))
        for name in ("int8", "uint8", "int16", "int32", "int64")
    },
)
BINARY = ((FILLED[:, 0] > 0) ^ (FRAME["colour"] == "red")).to_numpy().astype(int)
CLASSES = BINARY + (FILLED[:, 1] > 0.5)
TARGETS = np.abs(FILLED[:, 0] * 2 + CLASSES) + 0.1
TWO = np.c_[TARGETS, -TARGETS]
LEVELS = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}
KINDS: dict[str, tuple[str, dict[str, Any], Any, np.ndarray]] = {
    "binary": ("XGBClassifier", {}, X, BINARY),
    "categories": ("XGBClassifier", {"enable_categorical": True}, FRAME, BINARY),
    "multiclass": ("XGBClassifier", {}, X, CLASSES),
    "labels": ("XGBClassifier", {"objective": "multi:softmax"}, X, CLASSES),
    "vector leaves": ("XGBClassifier", {"multi_strategy": "multi_output_tree"}, X, CLASSES),
    "regression": ("XGBRegressor", {}, X, TARGETS),
    "quantiles": ("XGBRegressor", LEVELS, X, TARGETS),
    "two outputs": ("XGBRegressor", {"multi_strategy": "multi_output_tree"}, X, TWO),
    "a tree for each output": ("XGBRegressor", {}, X, TWO),
    "DART": ("XGBClassifier", {"booster": "dart", "rate_drop": 0.3}, X, CLASSES),
    "linear": ("XGBClassifier", {"booster": "gblinear"}, FILLED, CLASSES),
    "forest": ("XGBRFClassifier", {}, X, CLASSES),
    "pruned": ("XGBClassifier", {"tree_method": "exact", "gamma": 2.0}, X, BINARY),
    "counts": ("XGBRegressor", {"objective": "count:poisson"}, X, CLASSES),
    "no rounds": ("XGBRegressor", {"n_estimators": 0}, X, TARGETS),
}


@cache
def fitted(kind: str) -> Any:
    name, parameters, rows, y = KINDS[kind]
    model = getattr(xgboost, name)(**{"n_estimators": 4, "n_jobs": 1} | parameters)
    return model.fit(rows, y).get_booster()


@pytest.mark.parametrize("form", ["json", "ubj"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_that_are_written_again_predict_the_same_bits(kind, form):
    booster = fitted(kind)
    content, _ = rewrite_xgboost(bytes(booster.save_raw(form)))
    again = xgboost.Booster()
    again.load_model(bytearray(content))
    matrix = xgboost.DMatrix(KINDS[kind][2], enable_categorical=True)
    options: list[dict[str, Any]] = [{}, {"output_margin": True}]
    options += [] if kind == "linear" else [{"pred_leaf": True}]
    for option in options:
        np.testing.assert_array_equal(
            again.predict(matrix, **option), booster.predict(matrix, **option)
        )
    # The library writes every array that it has.
    assert bytes(again.save_raw("ubj")) == bytes(booster.save_raw("ubj"))
    assert rewrite_xgboost(content)[0] == content


def test_documents_of_early_versions_are_read():
    """They have no targets, iterations or categories, and truth values for sides."""
    document = json.loads(bytes(fitted("binary").save_raw("json")))
    learner = document["learner"]
    model = learner["gradient_booster"]["model"]
    del learner["learner_model_param"]["num_target"], model["cats"], model["iteration_indptr"]
    learner["learner_model_param"]["base_score"] = "5E-1"
    for tree in model["trees"]:
        tree["default_left"] = [bool(side) for side in tree["default_left"]]
        tree["tree_param"]["size_leaf_vector"] = "0"
        for name in [name for name in tree if name.startswith("categories")]:
            del tree[name]
    booster = xgboost.Booster()
    booster.load_model(bytearray(rewrite_xgboost(json.dumps(document).encode())[0]))
    leaves = [b.predict(xgboost.DMatrix(X), pred_leaf=True) for b in (booster, fitted("binary"))]
    np.testing.assert_array_equal(*leaves)


def in_learner(*keys: Any, value: Any, kind: str = "binary") -> Callable[[], bytes]:
    """Return the content of a model with another value at these keys."""

    def change() -> bytes:
        document = json.loads(bytes(fitted(kind).save_raw("json")))
        parent = document["learner"]
        for key in keys[:-1]:
            parent = parent[key]
        parent[keys[-1]] = value(parent.get(keys[-1])) if callable(value) else value
        return json.dumps(document).encode()

    return change


def in_model(*keys: Any, value: Any, kind: str = "binary") -> Callable[[], bytes]:
    return in_learner("gradient_booster", "model", *keys, value=value, kind=kind)


def in_tree(name: str, value: Any, kind: str = "binary") -> Callable[[], bytes]:
    return in_model("trees", 0, name, value=value, kind=kind)


def first(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [value, *values[1:]]


def first_leaf(value: Any) -> Callable[[list[Any]], list[Any]]:
    """Return a change of the first leaf of left children, -1 in their list."""

    def change(values: list[Any]) -> list[Any]:
        position = values.index(-1)
        return [*values[:position], value, *values[position + 1 :]]

    return change


NAN, INFINITY = float("nan"), float("inf")
EDITS: dict[str, tuple[Callable[[], bytes], str]] = {
    "child after the last node": (in_tree("left_children", first(10**6)), "leads nowhere"),
    "cycle": (in_tree("left_children", first(0)), "leads nowhere"),
    "child of two nodes": (
        in_tree("right_children", lambda values: [values[0] - 1, *values[1:]]), "leads nowhere",
    ),
    "one child": (in_tree("left_children", first(-1)), "a node has one child"),
    "other sign of a leaf": (in_tree("left_children", first_leaf(-5)), "leads nowhere|one child"),
    "length": (in_tree("right_children", lambda values: values[:-1]), "different lengths"),
    "no nodes": (in_tree("tree_param", lambda p: p | {"num_nodes": "0"}), "different lengths"),
    "feature": (in_tree("split_indices", first(4)), "a feature that does not exist"),
    "negative feature": (in_tree("split_indices", first(-7)), "a feature that does not exist"),
    "features of the model": (
        in_learner("learner_model_param", "num_feature", value="1"), "feature that does not exist",
    ),
    "parent": (in_tree("parents", lambda p: [*p[:3], 0, *p[4:]]), "another parent"),
    "side": (in_tree("default_left", first(2)), "decides in an unknown way"),
    "fraction of a node": (in_tree("left_children", first(1.5)), "no whole number"),
    "infinite leaf": (in_tree("split_conditions", lambda c: [INFINITY] * len(c)), "not finite"),
    "leaf without a value": (in_tree("split_conditions", lambda c: [NAN] * len(c)), "not finite"),
    "no sets": (in_tree("categories", [], "categories"), "categories that are not there"),
    "huge category": (
        in_tree("categories", lambda c: [2**31 - 1] * len(c), "categories"),
        "categories that are not there",
    ),
    "order of categories": (
        in_model("cats", "sorted_idx", value=first(99), kind="categories"), "have no order",
    ),
    "ends of categories": (
        in_model("cats", "feature_segments", value=lambda s: [0] * len(s), kind="categories"),
        "other categories",
    ),
    "names of categories": (
        in_model("cats", "enc", 4, "offsets", value=first(9), kind="categories"), "has no name",
    ),
    "class of a tree": (in_model("tree_info", value=first(9)), "a tree belongs to no class"),
    "iteration": (
        in_model("iteration_indptr", value=lambda e: [*e, 99]), "trees that are not there",
    ),
    "number of trees": (
        in_model("gbtree_model_param", "num_trees", value="9"), "another number of trees",
    ),
    "parallel trees": (
        in_model("gbtree_model_param", "num_parallel_tree", value="0"), "fewer trees",
    ),
    "classes": (
        in_learner("learner_model_param", "num_class", value="1000000"), "no trees of some outputs",
    ),
    "classes of the objective": (
        in_learner(
            "objective", "softmax_multiclass_param", "num_class", value="0", kind="multiclass"
        ),
        "the objective has other classes",
    ),
    "targets": (
        in_learner("learner_model_param", "num_target", value="1000000"), "no trees of some",
    ),
    "quantiles": (
        in_learner(
            "objective", "quantile_loss_param", "quantile_alpha", value="[5E-1]", kind="quantiles"
        ),
        "other quantiles",
    ),
    "no base score": (in_learner("learner_model_param", "base_score", value="[]"), "no number"),
    "base score without a value": (
        in_learner("learner_model_param", "base_score", value="nan"), "no number",
    ),
    "base scores": (
        in_learner("learner_model_param", "base_score", value="[1,2,3]"), "base_score has another",
    ),
    "weights of features": (
        in_model("weights", value=lambda w: w[:1], kind="linear"), "another number of weights",
    ),
    "infinite weights": (
        in_model("weights", value=first(INFINITY), kind="linear"), "not finite",
    ),
    "weights of trees": (
        in_learner("gradient_booster", "weight_drop", value=[1.0], kind="DART"),
        "another number of weights",
    ),
    "booster": (in_learner("gradient_booster", "name", value="gbtreee"), "booster is unknown"),
    "names": (in_learner("feature_names", value=["a"]), "another number of names"),
    "types": (in_learner("feature_types", value=["x"] * 4), "unknown type"),
    "best iteration": (
        in_learner("attributes", value={"best_iteration": "x"}), "best_iteration is no whole number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_models_are_refused(name):
    change, message = EDITS[name]
    content = change()
    with pytest.raises(ValueError, match=message):
        rewrite_xgboost(content)


def test_trees_have_the_number_of_their_place():
    """The library puts a tree in the place of its number, and follows the others as empty ones."""
    content = in_tree("id", 2)()
    booster = xgboost.Booster()
    booster.load_model(bytearray(rewrite_xgboost(content)[0]))
    assert bytes(booster.save_raw("ubj")) == bytes(fitted("binary").save_raw("ubj"))


def test_ubjson_has_the_values_of_json():
    booster = fitted("categories")
    binary = decode_ubjson(bytes(booster.save_raw("ubj")))
    text = json.loads(bytes(booster.save_raw("json")))

    def compare(a: Any, b: Any) -> None:
        if isinstance(b, dict):
            assert a.keys() == b.keys()
            for key in b:
                compare(a[key], b[key])
        elif isinstance(b, list) and b and not isinstance(b[0], int | float):
            for first_value, second_value in zip(a, b, strict=True):
                compare(first_value, second_value)
        else:
            # The text has as many digits as single precision needs.
            np.testing.assert_array_equal(a, np.asarray(b, dtype=np.asarray(a).dtype))

    compare(binary, text)


def test_ubjson_that_is_written_has_the_values_that_were_read():
    document = decode_ubjson(bytes(fitted("categories").save_raw("ubj")))
    content = encode_ubjson(document)
    np.testing.assert_equal(decode_ubjson(content), document)
    assert decode_ubjson(encode_ubjson([True, None, 0.5, "é"])) == [True, None, 0.5, "é"]


def test_ubjson_with_a_name_twice_is_refused():
    with pytest.raises(ValueError, match="the name 'a' twice"):
        decode_ubjson(b"{i\x01ai\x07i\x01ai\x08}")
