from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data import Dataset, make_splits
from kdgraph.data.ood.shifts import ShapeShifts
from kdgraph.data.simulations import Shapes
from kdgraph.errors import DataError, ParameterError
from tests.data.ood.splits import identical_splits

LIT = np.float32(127 / 255)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def train() -> Dataset:
    return make_splits(Shapes(), n_train=8, n_calibration=8, n_test=8, rng=rng()).train


def draw_shape_sets(train, **parameters) -> dict[tuple[str, float], np.ndarray]:
    shape_sets = ShapeShifts(
        **{"n": 20, "intensities": [], "epsilons": [], "axes": [], **parameters}
    ).sets(identical_splits(train), rng())
    return {(ood_set.name, *ood_set.params.values()): ood_set.X for ood_set in shape_sets}


def count_lit_pixels(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 0).sum(axis=(1, 2))


def test_each_value_has_a_set_like_the_training_images(train):
    shape_sets = list(ShapeShifts(n=3).sets(identical_splits(train), rng()))
    assert [(ood_set.name, ood_set.params) for ood_set in shape_sets[:2]] == [
        ("intensity", {"intensity": 0.0}),
        ("intensity", {"intensity": 16.0}),
    ]
    assert [
        sum(ood_set.name == name for ood_set in shape_sets)
        for name in ("intensity", "blend", "ellipse")
    ] == [17, 11, 13]
    assert {tuple(ood_set.params) for ood_set in shape_sets} == {
        ("intensity",),
        ("epsilon",),
        ("axis",),
    }
    for ood_set in shape_sets:
        assert ood_set.X.shape == (3, *train.X.shape[1:])
        assert ood_set.X.dtype == train.X.dtype
        assert ood_set.X.min() >= 0 and ood_set.X.max() <= 1
    assert {ood_set.name: ood_set.id_values for ood_set in shape_sets} == {
        "intensity": (127.0,),
        "blend": (0.0, 1.0),
        "ellipse": (10.0,),
    }


def test_sets_are_drawn_on_demand(train):
    shape_sets = ShapeShifts(n=10**9, intensities=[127]).sets(identical_splits(train), rng())
    assert iter(shape_sets) is shape_sets


def test_intensity_shift_keeps_the_shapes(train):
    images_by_set = draw_shape_sets(train, intensities=[0, 32, 255])
    assert not images_by_set["intensity", 0.0].any()
    for value in (32, 255):
        X = images_by_set["intensity", float(value)]
        assert np.unique(X).tolist() == [0, np.float32(value / 255)]
        area = count_lit_pixels(X)
        assert (area == 1000).sum() == 10 == ((area > 300) & (area < 330)).sum()


def test_blend_is_a_convex_combination_of_both_shapes(train):
    """Check Eq. 20: intensity ε on the circle, 1 - ε on the rectangle, and their sum on both.

    The tolerance is one rounding of float32.
    """
    images_by_set = draw_shape_sets(train, epsilons=[0, 0.3, 1])
    assert (count_lit_pixels(images_by_set["blend", 0.0]) == 1000).all()
    assert (np.abs(count_lit_pixels(images_by_set["blend", 1.0]) - 100 * np.pi) < 15).all()
    for row in images_by_set["blend", 0.3][:, 0]:
        circle, rectangle, overlap = (
            np.isclose(row, weight * LIT, rtol=1e-6).sum() for weight in (0.3, 0.7, 1.0)
        )
        assert rectangle + overlap == 1000
        assert 305 <= circle + overlap <= 325
        assert circle + rectangle + overlap == (row > 0).sum()


def test_ellipses_have_the_axis_of_their_set(train):
    """Check the mean area π · axis · 10 of 20 images within 2 %.

    About half of the 120 pixels at the border of an ellipse are painted.
    """
    images_by_set = draw_shape_sets(train, axes=[0.01, 5, 10, 40])
    for axis in (5.0, 10.0, 40.0):
        X = images_by_set["ellipse", axis]
        assert count_lit_pixels(X).mean() == pytest.approx(10 * np.pi * axis, rel=0.02)
        assert set((X[:, 0] > 0).any(axis=2).sum(axis=1)) <= {19, 20}
        assert set((X[:, 0] > 0).any(axis=1).sum(axis=1)) <= {2 * axis - 1, 2 * axis}
        assert set(np.unique(X)) == {0, LIT}
    assert (images_by_set["ellipse", 0.01] > 0).any(axis=(1, 2, 3)).all()


def test_sets_do_not_depend_on_other_values(train):
    fewer_sets = draw_shape_sets(train, intensities=[64], epsilons=[0.5], axes=[20])
    all_sets = draw_shape_sets(train, intensities=[0, 64], epsilons=[0.2, 0.5, 1], axes=[1, 20])
    assert len(all_sets) == 7
    for key, X in fewer_sets.items():
        np.testing.assert_array_equal(X, all_sets[key])
    same_number = draw_shape_sets(train, intensities=[10], axes=[10])
    assert not np.array_equal(same_number["intensity", 10.0] > 0, same_number["ellipse", 10.0] > 0)


def test_shifted_images_have_the_shape_of_training_images():
    small = make_splits(
        Shapes(size=32, channels=1, sides=[20, 8], radius=4),
        n_train=8,
        n_calibration=8,
        n_test=8,
        rng=rng(),
    ).train
    X = draw_shape_sets(small, axes=[4], radius=4, sides=[20, 8])["ellipse", 4.0]
    assert X.shape == (20, 1, 32, 32)


def test_invalid_shifts_are_refused(train):
    vectors = Dataset.from_labels("toy", np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    message = (
        r"^shifts of shapes need square images, and toy has rows of shape \(2,\); choose"
        r" dataset=shapes or another ood$"
    )
    with pytest.raises(DataError, match=message):
        next(ShapeShifts().sets(identical_splits(vectors), rng()))
    message = (
        "^a shape 120 pixels wide does not fit into images of 100; raise size, make the shape"
        " smaller, or set inside to false$"
    )
    with pytest.raises(ParameterError, match=message):
        draw_shape_sets(train, axes=[60])
    with pytest.raises(
        ParameterError, match=r"^epsilons must be a list of which each is in \[0, 1\], got \[2\]$"
    ):
        ShapeShifts(epsilons=[2])
    with pytest.raises(
        ParameterError, match=r"^sides must be a width and a height, got \[1, 2, 3\]$"
    ):
        ShapeShifts(sides=[1, 2, 3])
