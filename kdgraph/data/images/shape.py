"""Images of one shape made images of another: resized, grey from colours, channels repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LUMA = (0.299, 0.587, 0.114)
"""Of red, green and blue in the grey of a picture (ITU-R Recommendation BT.601)."""


def like_images_of(shape: Sequence[int], X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Images X: Float32[n, c, h, w] as images of ``shape`` (channels, height, width), and what was done to them, in words.

    Raises
    ------
    ValueError
        If the numbers of channels are neither equal nor 1 and 3.
    """
    done = []
    if X.shape[1] != shape[0]:
        if {X.shape[1], shape[0]} != {1, 3}:
            raise ValueError(f"images of {X.shape[1]} channels cannot become images of {shape[0]}; only 1 and 3 can be exchanged")
        done.append("grey from colours (Rec. 601 luma)" if shape[0] == 1 else "grey repeated in 3 channels")
        X = np.tensordot(X, np.asarray(LUMA, dtype=X.dtype), axes=(1, 0))[:, None] if shape[0] == 1 else X
    if X.shape[2:] != tuple(shape[1:]):
        done.insert(0, f"resized from {X.shape[2]}×{X.shape[3]} to {shape[1]}×{shape[2]} (bilinear)")
        X = resized(X, shape[1], shape[2])
    return np.ascontiguousarray(np.broadcast_to(X, (len(X), *shape))).clip(0, 1), done


def resized(X: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images Float32[n, c, h, w] of another size, by bilinear interpolation; where they shrink, over all pixels that fall into one.

    The same triangle filter as Pillow's ``Image.resize(..., BILINEAR)``, in floating point.
    """
    down, across = _triangles(X.shape[2], height), _triangles(X.shape[3], width)
    return (down.astype(X.dtype) @ X) @ across.T.astype(X.dtype)


def _triangles(n: int, to: int) -> np.ndarray:
    """Float64[to, n]: the weight of each of ``n`` pixels in a line in each of ``to``; rows sum to 1."""
    step = n / to
    centres = (np.arange(to) + 0.5) * step - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(n) - centres[:, None]) / max(step, 1.0))
    return weights / weights.sum(axis=1, keepdims=True)
