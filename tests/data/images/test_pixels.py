"""Conversion of images to another shape, compared with Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from kdgraph.data.images.pixels import match_image_shape, resize_images


def random_images(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).random((n, *shape), dtype=np.float32)


@pytest.mark.parametrize(("height", "width"), [(28, 28), (32, 32), (8, 12), (50, 17), (1, 1)])
def test_resize_agrees_with_pillow(height, width):
    """Compare with Pillow, which rounds to float32 between its two passes: tolerance 2e-6."""
    X = random_images(3, 2, 28, 20)
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
def test_resize_stays_in_range_and_keeps_constant_images(h, w, height, width):
    X = random_images(2, 1, h, w)
    out = resize_images(X, height, width)
    assert out.shape == (2, 1, height, width)
    assert out.min() >= X.min() - 1e-6 and out.max() <= X.max() + 1e-6
    np.testing.assert_allclose(resize_images(np.full_like(X, 0.25), height, width), 0.25, rtol=1e-6)


def test_match_image_shape_keeps_images_of_that_shape():
    X = random_images(2, 3, 4, 5)
    out, changes = match_image_shape((3, 4, 5), X)
    assert changes == []
    np.testing.assert_array_equal(out, X)


def test_colours_become_grey_by_their_luma():
    X = np.zeros((3, 3, 2, 2), dtype=np.float32)
    X[[0, 1, 2], [0, 1, 2]] = 1  # a red, a green and a blue image
    out, changes = match_image_shape((1, 2, 2), X)
    np.testing.assert_allclose(out[:, 0, 0, 0], [0.299, 0.587, 0.114], rtol=1e-6)
    assert (
        out.shape == (3, 1, 2, 2)
        and out.dtype == np.float32
        and changes == ["grey from colours (Rec. 601 luma)"]
    )


def test_white_image_stays_white():
    """Check the clipping to 1: float32 weights sum to 1 within 6e-8 only."""
    out, _ = match_image_shape((1, 7, 5), np.ones((2, 3, 9, 9), dtype=np.float32))
    assert out.max() <= 1
    np.testing.assert_allclose(out, 1, rtol=1e-6)


def test_grey_is_repeated_and_changes_are_described():
    X = random_images(2, 1, 28, 28)
    out, changes = match_image_shape((3, 32, 32), X)
    assert out.shape == (2, 3, 32, 32) and out.flags.c_contiguous
    np.testing.assert_array_equal(out[:, 0], out[:, 2])
    assert changes == ["resized from 28×28 to 32×32 (bilinear)", "grey repeated in 3 channels"]


def test_two_channels_to_three_is_refused():
    with pytest.raises(
        ValueError,
        match=r"^images of 2 channels cannot become images of 3; only 1 and 3 can be exchanged$",
    ):
        match_image_shape((3, 4, 4), random_images(1, 2, 4, 4))
