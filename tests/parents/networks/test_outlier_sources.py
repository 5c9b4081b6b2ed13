"""Outlier sources: shape, range and distribution of outliers, and rows of another data set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import kstest

from kdgraph.data.dataset import TEST, TRAIN, UNUSED, Dataset
from kdgraph.data.simulations import Spiral
from kdgraph.errors import DataError, ParameterError
from kdgraph.parents.networks.outlier_sources import (
    DatasetOutliers,
    MixedOutliers,
    NoiseOutliers,
    PermutedOutliers,
    outlier_source_from_name,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def vectors() -> np.ndarray:
    """Return vectors whose second feature is a function of the first."""
    first = rng().random(500, dtype=np.float32)
    return np.column_stack([first, 10 + 2 * first]).astype(np.float32)


def images() -> np.ndarray:
    return (rng().random((40, 3, 6, 5), dtype=np.float32) < 0.3).astype(np.float32)


ALL = [NoiseOutliers(), PermutedOutliers(smoothed_fraction=0.5), outlier_source_from_name("mixed")]


@pytest.mark.parametrize("outliers", ALL, ids=["noise", "permuted", "mixed"])
@pytest.mark.parametrize("rows", [vectors(), images()], ids=["vectors", "images"])
def test_outliers_have_training_shape_and_depend_on_generator(outliers, rows):
    before, draw = rows.copy(), outliers.make_sampler(rows, rng())
    first_draw, second_draw, other_seed = draw(33, rng(1)), draw(33, rng(1)), draw(33, rng(2))
    assert first_draw.shape == (33, *rows.shape[1:]) and first_draw.dtype == np.float32
    np.testing.assert_array_equal(first_draw, second_draw)
    assert not np.array_equal(first_draw, other_seed)
    assert (first_draw >= rows.min(axis=0) - 1e-6).all() and (
        first_draw <= rows.max(axis=0) + 1e-6
    ).all()
    np.testing.assert_array_equal(rows, before)


def test_noise_fills_the_box_and_its_margin():
    samples = NoiseOutliers(margin=0.5).make_sampler(vectors(), rng())(4000, rng(1))
    low, high = vectors().min(axis=0), vectors().max(axis=0)
    for column, start, width in zip(
        samples.T, low - 0.5 * (high - low), 2 * (high - low), strict=True
    ):
        assert kstest(column, "uniform", args=(start, width)).pvalue > 0.01
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.05


def test_permuted_columns_keep_values_and_lose_dependence():
    X = vectors()
    samples = PermutedOutliers().make_sampler(X, rng())(4000, rng(1))
    assert np.isin(samples[:, 0], X[:, 0]).all() and np.isin(samples[:, 1], X[:, 1]).all()
    assert abs(np.corrcoef(samples.T)[0, 1]) < 0.05 < 0.99 < np.corrcoef(X.T)[0, 1]
    assert len(np.unique(samples[:, 0])) > 0.99 * len(X)  # each is drawn eight times in the mean


def test_pixels_are_permuted_within_an_image_alike_in_all_channels():
    X = images()
    samples = PermutedOutliers().make_sampler(X, rng())(50, rng(1))
    colours = {tuple(sorted(map(tuple, image.reshape(3, -1).T.tolist()))) for image in X}
    result = [tuple(sorted(map(tuple, image.reshape(3, -1).T.tolist()))) for image in samples]
    assert set(result) <= colours and len(set(result)) > 20
    assert not any((image == original).all() for image in samples for original in X)


def test_smoothed_images_are_filtered_and_rescaled():
    X = rng().random((200, 1, 12, 12), dtype=np.float32)
    rough, smooth, half = (
        NoiseOutliers(smoothed_fraction=fraction).make_sampler(X, rng())(200, rng(3))
        for fraction in (0.0, 1.0, 0.5)
    )
    chosen, width = rng(3), None
    noise = chosen.random((200, 1, 12, 12), dtype=np.float32)
    chosen.random(200)
    width = chosen.uniform(1.0, 2.5)
    np.testing.assert_array_equal(rough, noise)
    for image, plain in zip(smooth, noise, strict=True):
        filtered = gaussian_filter(plain[0], width)
        np.testing.assert_allclose(
            image[0], (filtered - filtered.min()) / np.ptp(filtered), atol=1e-5
        )
    changed = (half != rough).any(axis=(1, 2, 3))
    assert 0.35 < changed.mean() < 0.65
    assert np.abs(np.diff(smooth, axis=3)).mean() < 0.5 * np.abs(np.diff(rough, axis=3)).mean()


def test_mixture_contains_all_sources_in_random_order():
    X = np.zeros((5, 1), dtype=np.float32)
    X[0] = 1
    parts = {"noise": NoiseOutliers(), "permuted": PermutedOutliers()}
    samples = MixedOutliers(sources=parts).make_sampler(X, rng())(1001, rng(1))[:, 0]
    of_rows = np.isin(samples, [0, 1])
    assert of_rows.sum() in (500, 501) and 200 < of_rows[:500].sum() < 300
    with pytest.raises(
        ParameterError,
        match=r"^outliers.sources must have at least one kind of outliers, got none$",
    ):
        MixedOutliers(sources={}).check("outliers.")
    with pytest.raises(
        ParameterError, match=r"^outliers.sources.a.margin must be in \[0, inf\), got -1$"
    ):
        MixedOutliers(sources={"a": NoiseOutliers(margin=-1)}).check("outliers.")


# rows of another data set


class TableSource:
    """Source of a table with given fields."""

    name = "other"

    def __init__(self, X, y, roles=None):
        self.X, self.y, self.roles = X, y, roles

    def load(self) -> Dataset:
        return Dataset.from_labels("other", self.X, self.y, roles=self.roles)


class UnlabelledSource(TableSource):
    """Source of images without labels, as read from a folder."""

    def __init__(self, X, roles):
        super().__init__(X, np.zeros(len(X), dtype=int), roles)

    def load(self) -> Dataset:
        return Dataset("other", self.X, self.y, np.array(["none"]), (), roles=self.roles)


def make_labelled_dataset(n: int = 40, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return a data set whose rows contain their class and their row number."""
    y = np.arange(n) % k
    return np.column_stack([y, np.arange(n)]).astype(float), y


def drawn_rows(source, rows=None, **options) -> np.ndarray:
    like = np.zeros((3, 2), dtype=np.float32) if rows is None else rows
    return DatasetOutliers(source=source, **options).make_sampler(like, rng())(600, rng(1))


def test_uses_training_rows_of_half_the_classes():
    X, y = make_labelled_dataset()
    roles = np.where(np.arange(len(y)) < 25, TRAIN, TEST)
    assert set(drawn_rows(TableSource(X, y))[:, 1]) == set(range(40))
    assert set(drawn_rows(TableSource(X, y, roles))[:, 1]) == set(range(25))
    halves = [
        set(drawn_rows(TableSource(X, y, roles), class_half=half)[:, 0])
        for half in ("first", "second")
    ]
    assert halves == [{0, 1}, {2, 3, 4}]
    assert len(set(drawn_rows(TableSource(X, y), n=7)[:, 1])) == 7


def test_unlabelled_images_are_outliers_before_test_images():
    X, _ = make_labelled_dataset()
    assert set(drawn_rows(UnlabelledSource(X, np.full(40, TEST)))[:, 1]) == set(range(40))
    assert set(
        drawn_rows(UnlabelledSource(X, np.where(np.arange(40) < 25, UNUSED, TEST)))[:, 1]
    ) == set(range(25))


def test_images_are_converted_to_the_training_shape():
    X = rng().random((6, 3, 8, 8), dtype=np.float32)
    other_source = TableSource(X, np.arange(6) % 2)
    grey = drawn_rows(other_source, np.zeros((2, 1, 4, 4), dtype=np.float32))
    assert grey.shape == (600, 1, 4, 4) and len(np.unique(grey[:, 0, 0, 0])) == 6
    flat = drawn_rows(other_source, np.zeros((2, 192), dtype=np.float32))
    assert set(flat[:, 0]) == set(X[:, 0, 0, 0])


def test_draws_from_a_simulation():
    samples = drawn_rows(Spiral(), n=50)
    assert samples.shape == (600, 2) and len(np.unique(samples[:, 0])) == 50


@pytest.mark.parametrize(
    ("source", "rows", "options", "error", "message"),
    [
        (
            TableSource(*make_labelled_dataset()),
            np.zeros((2, 3)),
            {},
            DataError,
            "rows of other have the shape (2,), and the network requires rows of shape (3,); ",
        ),
        (
            TableSource(*make_labelled_dataset()),
            np.zeros((2, 1, 4, 4)),
            {},
            DataError,
            "rows of other have the shape (2,), and the network requires rows of shape",
        ),
        (
            TableSource(*make_labelled_dataset(), np.full(40, TEST)),
            np.zeros((2, 2)),
            {},
            DataError,
            "other has no training rows to draw outliers from",
        ),
        (
            TableSource(np.full((4, 2), np.nan), [0, 1, 0, 1]),
            np.zeros((2, 2)),
            {},
            DataError,
            "other has missing values, which networks do not accept",
        ),
        (
            TableSource(np.zeros((4, 2, 5, 5)), [0, 1, 0, 1]),
            np.zeros((2, 1, 5, 5)),
            {},
            DataError,
            "other: images of 2 channels cannot become",
        ),
        (
            Spiral(),
            np.zeros((2, 2)),
            {"class_half": "first"},
            ParameterError,
            "class_half must be null, since spiral is a simulation and not divided",
        ),
    ],
)
def test_rejects_rows_of_another_shape(source, rows, options, error, message):
    with pytest.raises(error) as caught:
        drawn_rows(source, rows.astype(np.float32), **options)
    assert str(caught.value).startswith(message)
