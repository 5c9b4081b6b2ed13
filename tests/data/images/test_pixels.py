"""Images made images of another shape, against Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from kdgraph.data.images.pixels import match_image_shape, resize_images


def images(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, *shape), dtype=np.float32)


@pytest.mark.parametrize(("height", "width"), [(28, 28), (32, 32), (8, 12), (50, 17), (1, 1)])
def test_sizes_change_as_pillow_changes_them(height, width):
    """Pillow keeps float32 between its two passes, so 1e-6 is a few of its roundings."""
    X = images(3, 2, 28, 20)
    expected = [
        [
            np.asarray(Image.fromarray(channel).resize((width, height), Image.Resampling.BILINEAR))
            for channel in x
        ]
        for x in X
    ]
    np.testing.assert_allclose(resize_images(X, height, width), expected, atol=2e-6)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_no_intensity_leaves_the_range_and_one_grey_stays_so(h, w, height, width):
    X = images(2, 1, h, w)
    out = resize_images(X, height, width)
    assert out.shape == (2, 1, height, width)
    assert out.min() >= X.min() - 1e-6 and out.max() <= X.max() + 1e-6
    np.testing.assert_allclose(resize_images(np.full_like(X, 0.25), height, width), 0.25, rtol=1e-6)


def test_the_same_shape_is_left_alone():
    X = images(2, 3, 4, 5)
    out, done = match_image_shape((3, 4, 5), X)
    assert done == []
    np.testing.assert_array_equal(out, X)


def test_colours_become_their_luma():
    X = np.zeros((3, 3, 2, 2), dtype=np.float32)
    X[[0, 1, 2], [0, 1, 2]] = 1  # a red, a green and a blue image
    out, done = match_image_shape((1, 2, 2), X)
    np.testing.assert_allclose(out[:, 0, 0, 0], [0.299, 0.587, 0.114], rtol=1e-6)
    assert (
        out.shape == (3, 1, 2, 2)
        and out.dtype == np.float32
        and done == ["grey from colours (Rec. 601 luma)"]
    )


def test_white_stays_white():
    """Weights of float32 sum to 1 within 6e-8; what an image cannot hold is cut off."""
    out, _ = match_image_shape((1, 7, 5), np.ones((2, 3, 9, 9), dtype=np.float32))
    assert out.max() <= 1
    np.testing.assert_allclose(out, 1, rtol=1e-6)


def test_grey_is_repeated_and_everything_is_told():
    X = images(2, 1, 28, 28)
    out, done = match_image_shape((3, 32, 32), X)
    assert out.shape == (2, 3, 32, 32) and out.flags.c_contiguous
    np.testing.assert_array_equal(out[:, 0], out[:, 2])
    assert done == ["resized from 28×28 to 32×32 (bilinear)", "grey repeated in 3 channels"]


def test_two_channels_cannot_become_three():
    with pytest.raises(
        ValueError,
        match=r"^images of 2 channels cannot become images of 3; only 1 and 3 can be exchanged$",
    ):
        match_image_shape((3, 4, 4), images(1, 2, 4, 4))
