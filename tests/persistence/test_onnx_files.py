"""Models in ONNX name no other files and no other operators, wherever it stands in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kdgraph.persistence import LoadError, UntrustedFileError
from kdgraph.persistence.onnx_files import rewrite_onnx

onnx = pytest.importorskip("onnx", reason="the extra onnx has it")
helper = onnx.helper
FLOAT = onnx.TensorProto.FLOAT


def weights(*, external: bool) -> Any:
    tensor = helper.make_tensor("weights", FLOAT, [3, 2], np.zeros(6))
    if external:
        tensor.ClearField("float_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../../secret")
    return tensor


def graph_of(nodes: list[Any], initializers: list[Any], **parts: Any) -> Any:
    return helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("rows", FLOAT, [None, 3])],
        [helper.make_tensor_value_info("logits", FLOAT, [None, 2])],
        initializers,
        **parts,
    )


def product() -> Any:
    return helper.make_node("MatMul", ["rows", "weights"], ["logits"])


def constant(tensor: Any) -> Any:
    return helper.make_node("Constant", [], ["weights"], value=tensor)


def in_initializer(tensor: Any) -> Any:
    return helper.make_model(graph_of([product()], [tensor]))


def in_attribute(tensor: Any) -> Any:
    return helper.make_model(graph_of([constant(tensor), product()], []))


def in_function(tensor: Any) -> Any:
    function = helper.make_function(
        "own", "linear", ["rows"], ["logits"], [constant(tensor), product()],
        [helper.make_opsetid("", 20)],
    )  # fmt: skip
    node = helper.make_node("linear", ["rows"], ["logits"], domain="own")
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(graph_of([node], []), functions=[function], opset_imports=imports)


def in_inner_graph(tensor: Any) -> Any:
    output = [helper.make_tensor_value_info("weights", FLOAT, [3, 2])]
    branch = helper.make_graph([constant(tensor)], "branch", [], output)
    condition = helper.make_node(
        "Constant", [], ["condition"], value=helper.make_tensor("c", onnx.TensorProto.BOOL, [], [1])
    )
    choice = helper.make_node(
        "If", ["condition"], ["weights"], then_branch=branch, else_branch=branch
    )
    return helper.make_model(graph_of([condition, choice, product()], []))


def in_sparse_initializer(tensor: Any) -> Any:
    indices = helper.make_tensor("places", onnx.TensorProto.INT64, [6], np.arange(6))
    sparse = helper.make_sparse_tensor(tensor, indices, [3, 2])
    return helper.make_model(graph_of([product()], [], sparse_initializer=[sparse]))


def in_training(tensor: Any) -> Any:
    model = in_initializer(weights(external=False))
    model.training_info.add().algorithm.initializer.append(tensor)
    return model


PLACES: dict[str, Callable[[Any], Any]] = {
    "initializer": in_initializer,
    "attribute": in_attribute,
    "function": in_function,
    "inner graph": in_inner_graph,
    "sparse initializer": in_sparse_initializer,
    "training": in_training,
}


@pytest.mark.parametrize("place", PLACES)
def test_weights_in_other_files_are_found_everywhere(place):
    content, model = rewrite_onnx(PLACES[place](weights(external=False)).SerializeToString())
    assert model.SerializeToString() == content
    with pytest.raises(LoadError, match=r"^keeps weights in other files \(weights\)"):
        rewrite_onnx(PLACES[place](weights(external=True)).SerializeToString(), trust=True)


def test_functions_of_the_model_are_run():
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx has it")
    tensor = helper.make_tensor("weights", FLOAT, [3, 2], np.arange(6))
    model = in_function(tensor)
    model.ir_version = 10
    content, _ = rewrite_onnx(model.SerializeToString())
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    rows = np.eye(3, dtype=np.float32)
    [outputs] = session.run(None, {"rows": rows})
    np.testing.assert_array_equal(outputs, np.arange(6).reshape(3, 2))


def test_operators_of_other_libraries_need_trust():
    node = helper.make_node("EPContext", ["rows"], ["logits"], domain="com.microsoft")
    content = helper.make_model(graph_of([node], [])).SerializeToString()
    with pytest.raises(UntrustedFileError) as caught:
        rewrite_onnx(content)
    assert str(caught.value) == (
        "needs operators that the standard does not define (EPContext of com.microsoft)"
    )
    rewrite_onnx(content, trust=True)


def test_parts_that_are_not_known_are_left_out():
    """Another version of the library may have them."""
    content = in_initializer(weights(external=False)).SerializeToString()
    unknown = b"\xfa\x7f\x03abc"  # field 2047, three bytes
    rewritten, _ = rewrite_onnx(content + unknown)
    assert b"abc" not in rewritten
    assert rewritten == rewrite_onnx(content)[0]


def tree_of(true: list[int], false: list[int], modes: list[str], **more: Any) -> bytes:
    """Return a model of one or more trees, whose nodes have these children."""
    n = len(modes)
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["rows"],
        ["logits"],
        domain="ai.onnx.ml",
        nodes_treeids=more.get("trees", [0] * n),
        nodes_nodeids=more.get("ids", list(range(n))),
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        nodes_modes=modes,
    )
    return helper.make_model(graph_of([node], [])).SerializeToString()


SPLIT, LEAF = "BRANCH_LEQ", "LEAF"


def test_nodes_of_a_tree_do_not_lead_back():
    """onnxruntime would never return."""
    modes = [SPLIT, SPLIT, LEAF, LEAF, LEAF]
    rewrite_onnx(tree_of([1, 2, 0, 0, 0], [4, 3, 0, 0, 0], modes))
    # Two nodes may share a child, and numbers of trees begin anew.
    rewrite_onnx(tree_of([1, 2, 0, 0, 0], [2, 3, 0, 0, 0], modes))
    rewrite_onnx(
        tree_of(
            [1, 0, 0] * 2,
            [2, 0, 0] * 2,
            [SPLIT, LEAF, LEAF] * 2,
            trees=[0, 0, 0, 1, 1, 1],
            ids=[0, 1, 2] * 2,
        )
    )
    for true in ([0, 2, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]):
        with pytest.raises(LoadError, match="leads back"):
            rewrite_onnx(tree_of(true, [4, 3, 0, 0, 0], modes))
    with pytest.raises(LoadError, match="different lengths"):
        rewrite_onnx(tree_of([1, 2], [4, 3, 0, 0, 0], modes))


def test_nodes_of_the_newer_operator_do_not_lead_back():
    def model(true: list[int]) -> bytes:
        node = helper.make_node(
            "TreeEnsemble", ["rows"], ["logits"], domain="ai.onnx.ml",
            nodes_truenodeids=true, nodes_trueleafs=[0, 1],
            nodes_falsenodeids=[0, 1], nodes_falseleafs=[1, 1],
        )  # fmt: skip
        return helper.make_model(graph_of([node], [])).SerializeToString()

    rewrite_onnx(model([1, 0]))
    with pytest.raises(LoadError, match="leads back"):
        rewrite_onnx(model([0, 0]))


def test_forests_that_are_converted_are_read():
    to_onnx = pytest.importorskip("skl2onnx", reason="the extra dev has it").to_onnx
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    for model in (
        RandomForestRegressor(5, random_state=0).fit(X, X[:, 0]),
        GradientBoostingClassifier(n_estimators=3).fit(X, np.arange(200) % 3),
    ):
        content = to_onnx(model, X[:1]).SerializeToString()
        assert rewrite_onnx(content)[0] == content
