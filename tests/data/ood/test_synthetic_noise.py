"""Uniform noise in the shape of the training rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, uniform

from kdgraph.data import Dataset
from kdgraph.data.ood.synthetic import UniformNoise
from kdgraph.data.scaling import Scaling
from kdgraph.errors import ParameterError
from tests.data.ood.splits import identical_splits


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def black_images(**more) -> Dataset:
    return Dataset.from_labels("toy", np.zeros((4, 3, 6, 5)), np.arange(4) % 2, **more)


def test_uniform_noise_pixels_are_independent_and_uniform():
    (ood_set,) = UniformNoise(n=400).sets(identical_splits(black_images()), rng())
    assert (
        ood_set.X.shape == (400, 3, 6, 5)
        and ood_set.X.dtype == np.float32
        and ood_set.name == "noise"
    )
    levels = np.rint(ood_set.X * 255)
    np.testing.assert_allclose(levels / 255, ood_set.X, rtol=1e-7)
    assert chisquare(np.bincount(levels.astype(int).ravel(), minlength=256)).pvalue > 0.01
    neighbour_correlation = np.corrcoef(ood_set.X[..., :-1].ravel(), ood_set.X[..., 1:].ravel())[
        0, 1
    ]
    assert abs(neighbour_correlation) < 0.02  # 4 standard errors of 28,800 pairs


def test_uniform_noise_for_vectors_of_pixels():
    train = Dataset.from_labels(
        "toy", np.zeros((4, 90)), np.arange(4) % 2, facts={"image_shape": [3, 6, 5]}
    )
    (ood_set,) = UniformNoise(n=400).sets(identical_splits(train, Scaling(size=2.0)), rng())
    (expected,) = UniformNoise(n=400).sets(identical_splits(black_images()), rng())
    assert ood_set.X.dtype == np.float64
    np.testing.assert_array_equal(
        np.rint(2 * ood_set.X * 255), np.rint(expected.X.reshape(400, -1) * 255)
    )


def test_uniform_noise_fills_the_ranges_of_the_training_rows():
    X = rng().normal(size=(50, 3)) * [1, 10, 0] + [0, 5, 7]
    X[3, 1] = np.nan
    (ood_set,) = UniformNoise(n=3000).sets(
        identical_splits(Dataset.from_labels("toy", X, np.arange(50) % 2)), rng()
    )
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    for feature in (0, 1):
        assert (
            kstest(
                ood_set.X[:, feature], uniform(low[feature], high[feature] - low[feature]).cdf
            ).pvalue
            > 0.01
        )
    assert (ood_set.X[:, 2] == 7).all()


def test_uniform_noise_draws_from_all_categories():
    X = np.column_stack([np.arange(6.0), [0, 1, 2, 0, 1, np.nan], np.full(6, np.nan)])
    train = Dataset.from_labels(
        "toy", X, np.arange(6) % 2, categories=(None, ("a", "b", "c", "d"), None)
    )
    (ood_set,) = UniformNoise(n=400).sets(identical_splits(train), rng())
    assert chisquare(np.bincount(ood_set.X[:, 1].astype(int), minlength=4)).pvalue > 0.01
    assert np.isnan(ood_set.X[:, 2]).all()  # a feature without any value


def test_n_must_be_positive():
    with pytest.raises(ParameterError, match=r"^n must be in \[1, inf\), got 0$"):
        UniformNoise(n=0)
