"""Tests of the index in torch against the compiled one.

Similarities and nearest polytopes agree to the last bit, masses up to rounding.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kdgraph.geometry import activations as device_index
from kdgraph.geometry.activations import DeviceCodeIndex
from kdgraph.geometry.code_index import CodeIndex, code_similarity

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not torch.cuda.is_available(), reason="this machine has no CUDA device"
        ),
    ),
]
WIDTHS = [1, 63, 64, 65, 1000, 2]
EXPONENTS = np.array([0.0, 0.02, 0.5, 1.0, 7.5, 60.0])
ROUNDING = 1e-12
"""Tolerance of masses, as for CodeIndex: powers have a relative error of 1e-14, plus 1e-16 times an
exponent below 1,000.
"""


def random_codes(n, widths, seed):
    """Return codes UInt64[n, W] and the bits Bool[n, width] of each layer.

    The bits mostly agree with one pattern.
    """
    rng, pattern, codes, bits = np.random.default_rng(seed), np.random.default_rng(99), [], []
    for width in widths:
        bits.append((pattern.random(width) < 0.5) ^ (rng.random((n, width)) > 0.85))
        padded_bits = np.pad(bits[-1], [(0, 0), (0, -width % 64)])
        codes.append(
            np.packbits(padded_bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        )
    return np.asfortranarray(np.hstack(codes)), bits


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_device_mismatch_counts_and_similarities_are_exact(device, precision):
    previous_precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        (a, a_bits), (b, b_bits) = random_codes(31, WIDTHS, 0), random_codes(77, WIDTHS, 1)
        index = DeviceCodeIndex(b, np.ones((77, 1)), WIDTHS, device=device)
        counts = index.mismatches(
            index._signs(index._bytes_on_device(a)), index._signs(index._codes)
        )
        for layer_counts, x, y in zip(counts, a_bits, b_bits, strict=True):
            assert np.array_equal(layer_counts.cpu().numpy(), (x[:, None] != y[None]).sum(axis=2))
        assert np.array_equal(index.similarity(a), code_similarity(a, b, WIDTHS))
    finally:
        torch.set_float32_matmul_precision(previous_precision)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block", [16, 50, 4096])
@pytest.mark.parametrize("n_anchors", [None, 60, 0])
def test_device_masses_and_nearest_polytopes_match_compiled_index(
    monkeypatch, device, block, n_anchors
):
    monkeypatch.setattr(device_index, "_DEVICE_BLOCK", block)
    codes, queries = random_codes(333, WIDTHS, 0)[0], random_codes(45, WIDTHS, 1)[0]
    rng = np.random.default_rng(0)
    rows, weights = rng.permutation(333)[:151], rng.random((151, 3)) * (rng.random((151, 3)) < 0.5)
    indices = [
        CodeIndex(codes, weights, WIDTHS, rows=rows, n_anchors=n_anchors),
        DeviceCodeIndex(codes, weights, WIDTHS, rows=rows, n_anchors=n_anchors, device=device),
    ]
    (expected, expected_nearest), (masses, nearest) = (
        index.query(queries, EXPONENTS) for index in indices
    )
    np.testing.assert_allclose(masses, expected, rtol=ROUNDING, atol=0)
    assert np.array_equal(nearest, expected_nearest)


@pytest.mark.parametrize("device", DEVICES)
def test_device_ties_zero_similarities_and_empty_queries(monkeypatch, device):
    monkeypatch.setattr(device_index, "_DEVICE_BLOCK", 2)
    codes = np.array([[0b1100], [0b0001], [0b0010], [0b0100], [0b1000]], dtype=np.uint64)
    index = DeviceCodeIndex(codes, np.ones((5, 2)), [4], device=device)
    queries = np.array([[0b0000], [0b0011], [0b1111], [0b1001]], dtype=np.uint64)
    assert index.query(queries, np.empty(0))[1].tolist() == [1, 1, 0, 1]
    assert index.query(queries[:0], EXPONENTS)[0].shape == (0, 2, len(EXPONENTS))
    opposite = DeviceCodeIndex(codes[:1], np.ones((1, 1)), [4], device=device).query(
        ~codes[:1] & np.uint64(15), np.array([0.0, 0.5])
    )
    assert opposite[0].ravel().tolist() == [1, 0] and opposite[1].tolist() == [-1]


@pytest.mark.parametrize("device", DEVICES)
def test_negative_and_infinite_exponents_raise(device):
    index = DeviceCodeIndex(np.zeros((1, 1), dtype=np.uint64), np.ones((1, 1)), [1], device=device)
    with pytest.raises(ValueError, match=r"^exponents contain -1\.0; each must be finite and >= 0"):
        index.query(np.zeros((1, 1), dtype=np.uint64), np.array([-1.0]))
