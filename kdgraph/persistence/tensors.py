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

# Types that NumPy does not have → types of the same size in which their bits are stored.
_STORAGE_DTYPES = {torch.bfloat16: torch.int16}
# Part of the names of a layer's attributes for hooks, and an attribute with this part that is a
# flag.
_HOOK_MARK, _ALLOWED_HOOK_FIELDS = "hook", ("_is_full_backward_hook",)


def _tensor_to_parts(tensor: Tensor) -> tuple[Any, ...]:
    """Return dtype, shape, strides, ``requires_grad`` and memory.

    Strides are restored, because torch chooses kernels by them, which differ in the last bits.
    """
    values = tensor.detach().cpu()
    if (
        values.layout is not torch.strided
        or values.is_quantized
        or type(values) not in (Tensor, nn.Parameter)
    ):
        raise TypeError(f"a tensor of type {type(tensor).__name__} and layout {values.layout}")
    if not _is_dense(values):
        values = values.contiguous()
    memory = values.as_strided((values.numel(),), (1,))
    memory = memory.view(_STORAGE_DTYPES.get(values.dtype, values.dtype))
    return (
        str(values.dtype).removeprefix("torch."),
        list(values.shape),
        list(values.stride()),
        tensor.requires_grad,
        memory.numpy(),
    )


@default_torch_state()
def _tensor_from_parts(
    dtype: str, shape: list[int], strides: list[int], requires_grad: bool, memory: np.ndarray
) -> Tensor:
    torch_dtype = _dtype_from_name(dtype)
    # The copy has the alignment that torch requires.
    flat = torch.from_numpy(memory).clone().view(torch_dtype)
    # as_strided would read beyond the memory of the tensor.
    last_offset = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    if flat.numel() < 1 + last_offset and 0 not in shape:
        raise ValueError(f"a tensor of shape {shape} is larger than its memory")
    return flat.as_strided(shape, strides).requires_grad_(bool(requires_grad))


def _is_dense(tensor: Tensor) -> bool:
    """Return True if the tensor fills its memory without gaps or overlaps."""
    expected_stride = 1
    for stride, n in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if n == 1:
            continue
        if stride != expected_stride:
            return False
        expected_stride *= n
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
"""Codecs by the exact type of a value, without its base classes."""
TORCH_CODECS_BY_TAG = {codec.tag: codec for codec in TORCH_CODECS_BY_TYPE.values()}


def check_torch_module(module: Any) -> None:
    """Raise ValueError if a layer of torch has hooks, or a member that is not of its type.

    Hooks are called with every batch, and the layers in ``_modules`` by their names. The private
    attributes are read because hooks have no public accessor, and because public ones such as
    ``named_modules`` would already walk through the unchecked members.
    """
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
