"""Images moved against a network: how far, in which direction, and what that does to the
network.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.ood import CompositeOod
from kdgraph.errors import DataError, NotAtHand, ParameterError
from kdgraph.parents.networks import ConvolutionalNetwork, FastGradientSign
from kdgraph.parents.networks.gradient_sign import (
    _MAX_CACHED_NETWORKS,
    _network_cache,
    _train_cached,
)


def network(**more) -> ConvolutionalNetwork:
    return ConvolutionalNetwork(
        learning_rate=0.01,
        batch_size=32,
        **{"max_epochs": 6, "device": "cpu", "random_state": 0, **more},
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
def moved(splits) -> list[OodSet]:
    return list(
        FastGradientSign(network(), levels=[0, 20, 60], n=150).sets(
            splits, np.random.default_rng(0)
        )
    )


def test_each_pixel_moves_by_epsilon_and_stays_a_pixel(splits, moved):
    plain, *others = moved
    assert [found.params["epsilon"] for found in moved] == [0, 20 / 255, 60 / 255] and {
        found.name for found in moved
    } == {"fgsm"}
    known = {image.tobytes() for image in splits.test.X}
    assert len(plain.X) == 150 and all(image.tobytes() in known for image in plain.X)
    for found in others:
        step = found.X - plain.X
        assert found.X.dtype == np.float32 and found.X.min() >= 0 and found.X.max() <= 1
        inside = (found.X > 0) & (found.X < 1) & (step != 0)
        np.testing.assert_allclose(
            np.abs(step[inside]), found.params["epsilon"], atol=1e-6
        )  # float32 near 1
        assert inside.mean() > 0.3


def test_the_loss_rises_where_a_pixel_moves(splits, moved):
    """By differences of the loss itself, of a network that is trained here."""
    net, images = network().fit(splits.train.X, splits.train.y), moved[0].X[:20]
    sign, predicted = np.sign(moved[1].X - moved[0].X)[:20], net.predict(images)
    rng = np.random.default_rng(0)
    for row in range(20):
        pixel = (0, *rng.integers(8, size=2))
        at, step = np.repeat(images[row : row + 1], 2, axis=0), 0.02
        at[1][pixel] += step
        loss = -log_softmax(net.logits(at), axis=1)[:, predicted[row]]
        if (
            sign[row][pixel] and abs(loss[1] - loss[0]) > 1e-4
        ):  # else within rounding, or cut off at the end of its range
            assert np.sign(loss[1] - loss[0]) == sign[row][pixel]


def test_the_network_is_wrong_more_often_than_after_steps_that_know_nothing(splits, moved):
    net, plain = network().fit(splits.train.X, splits.train.y), moved[0].X
    said = net.predict(plain)
    blind = np.clip(
        plain + moved[1].params["epsilon"] * np.random.default_rng(0).choice([-1, 1], plain.shape),
        0,
        1,
    )
    changed = [(net.predict(X) != said).mean() for X in (blind, moved[1].X, moved[2].X)]
    assert changed[0] < 0.5 * changed[1] < changed[1] < changed[2]


def test_the_same_generator_gives_the_same_images(splits):
    source = FastGradientSign(network(max_epochs=1, random_state=None), levels=[8], n=5)
    one, again, other = (
        next(iter(source.sets(splits, np.random.default_rng(seed)))).X for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_moved_test_rows_keep_their_numbers(splits, moved):
    place = {row: i for i, row in enumerate(splits.test.source_rows.tolist())}
    for drawn in moved:
        assert drawn.source_rows.tolist() == moved[0].source_rows.tolist()
    unmoved = splits.test.X[[place[row] for row in moved[0].source_rows.tolist()]]
    np.testing.assert_array_equal(moved[0].X, unmoved)  # by 0 intensities


class Grey:
    """A source of two grey images; it says when it is asked to be there."""

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


def test_images_of_another_source_keep_its_name_and_facts(splits):
    source = FastGradientSign(network(max_epochs=1), Grey(), levels=[2])
    source.prefetch()
    (found,) = source.sets(splits, np.random.default_rng(0))
    assert (
        source.of.fetched
        and found.name == "grey"
        and found.params == {"shade": 0.5, "epsilon": 2 / 255}
    )
    assert found.facts["rows"] == "2" and found.facts["moved"].startswith(
        "2/255 against a network of test accuracy "
    )


@pytest.fixture
def fitted(monkeypatch) -> list[int]:
    """Grows by the number of rows whenever a network is trained."""
    found, fit = [], ConvolutionalNetwork.fit

    def noted(self, X, y, *more):
        found.append(len(X))
        return fit(self, X, y, *more)

    monkeypatch.setattr(ConvolutionalNetwork, "fit", noted)
    _network_cache.clear()
    return found


class Absent:
    """A source of images that are not here."""

    def sets(self, splits, rng):
        raise NotAtHand("no images here")


def test_nothing_is_trained_for_images_that_are_not_at_hand(splits, fitted):
    with pytest.raises(NotAtHand):
        next(iter(FastGradientSign(network(), Absent()).sets(splits, np.random.default_rng(0))))
    assert fitted == []


def test_several_sets_are_moved_against_one_network_and_other_rows_or_settings_against_another(
    splits, fitted
):
    little = network(max_epochs=1, random_state=None)
    sources = {
        key: FastGradientSign(network(max_epochs=1, random_state=None), n=n, levels=[8])
        for key, n in (("few", 5), ("more", 9))
    }
    few, more = CompositeOod(sources).sets(splits, np.random.default_rng(0))
    assert len(few.X) == 5 and len(more.X) == 9 and few.facts == more.facts and fitted == [400]
    assert _train_cached(little, splits.train) is _train_cached(
        network(max_epochs=1, random_state=None), splits.train
    )
    _train_cached(little, splits.calibration)
    _train_cached(network(max_epochs=2), splits.calibration)
    assert fitted == [400, 100, 100] and len(_network_cache) == _MAX_CACHED_NETWORKS
    again = CompositeOod(sources).sets(
        splits, np.random.default_rng(0)
    )  # it is forgotten by now, and trained as before
    np.testing.assert_array_equal(next(iter(again)).X, few.X)
    assert len(fitted) == 4


def test_what_cannot_be_moved_is_told():
    with pytest.raises(
        ParameterError,
        match=r"network must be a classifier of kdgraph\.parents\.networks, got ExtraTrees",
    ):
        FastGradientSign(ExtraTreesClassifier())
    vectors = Dataset.from_labels("rows", np.zeros((4, 2)), np.arange(4) % 2)
    with pytest.raises(DataError, match="rows has vectors, and images are moved here"):
        next(
            iter(
                FastGradientSign(network()).sets(
                    Splits(vectors, vectors, vectors), np.random.default_rng(0)
                )
            )
        )
