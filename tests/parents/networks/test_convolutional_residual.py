"""ResNet-20: shape, number of parameters, shortcuts, and training."""

from __future__ import annotations

import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parents.networks.convolutional import BasicBlock, ResidualNetwork, residual_layers


def make_stripes(n: int = 64, size: int = 16, channels: int = 1, seed: int = 0):
    """Return noisy stripes X Float32[n, channels, size, size] that run across or down, and y."""
    rng = np.random.default_rng(seed)
    down = rng.integers(0, 2, n).astype(bool)
    wave = (np.arange(size) // 2 % 2).astype(float)
    pattern = np.where(down[:, None, None], wave[None, None, :], wave[None, :, None]) + np.zeros(
        (n, size, size)
    )
    X = pattern[:, None] + rng.normal(0, 0.2, (n, channels, size, size))
    return X.astype(np.float32), np.where(down, "down", "across")


def small(**changes) -> ResidualNetwork:
    return ResidualNetwork(
        **{
            "depth": 8,
            "width": 4,
            "batch_size": 16,
            "max_epochs": 3,
            "random_state": 0,
            "device": "cpu",
        }
        | changes
    )


def expected_parameter_count(depth: int, width: int, channels: int, classes: int) -> int:
    """Count the parameters from the description of the network.

    They are 3×3 kernels without bias, scale and shift of each normalisation, and the last layer.
    """
    n = (depth - 2) // 6
    widths = [channels, width] + [width * 2**stage for stage in range(3) for _ in range(2 * n)]
    kernels = sum(9 * a * b for a, b in pairwise(widths))
    return kernels + 2 * sum(widths[1:]) + 4 * width * classes + classes


@pytest.mark.parametrize(
    ("depth", "width", "channels", "classes"), [(20, 16, 3, 10), (56, 16, 3, 10), (8, 4, 1, 2)]
)
def test_number_of_parameters(depth, width, channels, classes):
    module = ResidualNetwork(depth=depth, width=width)._make_module((channels, 32, 32), classes)
    assert sum(p.numel() for p in module.parameters()) == expected_parameter_count(
        depth, width, channels, classes
    )
    if (depth, width) == (20, 16):
        assert expected_parameter_count(20, 16, 3, 10) == 269_722  # 0.27 M in Table 6 of He et al.
    weighted = [m for m in module.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(weighted) == depth


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 17, 12), (5, 9, 30)])
def test_images_of_any_size_and_channels(shape):
    layers = residual_layers(shape[0], 8, 4)
    x, sizes = torch.zeros(2, *shape), {}
    for name, layer in layers.items():
        x = layer(x)
        sizes[name] = tuple(x.shape[1:])
    height, width = shape[1:]
    for stage in range(1, 4):
        assert sizes[f"stage{stage}"] == (4 * 2 ** (stage - 1), height, width)
        height, width = -(-height // 2), -(-width // 2)
    assert sizes["flatten"] == (16,)


def test_shortcut_subsamples_pixels_and_pads_channels():
    block = BasicBlock(2, 5, stride=2)
    nn.init.zeros_(block.norm2.weight)  # Only the shortcut remains.
    x = torch.rand(3, 2, 5, 6, generator=torch.Generator().manual_seed(0))
    out = block(x)
    assert torch.equal(out[:, :2], x[:, :, ::2, ::2])
    assert torch.equal(out[:, 2:], torch.zeros(3, 3, 3, 3))


def test_block_adds_its_residual_to_the_input():
    block = BasicBlock(2, 2).eval()
    x = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    inner = torch.relu(
        nn.functional.conv2d(x, block.convolution1.weight, padding=1) / np.sqrt(1 + 1e-5)
    )
    residual = nn.functional.conv2d(inner, block.convolution2.weight, padding=1) / np.sqrt(1 + 1e-5)
    torch.testing.assert_close(block(x), torch.relu(x + residual))


def test_weights_are_drawn_with_the_variance_of_he():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        weight = residual_layers(3)["stage3"][1].convolution1.weight
    # 36,864 normal draws: the standard error of their standard deviation is 0.4 %.
    assert weight.std().item() == pytest.approx(np.sqrt(2 / (9 * 64)), rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            (
                {"depth": depth},
                f"depth must be 6n+2 for n from 1 (8, 14, 20, 32, 44, 56, 110), got {depth}",
            )
            for depth in (1, 2, 7, 18, 52)
        ),
        (
            {"batch_size": 1},
            "batch_size must be at least 2, since batches are normalised, got 1",
        ),
    ],
)
def test_rejects_invalid_parameters(options, message):
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        small(**options).fit(*make_stripes(8))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            (4,),
            (
                "ResidualNetwork needs images, X of shape (n, channels, height, width), got rows of"
                " shape (4,); reshape X"
            ),
        ),
        ((1, 7, 9), "ResidualNetwork with depth=8 needs images of at least 8×8 pixels, got 7×9"),
    ],
)
def test_rejects_rows_that_are_not_suitable_images(shape, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        small().fit(np.random.default_rng(0).normal(size=(10, *shape)), np.arange(10) % 2)


def test_learns_stripes_with_text_labels():
    X, y = make_stripes(64)
    network = small().fit(X, y)
    assert network.score(*make_stripes(64, seed=1)) > 0.9
    assert network.classes_.tolist() == ["across", "down"]
    assert network.transform(X).shape == (64, 16)
    np.testing.assert_allclose(network.predict_proba(X).sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("augment", [False, True])
def test_is_determined_by_the_seed_and_pickles(augment):
    X, y = make_stripes(17, 8, 2)
    first = small(augment=augment, max_epochs=1).fit(X, y)
    repeated, other_seed = (
        clone(first).fit(X, y),
        small(augment=augment, max_epochs=1, random_state=1).fit(X, y),
    )
    assert np.array_equal(first.logits(X), repeated.logits(X))
    assert not np.array_equal(first.logits(X), other_seed.logits(X))
    assert np.array_equal(pickle.loads(pickle.dumps(first)).logits(X), first.logits(X))


def test_random_views_are_part_of_the_training_only():
    X, y = make_stripes(16, 8)
    plain, augmented = small(max_epochs=1).fit(X, y), small(max_epochs=1, augment=True).fit(X, y)
    assert not np.array_equal(plain.logits(X), augmented.logits(X))
    assert np.array_equal(augmented.logits(X), augmented.logits(X))


def test_default_training_is_that_of_the_paper():
    defaults = ResidualNetwork()
    assert (
        defaults.optimizer,
        defaults.learning_rate,
        defaults.weight_decay,
        defaults.batch_size,
    ) == ("sgd", 0.1, 1e-4, 128)
    assert defaults.max_epochs == round(64_000 / (50_000 / 128))
