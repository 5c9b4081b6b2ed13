"""An ONNX graph in the making, and the dispatch on the kinds of components that it is made of.

Each kind of component or parent has one function that adds its operators: it is registered with
:func:`add_proba`, and that of raw scores with :func:`add_decision`. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import singledispatch
from typing import Any, NoReturn

import numpy as np

from kdgraph.base import PostHoc
from kdgraph.base.frozen import unwrap_frozen
from kdgraph.persistence import SaveError

TREE_DOMAIN = "ai.onnx.ml"
"""Domain of the operators for trees."""
FLOAT32, INT64 = 1, 7
"""Types of onnx.TensorProto, as ``Cast`` takes them."""

_OPSET, _TREE_OPSET, _IR_VERSION = 17, 3, 8
# Name of the rows as the components take them.
_ROWS = "rows"
_EXPORTABLE = (
    "a density gate, score maps, matrix scaling, Dirichlet calibration, linear pools and confidence"
    " by curves or temperatures can be, and forests, trees, histogram gradient boosting and"
    " logistic regression as parents, also behind StandardScaler and SimpleImputer; parent=False"
    " leaves another parent out"
)


class OnnxGraph:
    """ONNX graph in the making; values are named by numbers in the order of their nodes.

    Either the parent is part of the graph, or its outputs are inputs. ``results`` are read by
    several components, by a key of the function that adds them.

    Examples
    --------
    >>> graph = OnnxGraph(with_parent=False)
    >>> graph.input("predict_proba"), graph.input("X"), graph.inputs
    ('predict_proba', 'rows', ['predict_proba', 'X'])
    """

    def __init__(self, with_parent: bool):
        self.with_parent = with_parent
        self.inputs: list[str] = []
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self.results: dict[Any, str] = {}
        self._transformed_rows: str | None = None

    def input(self, name: str) -> str:
        """Return the value of an input, which the graph has from then on."""
        if name not in self.inputs:
            self.inputs.append(name)
        return _ROWS if name == "X" else name

    def rows(self) -> str:
        """Return the rows, Float64[n, d]; within :meth:`behind`, the transformed ones."""
        return self._transformed_rows or self.input("X")

    @contextmanager
    def behind(self, transformers: Any) -> Iterator[None]:
        """Let :meth:`rows` be those behind the transformers of a pipeline, within the block."""
        before = self._transformed_rows
        for transformer in transformers:
            self._transformed_rows = add_transform(transformer, self)
        try:
            yield
        finally:
            self._transformed_rows = before

    def constant(self, values: Any) -> str:
        """Return the name of an array: Float64, Int64, Bool, or text for objects."""
        import onnx

        array = np.array(values, order="C")
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        name = f"constant_{len(self._constants)}"
        tensor = onnx.numpy_helper.from_array(array, name)
        self._constants.append(tensor)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Return the name of the result of an operator."""
        import onnx

        result = f"value_{len(self._nodes)}"
        node = onnx.helper.make_node(operator, list(inputs), [result], **attributes)
        self._nodes.append(node)
        return result

    def smallest(self, matrix: str, count: int) -> str:
        """Return the positions of the smallest numbers of each row in ascending order, Int64."""
        import onnx

        n = self.constant(np.array([count]))
        for kind in ("values", "positions"):
            names = [f"value_{len(self._nodes)}_{part}" for part in ("sorted", "positions")]
            self._nodes.append(
                onnx.helper.make_node("TopK", [matrix, n], names, axis=1, largest=0, sorted=1)
            )
            matrix = names[1] if kind == "values" else names[0]
        return matrix

    def column(self, matrix: str, position: int) -> str:
        """Return a column of a matrix, [n]."""
        return self.add("Gather", matrix, self.constant(np.int64(position)), axis=1)

    def columns(self, *vectors: str) -> str:
        """Return the matrix of some columns, [n, m]."""
        axis = self.constant(np.array([1]))
        return self.add("Concat", *(self.add("Unsqueeze", of, axis) for of in vectors), axis=1)

    def sum(self, matrix: str, *, keep: bool = False) -> str:
        """Return the sums over the last axis, which stays with length 1 if ``keep``."""
        return self.add("ReduceSum", matrix, self.constant(np.array([-1])), keepdims=int(keep))

    def affine(self, values: str, factor: Any, summand: Any = 0.0) -> str:
        """Return ``factor · values + summand``."""
        product = self.add("Mul", values, self.constant(np.asarray(factor, dtype=np.float64)))
        return self.add("Add", product, self.constant(np.asarray(summand, dtype=np.float64)))

    def softmax(self, logits: str) -> str:
        """Return the softmax over classes, Float64[n, K]."""
        return self.add("Softmax", logits, axis=1)

    def to_model(
        self,
        outputs: Mapping[str, str],
        n_features: int | None,
        labels: np.ndarray,
        scaling: Mapping[str, Any] | None,
    ) -> Any:
        """Return the model of onnx with the given outputs, name → value."""
        from onnx import TensorProto, helper

        # The rows have a name of their own in the graph, so that they can be scaled before it.
        if "X" in self.inputs and scaling is not None:
            shift, size = (
                self.constant(np.asarray(scaling[part], dtype=np.float64))
                for part in ("shift", "size")
            )
            first = [
                helper.make_node("Sub", ["X", shift], ["shifted_rows"]),
                helper.make_node("Div", ["shifted_rows", size], [_ROWS]),
            ]
        else:
            first = [helper.make_node("Identity", ["X"], [_ROWS])] if "X" in self.inputs else []
        last = [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        n_classes = len(labels)
        shapes = {
            "X": ["n", n_features or "d"],
            "predict_proba": ["n", n_classes],
            "decision_function": ["n"] if n_classes == 2 else ["n", n_classes],
            "probabilities": ["n", n_classes],
        }
        label_types = {"O": TensorProto.STRING, "i": TensorProto.INT64, "f": TensorProto.DOUBLE}
        values = {
            name: helper.make_tensor_value_info(
                name,
                label_types[labels.dtype.kind] if name == "label" else TensorProto.DOUBLE,
                shapes.get(name, ["n"]),
            )
            for name in (*self.inputs, *outputs)
        }
        graph = helper.make_graph(
            [*first, *self._nodes, *last],
            "kdgraph",
            [values[name] for name in self.inputs],
            [values[name] for name in outputs],
            self._constants,
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(TREE_DOMAIN, _TREE_OPSET)]
        return helper.make_model(
            graph, opset_imports=opsets, producer_name="kdgraph", ir_version=_IR_VERSION
        )


def refuse_export(component: Any, reason: str) -> NoReturn:
    """Raise SaveError about a component without operators in ONNX, "because" of the reason."""
    name = type(component).__name__
    raise SaveError(f"{name} cannot be exported to ONNX, because {reason}; {_EXPORTABLE}")


def proba_of(model: Any, graph: OnnxGraph) -> str:
    """Return the class probabilities of a component or of the parent, Float64[n, K]."""
    model = unwrap_frozen(model)
    if isinstance(model, PostHoc):
        return add_proba(model, graph)
    return parent_output(model, "predict_proba", graph)


def parent_output(parent: Any, method: str, graph: OnnxGraph) -> str:
    """Return what a method of the parent returns, which components of one graph share."""
    parent = unwrap_frozen(parent)
    if isinstance(parent, PostHoc):
        if method != "predict_proba":
            refuse_export(parent, f"another component reads its {method}")
        return add_proba(parent, graph)
    if not graph.with_parent:
        return graph.input(method)
    # A class of others may predict otherwise than the one that it derives from.
    if not type(parent).__module__.startswith("sklearn."):
        refuse_export(parent, "no operators are known for it")
    key = id(parent), method
    if key not in graph.results:
        add = add_proba if method == "predict_proba" else add_decision
        graph.results[key] = add(parent, graph)
    return graph.results[key]


@singledispatch
def add_proba(model: Any, graph: OnnxGraph) -> str:
    """Add the nodes of the class probabilities of a component or a parent, Float64[n, K]."""
    return refuse_export(model, "no operators are known for it")


@singledispatch
def add_decision(parent: Any, graph: OnnxGraph) -> str:
    """Add the nodes of ``decision_function``, Float64[n, K], or Float64[n] of two classes."""
    return refuse_export(parent, "no operators are known for its decision_function")


@singledispatch
def add_transform(transformer: Any, graph: OnnxGraph) -> str:
    """Add the nodes that transform the rows of the graph, Float64[n, d']."""
    return refuse_export(transformer, "no operators are known for it")


def interpolate(score: str, knots: np.ndarray, values: np.ndarray, graph: OnnxGraph) -> str:
    """Return the piecewise linear function through knots, constant beyond them, Float64[n]."""
    knots, values = (np.asarray(array, dtype=np.float64) for array in (knots, values))
    if len(knots) == 1:
        return graph.affine(score, 0.0, values[0])
    score = graph.add("Clip", score, graph.constant(knots[0]), graph.constant(knots[-1]))
    # The position of the last knot that is not above the score, as numpy.interp finds it.
    position = graph.add("Sub", count_below(score, knots, graph), graph.constant(np.int64(1)))
    last = graph.constant(np.int64(len(knots) - 2))
    position = graph.add("Min", position, last)
    slopes, low, start = (
        graph.add("Gather", graph.constant(array), position)
        for array in (np.diff(values) / np.diff(knots), knots[:-1], values[:-1])
    )
    rise = graph.add("Mul", slopes, graph.add("Sub", score, low))
    return graph.add("Add", rise, start)


def count_below(score: str, knots: np.ndarray, graph: OnnxGraph, *, strictly: bool = False) -> str:
    """Return the number of knots below each score, or equal to it unless ``strictly``, Int64[n]."""
    column = graph.add("Unsqueeze", score, graph.constant(np.array([1])))
    operator = "Less" if strictly else "LessOrEqual"
    is_below = graph.add(operator, graph.constant(np.asarray(knots)[None, :]), column)
    return graph.sum(graph.add("Cast", is_below, to=INT64))
