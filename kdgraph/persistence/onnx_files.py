"""Models in ONNX, checked and written again for onnxruntime.

onnxruntime opens the files that a tensor names for its numbers, wherever in the model it stands,
and other libraries' operators may open what they like. What it runs is the model that was parsed
and checked here, without parts that this version of onnx does not know. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kdgraph.persistence.archive import LoadError, UntrustedFileError

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Sets of operators that the standard defines; others are of a library, or of the model itself."""


def rewrite_onnx(content: bytes, *, trust: bool = False) -> tuple[bytes, Any]:
    """Return the content of a model without unknown parts, and the model.

    Parameters
    ----------
    content : bytes
        Content of a file of any origin.
    trust : bool, default=False
        True accepts operators of other libraries.

    Returns
    -------
    content : bytes
        What onnxruntime may read.
    model : onnx.ModelProto
        The same, parsed.

    Raises
    ------
    UntrustedFileError
        If it needs operators that the standard does not define.
    LoadError
        If a tensor anywhere in it names another file.

    Examples
    --------
    >>> import onnx
    >>> graph = onnx.helper.make_graph([], "empty", [], [])
    >>> content, model = rewrite_onnx(onnx.helper.make_model(graph).SerializeToString())
    >>> model.graph.name
    'empty'
    """
    import onnx

    model = onnx.load_model_from_string(content)
    model.DiscardUnknownFields()
    own = {(function.domain, function.name) for function in model.functions}
    for message in _messages(model):
        kind = message.DESCRIPTOR.name
        if kind == "TensorProto" and (
            message.data_location == onnx.TensorProto.EXTERNAL or message.external_data
        ):
            raise LoadError(
                f"keeps weights in other files ({message.name}); save it in one:"
                " onnx.save(model, file, save_as_external_data=False)"
            )
        is_foreign = kind == "NodeProto" and message.domain not in _DOMAINS
        if is_foreign and not trust and (message.domain, message.op_type) not in own:
            raise UntrustedFileError(
                f"needs operators that the standard does not define ({message.op_type} of"
                f" {message.domain})"
            )
    return model.SerializeToString(), model


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of protobuf and all messages in it, in functions and inner graphs too."""
    pending = [message]
    while pending:
        message = pending.pop()
        yield message
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending += value if hasattr(value, "extend") else [value]
