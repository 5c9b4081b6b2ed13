"""Codecs of tensors and layers of torch.

The module is imported only if a value of torch is written or read. Original to kdgraph.
"""

from __future__ import annotations

from types import BuiltinFunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.persistence.kinds import ValueCodec

_STORAGE_DTYPES = {torch.bfloat16: torch.int16}
"""Types that numpy does not have, as which others they travel."""
_HOOK_MARK, _ALLOWED_HOOK_FIELDS = "hook", ("_is_full_backward_hook",)
"""Part of the names under which a layer holds hooks, and names that have it by chance."""


def _tensor_to_parts(tensor: Tensor) -> tuple[Any, ...]:
    """Return type, shape, strides, ``requires_grad`` and memory; strides affect the last bits."""
    own = tensor.detach().cpu()
    if (
        own.layout is not torch.strided
        or own.is_quantized
        or type(own) not in (Tensor, nn.Parameter)
    ):
        raise TypeError(f"a tensor of type {type(tensor).__name__} and layout {own.layout}")
    if not _is_dense(own):
        own = own.contiguous()
    memory = own.as_strided((own.numel(),), (1,))
    memory = memory.view(_STORAGE_DTYPES.get(own.dtype, own.dtype))
    return (
        str(own.dtype).removeprefix("torch."),
        list(own.shape),
        list(own.stride()),
        tensor.requires_grad,
        memory.numpy(),
    )


@default_torch_state()
def _tensor_from_parts(
    dtype: str, shape: list[int], strides: list[int], learns: bool, memory: np.ndarray
) -> Tensor:
    kind = getattr(torch, dtype)
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"torch has no type {dtype}")
    flat = (
        torch.from_numpy(memory).clone().view(kind)
    )  # a copy, in memory that is aligned as torch has it
    if (
        flat.numel() < 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        and 0 not in shape
    ):
        raise ValueError(f"a tensor of shape {shape} is larger than its memory")
    return flat.as_strided(shape, strides).requires_grad_(bool(learns))


def _is_dense(tensor: Tensor) -> bool:
    """Return True if the tensor fills its memory without gaps or overlaps."""
    expected = 1
    for step, n in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if n == 1:
            continue
        if step != expected:
            return False
        expected *= n
    return True


def _dtype_from_name(name: str) -> torch.dtype:
    target = getattr(torch, name)
    if not isinstance(target, torch.dtype):
        raise TypeError(f"torch has no type {name}")
    return target


def _function_to_parts(function: Any) -> tuple[str]:
    if getattr(functional, function.__name__, None) is not function:
        raise TypeError(f"{function.__name__} is none of torch.nn.functional's")
    return (function.__name__,)


def _function_from_parts(name: str) -> Any:
    target = getattr(functional, name)
    if not isinstance(target, BuiltinFunctionType):
        raise TypeError(f"torch.nn.functional has no compiled {name}")
    return target


TORCH_CODECS_BY_TYPE = {
    Tensor: ValueCodec("tensor", _tensor_to_parts, _tensor_from_parts),
    nn.Parameter: ValueCodec(
        "parameter",
        _tensor_to_parts,
        lambda *parts: nn.Parameter(
            _tensor_from_parts(*parts).detach(), requires_grad=bool(parts[3])
        ),
    ),
    torch.dtype: ValueCodec(
        "torch_dtype", lambda dtype: (str(dtype).removeprefix("torch."),), _dtype_from_name
    ),
    torch.device: ValueCodec("torch_device", lambda device: (device.type,), torch.device),
    BuiltinFunctionType: ValueCodec("torch_function", _function_to_parts, _function_from_parts),
    torch.Size: ValueCodec("torch_size", tuple, lambda *sizes: torch.Size(sizes)),
}
"""By the very type of a value."""
TORCH_CODECS_BY_TAG = {kind.tag: kind for kind in TORCH_CODECS_BY_TYPE.values()}


def check_torch_module(module: Any) -> None:
    """Raise ValueError unless a layer of torch has layers, parameters, buffers and no hooks."""
    state = vars(module)
    for name, value in state.items():
        if _HOOK_MARK in name and name not in _ALLOWED_HOOK_FIELDS and value:
            raise ValueError(f"a {type(module).__qualname__} comes with hooks ({name})")
    for name, kind in (("_modules", nn.Module), ("_parameters", Tensor), ("_buffers", Tensor)):
        parts = state.get(name, {})
        if not isinstance(parts, dict) or not all(isinstance(key, str) for key in parts):
            raise ValueError(f"{name} of a {type(module).__qualname__} is no dict of names")
        if not all(part is None or isinstance(part, kind) for part in parts.values()):
            raise ValueError(f"{name} of a {type(module).__qualname__} holds another thing")
