"""Convolutional autoencoder: layers, reconstructions, training without labels, invalid input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from experiments.p3.autoencoder import ConvolutionalAutoencoder, ReconstructionLoss
from kdgraph.errors import ParameterError
from kdgraph.persistence import from_bytes, to_bytes

COLOURS = {"channels": (16, 32, 64), "strides": (1, 2, 2), "downsampling": "stride"}


def make_autoencoder(**options) -> ConvolutionalAutoencoder:
    return ConvolutionalAutoencoder(
        **{"max_epochs": 1, "device": "cpu", "random_state": 0, **options}
    )


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return (X[:600] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[:600]


@pytest.fixture(scope="module")
def fitted_autoencoder(digits):
    return make_autoencoder(channels=(16, 8), max_epochs=12, batch_size=16, learning_rate=0.01).fit(
        digits[0][:500]
    )


@pytest.mark.parametrize(
    ("parameters", "shape", "latent", "n_parameters"),
    [
        # Conv 16·(9+1), 4·(16·9+1); transposed 4·16·4+16, 16·1·4+1.
        ({}, (1, 28, 28), (4, 7, 7), 160 + 580 + 272 + 65),
        # Conv 16·(27+1), 32·(144+1), 64·(288+1); transposed 64·32·9+32, 32·16·9+16, 16·3·9+3.
        (COLOURS, (3, 32, 32), (64, 8, 8), 448 + 4640 + 18496 + 18464 + 4624 + 435),
        ({"channels": (5,), "strides": (1,)}, (1, 6, 5), (5, 6, 5), 50 + 6),
        (
            {"channels": (2, 3), "strides": (3, 2), "downsampling": "stride"},
            (1, 6, 12),
            (3, 1, 2),
            20 + 57 + 56 + 19,
        ),
    ],
)
def test_shapes_and_number_of_parameters(parameters, shape, latent, n_parameters):
    images = np.random.default_rng(0).random((3, *shape), dtype=np.float32)
    encoder = make_autoencoder(max_epochs=0, **parameters).fit(images)
    assert encoder.latent_shape_ == latent
    assert encoder.transform(images).shape == (3, np.prod(latent))
    back = encoder.inverse_transform(encoder.transform(images))
    assert (
        back.shape == images.shape
        and back.dtype == np.float32
        and back.min() >= 0
        and back.max() <= 1
    )
    assert sum(weights.numel() for weights in encoder.module_.parameters()) == n_parameters


def test_order_of_the_layers():
    def names(parts) -> str:
        return " ".join(type(part).__name__ for part in parts)

    grey = make_autoencoder(max_epochs=0).fit(np.zeros((2, 1, 4, 4))).module_
    assert names(grey.encoder) == "Conv2d ReLU MaxPool2d Conv2d ReLU MaxPool2d"
    assert names(grey.decoder) == "ConvTranspose2d ReLU ConvTranspose2d Sigmoid"
    colours = make_autoencoder(max_epochs=0, **COLOURS).fit(np.zeros((2, 3, 4, 4))).module_
    assert names(colours.encoder) == "Conv2d ReLU Conv2d ReLU Conv2d ReLU"
    assert (
        names(colours.decoder)
        == "ConvTranspose2d ReLU ConvTranspose2d ReLU ConvTranspose2d Sigmoid"
    )


def test_latents_and_images_match_functional_layers(digits, fitted_autoencoder):
    images = digits[0][:7]
    w = [tensor.contiguous() for tensor in fitted_autoencoder.module_.state_dict().values()]
    latents = torch.from_numpy(images)
    for weight, bias in (w[:2], w[2:4]):
        latents = F.max_pool2d(F.relu(F.conv2d(latents, weight, bias, padding=1)), 2)
    back = torch.sigmoid(
        F.conv_transpose2d(
            F.relu(F.conv_transpose2d(latents, w[4], w[5], stride=2)), w[6], w[7], stride=2
        )
    )
    # Sums of at most 144 float32 products, in another order.
    np.testing.assert_allclose(
        fitted_autoencoder.transform(images), latents.flatten(1).numpy(), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        fitted_autoencoder.inverse_transform(latents.flatten(1).numpy()),
        back.numpy(),
        rtol=1e-4,
        atol=1e-5,
    )


def test_loss_is_the_weighted_mean_squared_error():
    rng = np.random.default_rng(0)
    a, b, weights = rng.random((3, 2, 4, 5)), rng.random((3, 2, 4, 5)), np.array([0.5, 1.5, 1.0])
    result = ReconstructionLoss()(*(torch.from_numpy(array) for array in (a, b, weights)))
    assert float(result) == pytest.approx(
        np.mean([w * np.mean((x - y) ** 2) for w, x, y in zip(weights, a, b, strict=True)]),
        rel=1e-12,
    )


def test_reconstructs_unseen_digits_and_preserves_their_classes(digits, fitted_autoencoder):
    images, y = digits
    unseen = images[500:]
    error = np.mean(
        (fitted_autoencoder.inverse_transform(fitted_autoencoder.transform(unseen)) - unseen) ** 2
    )
    # A fraction of the error of the best constant image: in three seeds it was .42 to .49.
    assert error < 0.6 * np.mean((images[:500].mean(axis=0) - unseen) ** 2)
    # The error on the training rows: in three seeds it was .72 to .79 of the test error.
    assert 0.6 * error < fitted_autoencoder.reconstruction_error_ < 1.1 * error
    latents = fitted_autoencoder.transform(images)
    assert (
        LogisticRegression(max_iter=2000).fit(latents[:500], y[:500]).score(latents[500:], y[500:])
        > 0.6
    )


def test_labels_do_not_change_the_fit(digits):
    X, y = digits
    with_labels, without_labels = (
        make_autoencoder().fit(X[:90], y[:90]),
        make_autoencoder().fit(X[:90]),
    )
    np.testing.assert_array_equal(with_labels.transform(X), without_labels.transform(X))
    assert not ConvolutionalAutoencoder.learns_from_labels


def test_latents_do_not_depend_on_other_rows(digits, fitted_autoencoder):
    X = digits[0]
    latents = fitted_autoencoder.transform(X)
    np.testing.assert_array_equal(
        np.concatenate(
            [
                fitted_autoencoder.transform(X[:3]),
                fitted_autoencoder.transform(X[3:4]),
                fitted_autoencoder.transform(X[4:]),
            ]
        ),
        latents,
    )
    np.testing.assert_array_equal(
        fitted_autoencoder.inverse_transform(latents[5:6]),
        fitted_autoencoder.inverse_transform(latents)[5:6],
    )


def test_saved_model_is_identical_to_the_bit(digits, fitted_autoencoder):
    restored = from_bytes(to_bytes(fitted_autoencoder), "it").value
    np.testing.assert_array_equal(
        restored.transform(digits[0]), fitted_autoencoder.transform(digits[0])
    )
    assert (
        restored.describe() == fitted_autoencoder.describe() and restored.describe()["epochs"] == 12
    )


def test_a_layer_by_name(digits, fitted_autoencoder):
    result = fitted_autoencoder.transform(digits[0][:4], "encoder")
    np.testing.assert_array_equal(result, fitted_autoencoder.transform(digits[0][:4]))


def test_trains_on_all_rows_without_early_stopping(digits):
    X = digits[0][:200]
    assert make_autoencoder().fit(X).history_[0]["validation_loss"] is None
    # With this learning rate the loss soon increases.
    stopped = make_autoencoder(patience=1, learning_rate=0.5, max_epochs=50).fit(X)
    assert stopped.history_[0]["validation_loss"] > 0 and stopped.n_epochs_ < 50
    assert clone(stopped).patience == 1


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({}, np.zeros((4, 16)), "needs images, X of shape"),
        ({}, np.zeros((4, 1, 3, 8)), "needs images of at least 4×4 pixels, got 3×8"),
        (
            {},
            np.zeros((4, 1, 6, 8)),
            r"height and width are multiples of 4, the product of strides=\(2, 2\), got 6×8",
        ),
        (
            {},
            np.full((4, 1, 8, 8), 2.0),
            r"needs images in \[0, 1\], got 2 to 2; divide by the largest intensity",
        ),
        ({}, np.full((4, 1, 8, 8), np.nan), "NaN"),
    ],
)
def test_rejects_invalid_images(parameters, X, message):
    with pytest.raises(ValueError, match=message):
        make_autoencoder(**parameters).fit(X)


@pytest.mark.parametrize("parameters", [{"channels": (4,)}, {"channels": (), "strides": ()}])
def test_rejects_different_numbers_of_channels_and_strides(parameters):
    with pytest.raises(
        ParameterError, match="channels and strides must have the same number of entries"
    ):
        make_autoencoder(**parameters).fit(np.zeros((4, 1, 8, 8)))


def test_rejects_rows_of_another_shape(fitted_autoencoder):
    with pytest.raises(ValueError, match="shape of those in fit"):
        fitted_autoencoder.transform(np.zeros((2, 1, 4, 8)))
    with pytest.raises(ValueError, match="a row of latents has 32 numbers, got 4"):
        fitted_autoencoder.inverse_transform(np.zeros((2, 4)))


def test_training_on_a_further_set_improves_its_reconstruction(digits):
    """Inverted digits are unlike the training rows."""
    X, _ = digits
    inverted = 1 - X[:100]
    options = {"max_epochs": 3, "unlabelled_epochs": 3, "batch_size": 16, "learning_rate": 0.01}
    before = make_autoencoder(**options).fit(X)
    after = make_autoencoder(**options).fit(X, X_unlabelled=[inverted])

    def error(encoder) -> float:
        return float(
            ((encoder.inverse_transform(encoder.transform(inverted)) - inverted) ** 2).mean()
        )

    assert error(after) < 0.8 * error(before)
    assert (len(before.history_), len(after.history_), after.n_epochs_) == (3, 6, 6)
    assert after.reconstruction_error_ == before.reconstruction_error_


def test_further_sets_are_trained_on_in_turn_and_by_the_seed(digits):
    X, _ = digits
    sets = [X[:50], 1 - X[:50]]
    fitted = [
        make_autoencoder(unlabelled_epochs=1).fit(X[:200], X_unlabelled=order).transform(X[:5])
        for order in (sets, sets, sets[::-1])
    ]
    np.testing.assert_array_equal(fitted[0], fitted[1])
    assert np.abs(fitted[0] - fitted[2]).max() > 0


def test_sets_without_epochs_or_of_other_shape_are_refused(digits):
    X, _ = digits
    with pytest.raises(ParameterError, match="unlabelled_epochs must be at least 1 to train on"):
        make_autoencoder().fit(X, X_unlabelled=[X])
    with pytest.raises(ValueError, match="8"):
        make_autoencoder(unlabelled_epochs=1).fit(X, X_unlabelled=[X[:, :, :4, :4]])
