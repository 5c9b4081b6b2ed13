from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data import Dataset, make_splits
from kdgraph.data.ood.shifts import ShapeShifts
from kdgraph.data.simulations import Shapes
from kdgraph.errors import DataError, ParameterError
from tests.data.ood import trained

LIT = np.float32(127 / 255)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def train() -> Dataset:
    return make_splits(Shapes(), n_train=8, n_calibration=8, n_test=8, rng=rng()).train


def sets(train, **parameters) -> dict[tuple[str, float], np.ndarray]:
    found = ShapeShifts(
        **{"n": 20, "intensities": [], "epsilons": [], "axes": [], **parameters}
    ).sets(trained.on(train), rng())
    return {(one.name, *one.params.values()): one.X for one in found}


def areas(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 0).sum(axis=(1, 2))


def test_each_value_makes_one_set_like_the_training_images(train):
    found = list(ShapeShifts(n=3).sets(trained.on(train), rng()))
    assert [(one.name, one.params) for one in found[:2]] == [
        ("intensity", {"intensity": 0.0}),
        ("intensity", {"intensity": 16.0}),
    ]
    assert [
        sum(one.name == name for one in found) for name in ("intensity", "blend", "ellipse")
    ] == [17, 11, 13]
    assert {tuple(one.params) for one in found} == {("intensity",), ("epsilon",), ("axis",)}
    for one in found:
        assert one.X.shape == (3, *train.X.shape[1:])
        assert one.X.dtype == train.X.dtype
        assert one.X.min() >= 0 and one.X.max() <= 1
    assert {one.name: one.id_values for one in found} == {
        "intensity": (127.0,),
        "blend": (0.0, 1.0),
        "ellipse": (10.0,),
    }


def test_sets_are_drawn_when_they_are_asked_for(train):
    found = ShapeShifts(n=10**9, intensities=[127]).sets(trained.on(train), rng())
    assert iter(found) is found


def test_intensity_changes_nothing_but_the_intensity(train):
    found = sets(train, intensities=[0, 32, 255])
    assert not found["intensity", 0.0].any()
    for value in (32, 255):
        X = found["intensity", float(value)]
        assert np.unique(X).tolist() == [0, np.float32(value / 255)]
        area = areas(X)
        assert (area == 1000).sum() == 10 == ((area > 300) & (area < 330)).sum()


def test_a_blend_is_the_convex_combination_of_both(train):
    """Eq. 20: brightness ε on the circle, 1 - ε on the rectangle, their sum where both lie; to one
    rounding of float32.
    """
    found = sets(train, epsilons=[0, 0.3, 1])
    assert (areas(found["blend", 0.0]) == 1000).all()
    assert (np.abs(areas(found["blend", 1.0]) - 100 * np.pi) < 15).all()
    for row in found["blend", 0.3][:, 0]:
        circle, rectangle, both = (
            np.isclose(row, share * LIT, rtol=1e-6).sum() for share in (0.3, 0.7, 1.0)
        )
        assert rectangle + both == 1000
        assert 305 <= circle + both <= 325
        assert circle + rectangle + both == (row > 0).sum()


def test_one_axis_of_the_ellipses_grows(train):
    """Area π · axis · 10 on average over 20 images; the rim of 120 pixels is half in, half out: 2
    %.
    """
    found = sets(train, axes=[0.01, 5, 10, 40])
    for axis in (5.0, 10.0, 40.0):
        X = found["ellipse", axis]
        assert areas(X).mean() == pytest.approx(10 * np.pi * axis, rel=0.02)
        assert set((X[:, 0] > 0).any(axis=2).sum(axis=1)) <= {19, 20}
        assert set((X[:, 0] > 0).any(axis=1).sum(axis=1)) <= {2 * axis - 1, 2 * axis}
        assert set(np.unique(X)) == {0, LIT}
    assert (found["ellipse", 0.01] > 0).any(axis=(1, 2, 3)).all()


def test_a_value_more_changes_no_other_set(train):
    few = sets(train, intensities=[64], epsilons=[0.5], axes=[20])
    many = sets(train, intensities=[0, 64], epsilons=[0.2, 0.5, 1], axes=[1, 20])
    assert len(many) == 7
    for key, X in few.items():
        np.testing.assert_array_equal(X, many[key])
    same_number = sets(train, intensities=[10], axes=[10])
    assert not np.array_equal(same_number["intensity", 10.0] > 0, same_number["ellipse", 10.0] > 0)


def test_size_and_channels_are_the_training_images():
    small = make_splits(
        Shapes(size=32, channels=1, sides=[20, 8], radius=4),
        n_train=8,
        n_calibration=8,
        n_test=8,
        rng=rng(),
    ).train
    X = sets(small, axes=[4], radius=4, sides=[20, 8])["ellipse", 4.0]
    assert X.shape == (20, 1, 32, 32)


def test_what_cannot_be_shifted(train):
    vectors = Dataset.from_labels("toy", np.zeros((4, 2)), np.array([0, 1, 0, 1]))
    message = (
        r"^shifts of shapes need square images, and toy has rows of shape \(2,\); choose"
        r" dataset=shapes or another ood$"
    )
    with pytest.raises(DataError, match=message):
        next(ShapeShifts().sets(trained.on(vectors), rng()))
    message = (
        "^a shape 120 pixels wide does not fit into images of 100; raise size, make the shape"
        " smaller, or set inside to false$"
    )
    with pytest.raises(ParameterError, match=message):
        sets(train, axes=[60])
    with pytest.raises(
        ParameterError, match=r"^epsilons must be a list of which each is in \[0, 1\], got \[2\]$"
    ):
        ShapeShifts(epsilons=[2])
    with pytest.raises(
        ParameterError, match=r"^sides must be a width and a height, got \[1, 2, 3\]$"
    ):
        ShapeShifts(sides=[1, 2, 3])
