from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, uniform

from kdgraph.data import Dataset
from kdgraph.data.ood.synthetic import (
    Annulus,
    Box,
    GaussianNoise,
    Sphere,
    largest_norm,
    random_directions,
)
from kdgraph.data.scaling import Scaling
from kdgraph.errors import DataError, ParameterError
from tests.data.ood.splits import identical_splits


def gaussian_table(d: int, n: int = 500) -> Dataset:
    rng = np.random.default_rng(9)
    X = rng.normal(size=(n, d)) * np.arange(1, d + 1) + 10
    return Dataset.from_labels("toy", X, np.arange(n) % 2)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("draw", ["uniform", "cube"])
@pytest.mark.parametrize("d", [1, 2, 64])
def test_radius_is_exact(draw, d):
    """Allow a relative error of 4e-15: a few roundings of 1e-15 each."""
    for ood in Sphere(radii=[0, 0.5, 3, 1e6], n=200, draw=draw).sets(
        identical_splits(gaussian_table(d)), rng()
    ):
        assert ood.name == "sphere"
        assert ood.X.shape == (200, d)
        np.testing.assert_allclose(np.linalg.norm(ood.X, axis=1), ood.params["radius"], rtol=4e-15)


def test_each_radius_has_a_set_in_order():
    assert [ood.params for ood in Sphere().sets(identical_splits(gaussian_table(2)), rng())] == [
        {"radius": r / 2} for r in range(11)
    ]


def test_sets_do_not_depend_on_other_radii():
    fewer_sets = {
        ood.params["radius"]: ood.X
        for ood in Sphere(radii=[1, 3]).sets(identical_splits(gaussian_table(3)), rng())
    }
    all_sets = {
        ood.params["radius"]: ood.X
        for ood in Sphere(radii=[0.5, 1, 2, 3]).sets(identical_splits(gaussian_table(3)), rng())
    }
    np.testing.assert_array_equal(fewer_sets[1], all_sets[1])
    np.testing.assert_array_equal(fewer_sets[3], all_sets[3])
    assert not np.allclose(all_sets[1] * 2, all_sets[2])


def angle_p_value(draw: str) -> float:
    x = random_directions(20_000, 2, rng(), draw)
    angle = np.arctan2(x[:, 1], x[:, 0]) % (np.pi / 2)
    return chisquare(np.histogram(angle, bins=16, range=(0, np.pi / 2))[0]).pvalue


def test_only_uniform_directions_are_uniform_on_the_circle():
    assert angle_p_value("uniform") > 1e-3
    assert angle_p_value("cube") < 1e-50


def test_uniform_directions_are_uniform_on_the_sphere():
    """Check Archimedes' theorem: coordinates of uniform directions in 3-d are uniform on (-1, 1).

    Those of directions drawn from the cube are not.
    """
    assert kstest(random_directions(20_000, 3, rng())[:, 0], uniform(-1, 2).cdf).pvalue > 1e-3
    assert (
        kstest(random_directions(20_000, 3, rng(), "cube")[:, 0], uniform(-1, 2).cdf).pvalue < 1e-6
    )


@pytest.mark.parametrize("d", [1, 2, 5])
def test_annulus_is_uniform_by_volume(d):
    ood = Annulus(inner=1, outer=3, n=20_000).sets(identical_splits(gaussian_table(d)), rng())[0]
    radius = np.linalg.norm(ood.X, axis=1)
    assert radius.min() >= 1 - 1e-12
    assert radius.max() <= 3 + 1e-12
    assert kstest((radius**d - 1) / (3**d - 1), "uniform").pvalue > 1e-3
    assert ood.params == {"inner": 1.0, "outer": 3.0}


def test_annulus_concentrates_at_its_outer_radius_in_many_dimensions():
    radius = np.linalg.norm(
        Annulus(2, 5).sets(identical_splits(gaussian_table(784)), rng())[0].X, axis=1
    )
    assert radius.min() > 4.9
    assert radius.max() <= 5 + 1e-12


def test_box_is_uniform_outside_its_hole():
    X = Box(low=-2, high=2, n=40_000).sets(identical_splits(gaussian_table(2)), rng())[0].X
    assert (np.abs(X) > 1).any(axis=1).all()
    counts = np.histogram2d(X[:, 0], X[:, 1], bins=8, range=[[-2, 2]] * 2)[0].ravel()
    assert (counts == 0).sum() == 16
    assert chisquare(counts[counts > 0]).pvalue > 1e-3


def test_box_without_a_hole():
    X = (
        Box(low=0, high=255, hole=None, n=5000)
        .sets(identical_splits(gaussian_table(3)), rng())[0]
        .X
    )
    assert X.shape == (5000, 3)
    assert kstest(X.ravel() / 255, "uniform").pvalue > 1e-3


def test_gaussian_noise_has_standard_or_training_moments():
    """Compare moments of 5000 rows: means within 5 standard errors, deviations within 6 %."""
    data = gaussian_table(3)
    for like, mean, std in (
        ("standard", np.zeros(3), np.full(3, 2.0)),
        ("train", data.X.mean(axis=0), 2 * data.X.std(axis=0)),
    ):
        X = GaussianNoise(std=2, like=like, n=5000).sets(identical_splits(data), rng())[0].X
        assert (np.abs(X.mean(axis=0) - mean) < 5 * std / np.sqrt(5000)).all()
        np.testing.assert_allclose(X.std(axis=0), std, rtol=0.06)


@pytest.mark.parametrize(
    "ood", [Sphere(), Annulus(), Box(), GaussianNoise()], ids=lambda o: type(o).__name__
)
def test_rows_are_reproducible_by_seed(ood):
    a, b, c = (
        np.concatenate([s.X for s in ood.sets(identical_splits(gaussian_table(2)), rng(seed))])
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def random_images(n: int = 300) -> Dataset:
    X = np.random.default_rng(9).random((n, 2, 3, 4), dtype=np.float32) ** 2
    return Dataset.from_labels("toy", X, np.arange(n) % 2)


@pytest.mark.parametrize("unit", ["feature", "max_norm"])
@pytest.mark.parametrize("data", [gaussian_table(3), random_images()], ids=["vectors", "images"])
def test_unit_of_the_radius_is_a_feature_or_the_largest_norm(data, unit):
    """Allow a relative error of 1e-7: float32 pixels are rounded by 6e-8 each."""
    largest = (
        max(np.linalg.norm(row.ravel().astype(np.float64)) for row in data.X)
        if unit == "max_norm"
        else 1.0
    )
    ood_sets = list(Sphere(radii=[0.5, 2], n=50, unit=unit).sets(identical_splits(data), rng()))
    assert [ood.params for ood in ood_sets] == [{"radius": 0.5}, {"radius": 2.0}]
    for ood in ood_sets:
        norms = np.linalg.norm(ood.X.reshape(50, -1).astype(np.float64), axis=1)
        np.testing.assert_allclose(norms, ood.params["radius"] * largest, rtol=1e-7)


def test_units_agree_after_max_norm_scaling():
    data = gaussian_table(3)
    scaled = Dataset(
        "toy",
        Scaling.fit(data.X, "max_norm").apply(data.X),
        data.y,
        data.classes,
        data.feature_names,
    )
    a, b = (
        np.concatenate([s.X for s in Sphere(unit=unit).sets(identical_splits(scaled), rng())])
        for unit in ("feature", "max_norm")
    )
    np.testing.assert_allclose(a, b, rtol=1e-14)


def test_largest_norm_does_not_depend_on_the_blocks():
    X = gaussian_table(5).X
    assert largest_norm(X, 7) == largest_norm(X, 1000) == np.linalg.norm(X, axis=1).max()


@pytest.mark.parametrize(
    "ood",
    [Sphere(), Annulus(), Box(), GaussianNoise(), GaussianNoise(like="train")],
    ids=lambda o: type(o).__name__,
)
def test_ood_rows_have_shape_and_type_of_training_rows(ood):
    data = random_images()
    flat = Dataset.from_labels("toy", data.X.reshape(len(data.X), -1), data.y)
    for image_set, vector_set in zip(
        ood.sets(identical_splits(data), rng()),
        ood.sets(identical_splits(flat), rng()),
        strict=True,
    ):
        assert image_set.X.shape == (1000, 2, 3, 4)
        assert image_set.X.dtype == np.float32
        assert vector_set.X.dtype == np.float64
        np.testing.assert_array_equal(
            image_set.X.reshape(1000, -1), vector_set.X.astype(np.float32)
        )


def test_spheres_are_drawn_on_demand():
    ood_sets = Sphere(n=10**9, radii=[1]).sets(identical_splits(gaussian_table(2)), rng())
    assert iter(ood_sets) is ood_sets


def mixed_table(n: int = 400) -> Dataset:
    """Return a number, a category that depends on it, and a number with missing values."""
    random = np.random.default_rng(5)
    category = random.integers(3, size=n).astype(float)
    X = np.column_stack([category + 0.1 * random.normal(size=n), category, random.normal(size=n)])
    X[::4, 2] = np.nan
    return Dataset.from_labels("toy", X, np.arange(n) % 2, categories=(None, ("a", "b", "c"), None))


@pytest.mark.parametrize(
    "sampler",
    [Sphere([2.0], n=300), Annulus(n=300), Box(n=300, hole=None), GaussianNoise(n=300)],
    ids=lambda s: type(s).__name__,
)
def test_categories_of_ood_rows_are_those_of_training_rows(sampler):
    first, repeated = (
        next(iter(sampler.sets(identical_splits(mixed_table()), rng()))).X for _ in range(2)
    )
    np.testing.assert_array_equal(first, repeated)
    assert first.shape == (300, 3) and np.isfinite(first).all()
    counts = np.bincount(first[:, 1].astype(int), minlength=3)
    assert (
        chisquare(counts, 300 * np.bincount(mixed_table().X[:, 1].astype(int)) / 400).pvalue > 1e-3
    )
    if isinstance(sampler, Sphere):
        np.testing.assert_allclose(np.linalg.norm(first[:, [0, 2]], axis=1), 2.0, rtol=4e-15)


def test_gaussian_noise_ignores_missing_training_values():
    (noise,) = GaussianNoise(n=20_000, like="train").sets(identical_splits(mixed_table()), rng())
    present_values = mixed_table().X[:, 2][~np.isnan(mixed_table().X[:, 2])]
    assert noise.X[:, 2].mean() == pytest.approx(
        present_values.mean(), abs=0.03
    )  # 4 standard errors of 20,000 rows
    assert noise.X[:, 2].std() == pytest.approx(
        np.sqrt(0.75) * present_values.std(), abs=0.03
    )  # a quarter sits at the mean


def test_table_without_numeric_features_is_refused():
    train = Dataset.from_labels("car", np.zeros((4, 1)), np.arange(4) % 2, categories=(("a",),))
    message = (
        "^car has no numeric feature, and these rows out of distribution are points in space; give"
        " ood=none$"
    )
    with pytest.raises(DataError, match=message):
        list(Sphere().sets(identical_splits(train), rng()))


def test_gaussian_noise_can_be_clipped():
    unclipped, clipped = (
        GaussianNoise(n=50, clip=ends).sets(identical_splits(mixed_table()), rng())[0].X[:, [0, 2]]
        for ends in (None, (0, 1))
    )
    assert unclipped.min() < 0 and unclipped.max() > 1
    np.testing.assert_array_equal(clipped, unclipped.clip(0, 1))
    with pytest.raises(
        ParameterError, match=r"clip must be two increasing ends, or null, got .1, 0."
    ):
        GaussianNoise(clip=(1, 0))
