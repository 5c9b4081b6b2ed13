"""Small convolutional networks: layers, smallest images, and training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from kdgraph.parents.networks import ConvolutionalNetwork
from kdgraph.parents.networks.convolutional import RandomView, random_view


def make_module(architecture: str, shape: tuple[int, ...]) -> nn.Module:
    return ConvolutionalNetwork(architecture=architecture)._make_module(shape, 10)


@pytest.mark.parametrize(
    ("architecture", "shape", "n_parameters"),
    [
        # Conv 3·(9+1), then 3·26·26 inputs of 10 units, 10 of 10.
        ("simple", (1, 28, 28), 3 * 10 + 10 * (3 * 26 * 26 + 1) + 10 * 11),
        ("simple", (3, 8, 10), 3 * 28 + 10 * (3 * 6 * 8 + 1) + 10 * 11),
        # LeNet-5 on 28×28 with padding, as on 32×32 without: 16·5·5 = 400 features.
        ("lenet", (1, 28, 28), 6 * 26 + 16 * (6 * 25 + 1) + 120 * 401 + 84 * 121 + 10 * 85),
        (
            "lenet",
            (3, 32, 32),
            6 * 76 + 16 * (6 * 25 + 1) + 120 * (16 * 36 + 1) + 84 * 121 + 10 * 85,
        ),
    ],
)
def test_number_of_parameters(architecture, shape, n_parameters):
    assert sum(p.numel() for p in make_module(architecture, shape).parameters()) == n_parameters


def test_order_of_the_layers():
    assert [type(part).__name__ for part in make_module("simple", (1, 8, 8))] == [
        "Conv2d",
        "ReLU",
        "Flatten",
        "Linear",
        "ReLU",
        "Linear",
    ]
    convolution = ["Conv2d", "ReLU", "MaxPool2d"]
    assert [type(part).__name__ for part in make_module("lenet", (1, 28, 28))] == [
        *convolution,
        *convolution,
        "Flatten",
        "Linear",
        "ReLU",
        "Linear",
        "ReLU",
        "Linear",
    ]


@pytest.mark.parametrize(("architecture", "smallest"), [("simple", 3), ("lenet", 12)])
def test_smallest_accepted_images(architecture, smallest):
    X, y = np.random.default_rng(0).random((6, 2, smallest, smallest + 1)), [0, 1] * 3
    net = ConvolutionalNetwork(architecture=architecture, max_epochs=1, device="cpu")
    assert net.fit(X, y).predict_proba(X).shape == (6, 2)
    with pytest.raises(ValueError, match="pixels") as caught:
        net.fit(X[:, :, 1:], y)
    assert (
        str(caught.value)
        == f"ConvolutionalNetwork with architecture={architecture!r} needs images of at least"
        f" {smallest}×{smallest} pixels, got {smallest - 1}×{smallest + 1}"
    )


def test_rejects_vectors():
    with pytest.raises(ValueError, match="images") as caught:
        ConvolutionalNetwork().fit(np.zeros((4, 5)), [0, 1, 0, 1])
    assert (
        str(caught.value)
        == "ConvolutionalNetwork needs images, X of shape (n, channels, height, width), got rows of"
        " shape (5,); reshape X"
    )


@pytest.mark.parametrize("architecture", ["simple", "lenet"])
def test_learns_digits(architecture):
    X, y = load_digits(return_X_y=True)
    images = (X / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    if architecture == "lenet":
        images = images.repeat(2, axis=2).repeat(2, axis=3)
    net = ConvolutionalNetwork(
        architecture=architecture,
        learning_rate=5e-3,
        max_epochs=12,
        batch_size=32,
        device="cpu",
        random_state=0,
    )
    assert net.fit(images[:500], y[:500]).score(images[500:], y[500:]) > 0.8
    assert net.n_features_in_ == 1 and net.input_shape_ == images.shape[1:]


def test_biases_start_at_zero_and_weights_within_glorots_bound():
    X, y = np.zeros((4, 1, 8, 8)), np.arange(4) % 2
    for layer in ConvolutionalNetwork(max_epochs=0, device="cpu", random_state=0).fit(X, y).module_:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert layer.bias is not None and not layer.bias.any()
            receptive = layer.weight[0, 0].numel()
            bound = (6 / (receptive * sum(layer.weight.shape[:2]))) ** 0.5
            # The largest of at least 20 uniform draws is below .8 with probability .8^20 = .01.
            assert 0.8 * bound < layer.weight.abs().max() <= bound


def test_view_is_a_crop_of_the_padded_image_or_mirrored():
    images = torch.arange(1.0, 2 * 3 * 5 * 4 + 1).reshape(2, 3, 5, 4).repeat(40, 1, 1, 1)
    views = random_view(images, 2, torch.Generator().manual_seed(0)).numpy()
    seen_crops = set()
    for image, view in zip(images.numpy(), views, strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        crops = {
            (y, x, flip): padded[:, y : y + 5, x : x + 4][:, :, :: -1 if flip else 1]
            for y in range(5)
            for x in range(5)
            for flip in (0, 1)
        }
        matching_keys = [key for key, crop in crops.items() if np.array_equal(crop, view)]
        assert len(matching_keys) == 1
        seen_crops |= set(matching_keys)
    assert {flip for *_, flip in seen_crops} == {0, 1}
    assert {y for y, *_ in seen_crops} == {x for _, x, _ in seen_crops} == set(range(5))


def test_views_are_determined_by_the_generator():
    images = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    first, repeated, other_seed = (
        random_view(images, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other_seed)


def test_random_views_are_views_in_training_only():
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(RandomView().eval()(images), images)
