"""Models in ONNX files, run by onnxruntime.

Inputs are one tensor of all columns, or one of each column by its name. Outputs are a label with
probabilities, as scikit-learn's converters make them (a tensor, or one dictionary for each row), or
a single tensor of probabilities, logits or values. Original to kdgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from kdgraph.fitted.columns import ModelColumns
from kdgraph.fitted.source import ExternalModel, ModelSource, OutputKind
from kdgraph.persistence import LoadError, UntrustedFileError
from kdgraph.persistence.onnx_files import rewrite_onnx
from kdgraph.wording import first_line

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
_LABEL_TYPES = ("tensor(int64)", "tensor(string)", "tensor(int32)")
_FLOAT_TYPES = ("tensor(float)", "tensor(double)")
_NORMALISING_OPERATORS = ("Softmax", "Sigmoid")


def read_onnx(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of an ONNX file; see :data:`~kdgraph.fitted.source.ModelReader`.

    DataError is also raised if the file refers to other files, or its outputs are ambiguous.
    """
    with source.importing("onnxruntime"):
        import onnx  # noqa: F401
        import onnxruntime
    try:
        content, model = rewrite_onnx(content, trust=source.trust)
    except UntrustedFileError as error:
        raise source.untrusted(str(error)) from error
    except LoadError as error:
        raise source.error(str(error)) from error
    except Exception as error:  # any: protobuf's errors have no public base
        raise source.error(f"is no ONNX file, or damaged ({first_line(error)})") from error
    graph = model.graph
    options = onnxruntime.SessionOptions()
    # Sums of several threads have no fixed order.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    with source.reading("cannot be run by onnxruntime"):
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    output, kind = _choose_output(source, session, graph)
    classes = _class_labels(graph)
    inputs = session.get_inputs()
    has_label = any(node.type in _LABEL_TYPES for node in session.get_outputs())
    is_class = (
        source.task == "classification"
        or source.outputs is not None
        or (source.task is None and (has_label or kind != "values"))
    )

    def predict(X: Any) -> np.ndarray:
        return _as_columns(session.run([output], _feeds(source, inputs, X))[0], classes)

    return ExternalModel(
        "ONNX",
        predict,
        kind if is_class else "values",
        classes=classes if is_class else None,
        columns=_columns(inputs),
    )


def _columns(inputs: Any) -> ModelColumns:
    """Return the columns of the inputs: of one for all, or of one for each column."""
    names, shape = tuple(node.name for node in inputs), inputs[0].shape
    if len(inputs) > 1:
        whole = tuple(node.name for node in inputs if "int" in node.type)
        return ModelColumns(names, len(inputs), whole_numbers=whole)
    width = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
    if width == 1:
        return ModelColumns(names, 1, are_made_up=True)
    return ModelColumns(None, width)


def _choose_output(source: ModelSource, session: Any, graph: Any) -> tuple[str, OutputKind]:
    """Return name and kind of the output that holds probabilities, logits or values."""
    outputs = {node.name: node for node in session.get_outputs()}
    if source.output is not None and source.output not in outputs:
        raise source.error(
            f"has no output {source.output!r}; it has {', '.join(outputs)} ({source.key}output=…)"
        )
    maps = [name for name, node in outputs.items() if node.type.startswith("seq(map")]
    tensors = [name for name, node in outputs.items() if node.type in _FLOAT_TYPES]
    named = [name for name in tensors if "prob" in name.lower()]
    candidates = [source.output] if source.output is not None else maps or named or tensors
    if len(candidates) != 1:
        raise source.error(
            f"has {len(candidates)} outputs of numbers ({', '.join(outputs)}); name one:"
            f" {source.key}output=…"
        )
    name = candidates[0]
    has_label = any(node.type in _LABEL_TYPES for node in outputs.values())
    maker = next((node.op_type for node in graph.node if name in node.output), None)
    shape = outputs[name].shape
    kind: OutputKind
    if source.outputs is not None:
        kind = source.outputs
    elif maps or has_label or maker in _NORMALISING_OPERATORS:
        kind = "probabilities"
    elif len(shape) == 2 and shape[1] not in (1, None):
        kind = "logits"
    else:
        kind = "values"
    return name, kind


def _class_labels(graph: Any) -> tuple[Any, ...] | None:
    """Return the labels that the operators of classifiers have as an attribute, or None."""
    labels: tuple[Any, ...] | None = None
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name.startswith("classlabels"):
                texts = tuple(text.decode(errors="replace") for text in attribute.strings)
                labels = texts or tuple(attribute.ints) or labels
    return labels


def _feeds(source: ModelSource, inputs: Any, X: Any) -> dict[str, np.ndarray]:
    """Return input name → array, of one input for all columns or one for each."""
    if len(inputs) == 1 and not hasattr(X, "columns"):
        node = inputs[0]
        if node.type not in _DTYPES:
            raise source.error(f"takes {node.type}, and rows are numbers")
        rows = np.asarray(X, dtype=np.float64)
        return {node.name: _cast(source, rows, node.type, "the rows")}
    feeds = {}
    for node in inputs:
        column, where = X[node.name], f"the column {node.name!r}"
        if node.type == "tensor(string)":
            if column.isna().any():
                raise source.error(f"takes text in {where}, and a row has none; give it a value")
            feeds[node.name] = column.astype(str).to_numpy(dtype=object)[:, None]
            continue
        if node.type not in _DTYPES:
            raise source.error(f"takes {node.type} in {where}, and rows are numbers or text")
        if not (is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype)):
            raise source.error(f"takes numbers in {where}, and a table has {column.dtype} there")
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        feeds[node.name] = _cast(source, numbers[:, None], node.type, where)
    return feeds


def _cast(source: ModelSource, rows: np.ndarray, kind: str, where: str) -> np.ndarray:
    """Return numbers in the type of an input, which single precision alone may round.

    Raises
    ------
    DataError
        If the type loses a missing value, a fraction or the size of a number.
    """
    dtype = np.dtype(_DTYPES[kind])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            numbers = rows.astype(dtype)
        lost = np.isinf(numbers) & np.isfinite(rows)
    else:
        with np.errstate(invalid="ignore"):
            numbers = rows.astype(dtype)
        lost = numbers.astype(np.float64) != rows
    if lost.any():
        value = rows[lost][0]
        raise source.error(
            f"takes {kind} for {where}, which does not hold {value:g}; give it other values, or"
            " convert the model with an input of doubles"
        )
    return numbers


def _as_columns(values: Any, classes: tuple[Any, ...] | None) -> np.ndarray:
    """Return outputs as an array; dictionaries become columns in the order of ``classes``."""
    if not isinstance(values, list):
        return np.asarray(values)
    order = list(values[0]) if classes is None and values else list(classes or ())
    return np.array([[row[label] for label in order] for row in values]).reshape(-1, len(order))
