"""Tensors and modules of torch are restored with their bits and their memory layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from kdgraph.persistence import DamagedFileError, SaveError, from_bytes, to_bytes


def round_trip(value):
    return from_bytes(to_bytes(value), "it").value


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
]


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(DTYPES), st.randoms())
@settings(max_examples=100, deadline=None)
def test_values_shape_and_strides_are_restored(shape, dtype, random):
    tensor = (
        torch.arange(int(np.prod(shape)))
        .reshape(shape)
        .to(dtype)
        .permute(random.sample(range(len(shape)), len(shape)))
    )
    result = round_trip(tensor)
    assert (result.dtype, result.shape, result.requires_grad) == (tensor.dtype, tensor.shape, False)
    assert torch.equal(result, tensor)
    if tensor.numel():
        assert result.stride() == tensor.stride()


def test_channels_last_layout_is_restored():
    weight = nn.Conv2d(1, 3, 3).to(memory_format=torch.channels_last).weight
    assert round_trip(weight).stride() == weight.stride()


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(1).expand(3, 2), torch.arange(10)[::3], torch.arange(12).reshape(3, 4)[:, 1:3]],
)
def test_views_become_contiguous_tensors(tensor):
    result = round_trip(tensor)
    assert torch.equal(result, tensor) and result.is_contiguous()


def test_requires_grad_is_restored():
    for requires_grad in (True, False):
        result = round_trip(nn.Parameter(torch.ones(2), requires_grad=requires_grad))
        assert type(result) is nn.Parameter and result.is_leaf
        assert result.requires_grad is requires_grad
    assert round_trip(torch.ones(1, requires_grad=True)).requires_grad


def test_module_outputs_and_tied_weights_are_restored():
    module = nn.Sequential(
        nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 3), nn.Dropout(0.5)
    ).eval()
    module[3].weight = module[0].weight
    result = round_trip(module)
    X = torch.rand(7, 3)
    assert torch.equal(result(X), module(X)) and not result.training
    assert result[3].weight is result[0].weight
    assert list(result.state_dict()) == list(module.state_dict())
    result.train()(X).sum().backward()
    assert result[0].weight.grad is not None


def test_dtypes_sizes_and_devices_are_restored():
    assert round_trip([torch.float16, torch.Size([1, 2]), torch.device("cpu")]) == [
        torch.float16,
        torch.Size([1, 2]),
        torch.device("cpu"),
    ]


def test_only_compiled_activations_are_restored():
    assert round_trip([nn.functional.gelu, nn.functional.silu]) == [
        nn.functional.gelu,
        nn.functional.silu,
    ]
    with pytest.raises(SaveError, match=r"\(rand is none of torch.nn.functional's\)$"):
        to_bytes(torch.rand)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_refused():
    with pytest.raises(
        SaveError,
        match=(
            r"^a value of type Tensor cannot be saved \(a tensor of type Tensor and layout"
            r" torch.sparse_coo\)$"
        ),
    ):
        to_bytes(torch.eye(2).to_sparse())


@pytest.mark.parametrize(
    "node",
    [
        ["tensor", "float32", ["list", 100], ["list", 1], False, ["array", 0, 0, [2], "C"]],
        ["tensor", "float32", ["list", 2], ["list", -1], False, ["array", 0, 0, [2], "C"]],
        ["tensor", "float32", ["list", 2, 2], ["list", 1], False, ["array", 0, 0, [2], "C"]],
        ["tensor", "load", ["list", 2], ["list", 1], False, ["array", 0, 0, [2], "C"]],
        ["tensor", "float64", ["list", 2], ["list", 1], False, ["array", 0, 0, [2], "C"]],
        ["torch_dtype", "load"],
        ["torch_function", "os"],
        ["torch_device", "no device"],
    ],
    ids=[
        "larger than its memory",
        "negative stride",
        "fewer strides than axes",
        "function as dtype",
        "dtype wider than its memory",
        "function in place of a dtype",
        "module in place of a function",
        "unknown device",
    ],
)
def test_invalid_tensors_are_refused(node):
    from kdgraph.persistence.archive import pack, unpack

    document, arrays = unpack(to_bytes(np.zeros(2, dtype=np.float32)))
    with pytest.raises(DamagedFileError, match=r"^it is damaged \("):
        from_bytes(pack({**document, "value": node}, arrays), "it")
