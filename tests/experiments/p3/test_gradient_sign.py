"""Fast gradient sign method: size, direction and effect of the perturbation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier

from experiments.p3.gradient_sign import (
    _MAX_CACHED_NETWORKS,
    FastGradientSign,
    _network_cache,
    _train_cached,
)
from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood import CompositeOod
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from kdgraph.parents.networks import ConvolutionalNetwork


def network(**options) -> ConvolutionalNetwork:
    return ConvolutionalNetwork(
        learning_rate=0.01,
        batch_size=32,
        **{"max_epochs": 6, "device": "cpu", "random_state": 0, **options},
    )


@pytest.fixture(scope="module")
def splits() -> Splits:
    X, y = load_digits(return_X_y=True)
    images = X.reshape(-1, 1, 8, 8) / 16
    parts = [
        Dataset.from_labels("digits", images[rows], y[rows])
        for rows in (slice(400), slice(400, 500), slice(500, 700))
    ]
    return Splits(*parts)


@pytest.fixture(scope="module")
def perturbed_sets(splits) -> list[OodSet]:
    return list(
        FastGradientSign(network(), epsilons=[0, 20, 60], n=150).sets(
            splits, np.random.default_rng(0)
        )
    )


def test_each_pixel_changes_by_epsilon_within_its_range(splits, perturbed_sets):
    plain, *perturbed_only = perturbed_sets
    assert [perturbed.params["epsilon"] for perturbed in perturbed_sets] == [
        0,
        20 / 255,
        60 / 255,
    ] and {perturbed.name for perturbed in perturbed_sets} == {"fgsm"}
    expected = {image.tobytes() for image in splits.test.X}
    assert len(plain.X) == 150 and all(image.tobytes() in expected for image in plain.X)
    for perturbed in perturbed_only:
        step = perturbed.X - plain.X
        assert perturbed.X.dtype == np.float32 and perturbed.X.min() >= 0 and perturbed.X.max() <= 1
        inside = (perturbed.X > 0) & (perturbed.X < 1) & (step != 0)
        # The tolerance is that of float32 near 1.
        np.testing.assert_allclose(np.abs(step[inside]), perturbed.params["epsilon"], atol=1e-6)
        assert inside.mean() > 0.3


def test_loss_increases_along_the_pixel_change(splits, perturbed_sets):
    """Compare differences of the loss of a network that is trained here."""
    net, images = network().fit(splits.train.X, splits.train.y), perturbed_sets[0].X[:20]
    sign, predicted = np.sign(perturbed_sets[1].X - perturbed_sets[0].X)[:20], net.predict(images)
    rng = np.random.default_rng(0)
    for row in range(20):
        pixel = (0, *rng.integers(8, size=2))
        image_pair, step = np.repeat(images[row : row + 1], 2, axis=0), 0.02
        image_pair[1][pixel] += step
        loss = -log_softmax(net.logits(image_pair), axis=1)[:, predicted[row]]
        # Other changes are within rounding or clipped at the end of the range.
        if sign[row][pixel] and abs(loss[1] - loss[0]) > 1e-4:
            assert np.sign(loss[1] - loss[0]) == sign[row][pixel]


def test_network_errs_more_often_than_after_random_steps(splits, perturbed_sets):
    net, plain = network().fit(splits.train.X, splits.train.y), perturbed_sets[0].X
    predictions = net.predict(plain)
    blind = np.clip(
        plain
        + perturbed_sets[1].params["epsilon"]
        * np.random.default_rng(0).choice([-1, 1], plain.shape),
        0,
        1,
    )
    changed = [
        (net.predict(X) != predictions).mean()
        for X in (blind, perturbed_sets[1].X, perturbed_sets[2].X)
    ]
    assert changed[0] < 0.5 * changed[1] < changed[1] < changed[2]


def test_same_generator_gives_the_same_images(splits):
    source = FastGradientSign(network(max_epochs=1, random_state=None), epsilons=[8], n=5)
    first, repeated, other_seed = (
        next(iter(source.sets(splits, np.random.default_rng(seed)))).X for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, repeated)
    assert not np.array_equal(first, other_seed)


def test_perturbed_test_rows_keep_their_row_numbers(splits, perturbed_sets):
    place = {row: i for i, row in enumerate(splits.test.source_rows.tolist())}
    for perturbed in perturbed_sets:
        assert perturbed.source_rows.tolist() == perturbed_sets[0].source_rows.tolist()
    unperturbed = splits.test.X[[place[row] for row in perturbed_sets[0].source_rows.tolist()]]
    np.testing.assert_array_equal(perturbed_sets[0].X, unperturbed)  # by 0 intensities


class GreySource:
    """Source of two grey images that records when it is prefetched."""

    fetched = False

    def prefetch(self, progress=None) -> None:
        self.fetched = True

    def sets(self, splits, rng):
        return [
            OodSet(
                "grey",
                np.full((2, *splits.train.X.shape[1:]), 0.5, np.float32),
                {"shade": 0.5},
                facts={"rows": "2"},
            )
        ]


def test_images_of_another_source_keep_name_and_facts(splits):
    source = FastGradientSign(network(max_epochs=1), GreySource(), epsilons=[2])
    source.prefetch()
    (perturbed,) = source.sets(splits, np.random.default_rng(0))
    assert (
        source.images.fetched
        and perturbed.name == "grey"
        and perturbed.params == {"shade": 0.5, "epsilon": 2 / 255}
    )
    assert perturbed.facts["rows"] == "2" and perturbed.facts["perturbed"].startswith(
        "2/255 against a network of test accuracy "
    )


@pytest.fixture
def fit_row_counts(monkeypatch) -> list[int]:
    """Return a list that gets the number of rows whenever a network is trained."""
    row_counts, fit = [], ConvolutionalNetwork.fit

    def noted(self, X, y, *args):
        row_counts.append(len(X))
        return fit(self, X, y, *args)

    monkeypatch.setattr(ConvolutionalNetwork, "fit", noted)
    _network_cache.clear()
    return row_counts


class UnavailableSource:
    """Source whose images are not available."""

    def sets(self, splits, rng):
        raise DataNotAvailable("no images here")


def test_nothing_is_trained_for_unavailable_images(splits, fit_row_counts):
    with pytest.raises(DataNotAvailable):
        next(
            iter(
                FastGradientSign(network(), UnavailableSource()).sets(
                    splits, np.random.default_rng(0)
                )
            )
        )
    assert fit_row_counts == []


def test_sets_share_one_network_unless_rows_or_settings_differ(splits, fit_row_counts):
    little = network(max_epochs=1, random_state=None)
    sources = {
        key: FastGradientSign(network(max_epochs=1, random_state=None), n=n, epsilons=[8])
        for key, n in (("few", 5), ("more", 9))
    }
    first, second = CompositeOod(sources).sets(splits, np.random.default_rng(0))
    assert (
        len(first.X) == 5
        and len(second.X) == 9
        and first.facts == second.facts
        and fit_row_counts == [400]
    )
    assert _train_cached(little, splits.train) is _train_cached(
        network(max_epochs=1, random_state=None), splits.train
    )
    _train_cached(little, splits.calibration)
    _train_cached(network(max_epochs=2), splits.calibration)
    assert fit_row_counts == [400, 100, 100] and len(_network_cache) == _MAX_CACHED_NETWORKS
    # The network is no longer cached, and is trained again.
    repeated = CompositeOod(sources).sets(splits, np.random.default_rng(0))
    np.testing.assert_array_equal(next(iter(repeated)).X, first.X)
    assert len(fit_row_counts) == 4


def test_rejects_rows_that_are_not_images():
    with pytest.raises(
        ParameterError,
        match=r"network must be a classifier of kdgraph\.parents\.networks, got ExtraTrees",
    ):
        FastGradientSign(ExtraTreesClassifier())
    vectors = Dataset.from_labels("rows", np.zeros((4, 2)), np.arange(4) % 2)
    with pytest.raises(DataError, match="rows has vectors, and only images can be perturbed"):
        next(
            iter(
                FastGradientSign(network()).sets(
                    Splits(vectors, vectors, vectors), np.random.default_rng(0)
                )
            )
        )
