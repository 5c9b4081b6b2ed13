"""Models in files of torch: weights, whole modules, TorchScript and exported programs.

Weights are read by ``torch.load(weights_only=True)``, which builds nothing but tensors and plain
containers, from an archive that is written again from the one that was checked. Whole modules are
pickles. The documentation of ``torch.jit.load`` and of
``torch.export.load``, which unpickle too, warns against files of others, so that they need trust.
Original to kdgraph.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kdgraph.fitted.source import (
    ExternalModel,
    ModelSource,
    OutputKind,
    check_archive,
    import_object,
)
from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.persistence.zip_members import ZipMembers

_BLOCK_ROWS = 1024
# Keys under which training loops keep the weights in a dictionary of several things.
_WEIGHT_KEYS = ("state_dict", "model_state_dict", "model")


def read_torch(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of torch; see :data:`~kdgraph.fitted.source.ModelReader`."""
    names = check_archive(source, content) if content[:4] == b"PK\x03\x04" else []
    inner = ["/".join(name.split("/")[1:]) or name for name in names]
    if "constants.pkl" in inner and any(name.startswith("code/") for name in inner):
        return _program(source, content, "TorchScript", _load_script)
    if source.path.lower().endswith(".pt2") or any(name.startswith("models/") for name in inner):
        return _program(source, content, "exported program", _load_exported)
    module = _module(source, _load_pickle(source, content))
    return _model(source, "torch module", module, network=module)


def _program(
    source: ModelSource, content: bytes, kind: str, load: Callable[[bytes], Any]
) -> ExternalModel:
    if not source.trust:
        raise source.untrusted(
            f"is a {kind} of torch, which can run code of its writer's choosing when it is read;"
            " save the weights (module.state_dict()), or ONNX"
        )
    with source.reading(f"is no {kind}, or damaged"), warnings.catch_warnings():
        # torch announces the end of TorchScript at every call.
        warnings.simplefilter("ignore", DeprecationWarning)
        # torch 2.11 reads an exported program through memory that is not writeable, and warns.
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        program = load(content)
    return _model(source, kind, program)


def _load_script(content: bytes) -> Any:
    return torch.jit.load(io.BytesIO(content), map_location="cpu").eval()


def _load_exported(content: bytes) -> Any:
    return torch.export.load(io.BytesIO(content)).module()


def _load_pickle(source: ModelSource, content: bytes) -> Any:
    """Return weights, or the whole module of a trusted file."""
    try:
        return torch.load(io.BytesIO(_rewritten(content)), map_location="cpu", weights_only=True)
    except Exception as error:  # any: torch's readers raise errors of many types
        if not source.trust:
            raise source.untrusted(
                "holds more than weights, or is damaged, and a pickle can run any code when it is"
                " read; save the weights (module.state_dict())"
            ) from error
    with source.reading("is no file of torch, or damaged"):
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)


def _rewritten(content: bytes) -> bytes:
    """Return an archive with the members that Python's zipfile finds; other content as it is.

    torch has a reader of zip archives of its own, which may find others.
    """
    if content[:4] != b"PK\x03\x04":
        return content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in ZipMembers(content).items():
            archive.writestr(name, member)
    return buffer.getvalue()


def _module(source: ModelSource, value: Any) -> nn.Module:
    """Return a module: the value itself, or that of the factory with the weights in the value."""
    if isinstance(value, nn.Module):
        return value.eval()
    if not isinstance(value, Mapping):
        raise source.error(f"holds a {type(value).__name__}, and neither weights nor a module")
    weights = next((value[k] for k in _WEIGHT_KEYS if isinstance(value.get(k), Mapping)), value)
    if source.factory is None:
        raise source.error(
            "holds weights without their module; name the function that makes it:"
            f" {source.key}object=package.module:function"
        )
    module = import_object(source, source.factory)()
    if not isinstance(module, nn.Module):
        raise source.error(
            f"{source.factory} must return a torch.nn.Module, got {type(module).__name__}"
        )
    try:
        module.load_state_dict(weights)
    except Exception as error:  # any: weights may be whatever a file can hold
        details = " ".join(str(error).split())
        raise source.error(f"its weights are not those of {source.factory} ({details})") from error
    return module.eval()


def _model(
    source: ModelSource, kind: str, module: Any, network: nn.Module | None = None
) -> ExternalModel:
    is_regression = source.task == "regression"
    outputs = "values" if is_regression else source.outputs or _kind_of(network)

    def predict(X: Any) -> np.ndarray:
        rows = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
        with default_torch_state(), torch.no_grad():
            blocks = [_tensor(source, module(block)) for block in rows.split(_BLOCK_ROWS)]
        return torch.cat(blocks).double().numpy()

    return ExternalModel(kind, predict, outputs, network=network)


def _kind_of(network: nn.Module | None) -> OutputKind:
    layers = [] if network is None else list(network.modules())
    is_normalised = bool(layers) and isinstance(layers[-1], nn.Softmax | nn.Sigmoid)
    return "probabilities" if is_normalised else "logits"


def _tensor(source: ModelSource, outputs: Any) -> Tensor:
    if not isinstance(outputs, Tensor):
        raise source.error(
            f"must return one tensor of logits or probabilities, got {type(outputs).__name__}"
        )
    return outputs
