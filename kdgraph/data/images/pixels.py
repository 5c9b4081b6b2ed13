"""Pixels of images: tables with a column for each pixel, layouts, sizes and channels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.data.openml.cache import damaged_file_error, read_cached_frame
from kdgraph.errors import DataError

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import OpenmlData


PixelLayout = Literal["channel_first", "channel_last"]
"""Order of the columns of pixels.

"channel_first" has all pixels of one channel and then the next channel. "channel_last" has all
channels of one pixel and then the next pixel.
"""

_COLUMNS_PER_READ = 64
"""Number of columns that are read from a Parquet file at once.

70,000 rows of 64 columns take 36 MB as int64, the widest integers in which pixels are stored.
"""
_MAX_LAYOUT_IMAGES = 200
"""Number of images from which the layout is inferred."""


def read_pixel_table(data: OpenmlData, target: str, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels, UInt8[n, d], and labels [n] of a cached data set."""
    try:
        read = _read_parquet_pixels if data.loader == "parquet" else _read_arff_pixels
        names, n, columns, labels = read(data, target)
        # Columns go directly into a uint8 array, so a wider copy of all pixels is never in memory.
        # Parquet with 70,000 rows of 784 columns takes 0.5 s.
        X = np.empty((n, len(names)), dtype=np.uint8)
        for j, (name, values) in enumerate(columns):
            X[:, j] = _check_pixels(values, name, source)
    # The errors of pyarrow are ValueErrors and KeyErrors.
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        raise damaged_file_error(data.file, error) from error
    return X, parse_image_labels(labels, source)


_PixelColumns = Iterable[tuple[str, np.ndarray]]


def _read_parquet_pixels(
    data: OpenmlData, target: str
) -> tuple[Sequence[str], int, _PixelColumns, Iterable[Any]]:
    """Return names of the pixel columns, number of rows, the columns one by one, and labels."""
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(data.file)
    names = [
        name for name in file.schema_arrow.names if name != target and name not in data.left_out
    ]

    # A generator of blocks bounds the memory; see _COLUMNS_PER_READ.
    def columns() -> Iterator[tuple[str, np.ndarray]]:
        for start in range(0, len(names), _COLUMNS_PER_READ):
            part = file.read(columns=names[start : start + _COLUMNS_PER_READ])
            yield from zip(
                part.column_names, (column.to_numpy() for column in part.itercolumns()), strict=True
            )

    labels = file.read(columns=[target]).column(target).to_pylist()
    return names, file.metadata.num_rows, columns(), labels


def _read_arff_pixels(
    data: OpenmlData, target: str
) -> tuple[Sequence[str], int, _PixelColumns, Iterable[Any]]:
    """Return the same from a file that can only be read as a whole."""
    frame = read_cached_frame(data)
    labels = frame.pop(target)
    names = [name for name in frame if name not in data.left_out]
    return names, len(frame), ((name, frame[name].to_numpy()) for name in names), labels


def _check_pixels(values: np.ndarray, name: str, source: str) -> np.ndarray:
    if values.dtype != np.uint8:
        # NaN fails all comparisons, so it is invalid too.
        invalid = ~((values >= 0) & (values <= 255) & (values == np.round(values)))
        if invalid.any():
            row = int(np.argmax(invalid))
            raise DataError(
                f"{source}: pixels must be integers from 0 to 255, got {values[row]:g} in column"
                f" '{name}', row {row}"
            )
    return values


def parse_image_labels(values: Iterable[Any], source: str) -> np.ndarray:
    """Return labels [n] as integers if all of them are integers or digits, else as text."""
    labels = np.asarray(list(values), dtype=object)
    missing = sum(label is None or label != label for label in labels)
    if missing:
        raise DataError(
            f"{source}: {missing} images have no label; a classifier needs one for each"
        )
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return labels.astype(str)
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else labels.astype(str)


def reshape_pixels(X: np.ndarray, shape: Sequence[int], layout: PixelLayout) -> np.ndarray:
    """Return pixels UInt8[n, c·h·w] as images UInt8[n, c, h, w]."""
    c, h, w = shape
    if layout == "channel_first":
        return X.reshape(len(X), c, h, w)
    return X.reshape(len(X), h, w, c).transpose(0, 3, 1, 2)


def infer_pixel_layout(X: np.ndarray, shape: Sequence[int]) -> PixelLayout:
    """Return the layout of X: UInt8[n, c·h·w] in which neighbouring pixels differ less.

    Publishers of flat images use both layouts and rarely document which one. Natural images are
    smooth in the correct layout and not in the other.
    """
    layouts: tuple[PixelLayout, PixelLayout] = ("channel_first", "channel_last")
    if shape[0] == 1:
        return layouts[0]
    candidates = [
        reshape_pixels(X[:_MAX_LAYOUT_IMAGES], shape, layout).astype(np.int16) for layout in layouts
    ]
    roughness = [float(np.abs(np.diff(images, axis=3)).mean()) for images in candidates]
    return layouts[int(np.argmin(roughness))]


_LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R Recommendation BT.601)."""


def match_image_shape(shape: Sequence[int], X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return Float32[n, c, h, w] in another shape, in [0, 1], and a description of the changes.

    ValueError is raised if the numbers of channels are neither equal nor 1 and 3.
    """
    # Colours become grey before the images are resized, which then costs a third. Grey is repeated
    # at the end, as a view.
    changes: list[str] = []
    if X.shape[1] != shape[0]:
        if {X.shape[1], shape[0]} != {1, 3}:
            raise ValueError(
                f"images of {X.shape[1]} channels cannot become images of {shape[0]}; only 1 and 3"
                " can be exchanged"
            )
        if shape[0] == 1:
            changes.append("grey from colours (Rec. 601 luma)")
            weights = np.asarray(_LUMA_WEIGHTS, dtype=X.dtype)
            X = np.tensordot(X, weights, axes=(1, 0))[:, None]
        else:
            changes.append("grey repeated in 3 channels")
    if X.shape[2:] != tuple(shape[1:]):
        changes.insert(
            0, f"resized from {X.shape[2]}×{X.shape[3]} to {shape[1]}×{shape[2]} (bilinear)"
        )
        X = resize_images(X, shape[1], shape[2])
    return np.ascontiguousarray(np.broadcast_to(X, (len(X), *shape))).clip(0, 1), changes


def resize_images(X: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return images Float32[n, c, h, w] in another size, by bilinear interpolation.

    When images shrink, a new pixel averages over all old pixels that it covers. The filter is the
    triangle filter of Pillow's ``Image.resize(..., BILINEAR)``, in floating point.
    """
    down, across = _triangle_weights(X.shape[2], height), _triangle_weights(X.shape[3], width)
    return (down.astype(X.dtype) @ X) @ across.T.astype(X.dtype)


def _triangle_weights(n: int, n_new: int) -> np.ndarray:
    """Return the weight of each of ``n`` old pixels in each new one, Float64[n_new, n]."""
    step = n / n_new
    centres = (np.arange(n_new) + 0.5) * step - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(n) - centres[:, None]) / max(step, 1.0))
    return weights / weights.sum(axis=1, keepdims=True)
