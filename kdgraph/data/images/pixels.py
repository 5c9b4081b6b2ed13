"""Images that are kept as a table: a column for each pixel, and one for the label.

Images of one shape made images of another: resized, grey from colours, channels repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.data.openml.cache import damaged_file_error, read_cached_frame
from kdgraph.errors import DataError

if TYPE_CHECKING:
    from kdgraph.data.openml.cache import OpenmlData


PixelLayout = Literal["channel_first", "channel_last"]
"""The order of the columns: all of one channel and then the next, or all channels of one pixel and
then the next pixel.
"""

_COLUMNS_PER_READ = 64
"""Read of a Parquet file at once: 70,000 rows of 64 columns are 36 MB as int64, the widest integers
that pixels are written as.
"""
_MAX_LAYOUT_IMAGES = 200
"""Of which the layout is found out."""


def read_pixel_table(data: OpenmlData, target: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels UInt8[n, d] and labels [n] of a cached data set; ``where`` says whose they are in
    messages.

    Of Parquet 0.5 s for 70,000 rows of 784, and never in memory as anything wider than the array
    that it becomes.

    Raises
    ------
    DataError
        If the file cannot be read, has no column ``target``, or holds a pixel that is no integer
        from 0 to 255, or no label.
    """
    try:
        names, n, columns, labels = (
            _read_parquet_pixels(data, target)
            if data.loader == "parquet"
            else _read_arff_pixels(data, target)
        )
        X = np.empty((n, len(names)), dtype=np.uint8)
        for j, (name, values) in enumerate(columns):
            X[:, j] = _check_pixels(values, name, where)
    except (
        OSError,
        ValueError,
        KeyError,
    ) as error:  # pyarrow's errors are ValueErrors and KeyErrors
        if isinstance(error, DataError):
            raise
        raise damaged_file_error(data.file, error) from error
    return X, parse_image_labels(labels, where)


_PixelColumns = Iterable[tuple[str, np.ndarray]]


def _read_parquet_pixels(
    data: OpenmlData, target: str
) -> tuple[Sequence[str], int, _PixelColumns, Iterable[Any]]:
    """Names of the columns of pixels, number of rows, these columns some at a time, labels."""
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(data.file)
    names = [
        name for name in file.schema_arrow.names if name != target and name not in data.left_out
    ]

    def columns() -> Iterator[tuple[str, np.ndarray]]:
        for start in range(0, len(names), _COLUMNS_PER_READ):
            part = file.read(columns=names[start : start + _COLUMNS_PER_READ])
            yield from zip(
                part.column_names, (column.to_numpy() for column in part.itercolumns()), strict=True
            )

    return (
        names,
        file.metadata.num_rows,
        columns(),
        file.read(columns=[target]).column(target).to_pylist(),
    )


def _read_arff_pixels(
    data: OpenmlData, target: str
) -> tuple[Sequence[str], int, _PixelColumns, Iterable[Any]]:
    """The same from a file that can only be read as a whole."""
    frame = read_cached_frame(data)
    labels = frame.pop(target)
    names = [name for name in frame if name not in data.left_out]
    return names, len(frame), ((name, frame[name].to_numpy()) for name in names), labels


def _check_pixels(values: np.ndarray, name: str, where: str) -> np.ndarray:
    if values.dtype != np.uint8:
        wrong = ~(
            (values >= 0) & (values <= 255) & (values == np.round(values))
        )  # NaN is wrong too
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{where}: pixels must be integers from 0 to 255, got {values[row]:g} in column"
                f" '{name}', row {row}"
            )
    return values


def parse_image_labels(values: Iterable[Any], where: str) -> np.ndarray:
    """Labels [n] as integers if all of them are, digits as text among them, else as text."""
    labels = np.asarray(list(values), dtype=object)
    missing = sum(label is None or label != label for label in labels)
    if missing:
        raise DataError(f"{where}: {missing} images have no label; a classifier needs one for each")
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return labels.astype(str)
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else labels.astype(str)


def reshape_pixels(X: np.ndarray, shape: Sequence[int], layout: PixelLayout) -> np.ndarray:
    """Pixels UInt8[n, c·h·w] as images UInt8[n, c, h, w]."""
    c, h, w = shape
    return (
        X.reshape(len(X), c, h, w)
        if layout == "channel_first"
        else X.reshape(len(X), h, w, c).transpose(0, 3, 1, 2)
    )


def infer_pixel_layout(X: np.ndarray, shape: Sequence[int]) -> PixelLayout:
    """The layout in which neighbouring pixels of X: UInt8[n, c·h·w] differ less: pictures are
    smooth, and scrambled ones are not.

    Publishers of flat images mean one or the other and seldom say which.
    """
    layouts: tuple[PixelLayout, PixelLayout] = ("channel_first", "channel_last")
    if shape[0] == 1:
        return layouts[0]
    some = [
        reshape_pixels(X[:_MAX_LAYOUT_IMAGES], shape, layout).astype(np.int16) for layout in layouts
    ]
    roughness = [float(np.abs(np.diff(images, axis=3)).mean()) for images in some]
    return layouts[int(np.argmin(roughness))]


_LUMA_WEIGHTS = (0.299, 0.587, 0.114)
"""Of red, green and blue in the grey of a picture (ITU-R Recommendation BT.601)."""


def match_image_shape(shape: Sequence[int], X: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Images X: Float32[n, c, h, w] as images of ``shape`` (channels, height, width), and what was
    done to them, in words.

    Raises
    ------
    ValueError
        If the numbers of channels are neither equal nor 1 and 3.
    """
    done = []
    if X.shape[1] != shape[0]:
        if {X.shape[1], shape[0]} != {1, 3}:
            raise ValueError(
                f"images of {X.shape[1]} channels cannot become images of {shape[0]}; only 1 and 3"
                " can be exchanged"
            )
        done.append(
            "grey from colours (Rec. 601 luma)" if shape[0] == 1 else "grey repeated in 3 channels"
        )
        X = (
            np.tensordot(X, np.asarray(_LUMA_WEIGHTS, dtype=X.dtype), axes=(1, 0))[:, None]
            if shape[0] == 1
            else X
        )
    if X.shape[2:] != tuple(shape[1:]):
        done.insert(
            0, f"resized from {X.shape[2]}×{X.shape[3]} to {shape[1]}×{shape[2]} (bilinear)"
        )
        X = resize_images(X, shape[1], shape[2])
    return np.ascontiguousarray(np.broadcast_to(X, (len(X), *shape))).clip(0, 1), done


def resize_images(X: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images Float32[n, c, h, w] of another size, by bilinear interpolation; where they shrink,
    over all pixels that fall into one.

    The same triangle filter as Pillow's ``Image.resize(..., BILINEAR)``, in floating point.
    """
    down, across = _triangle_weights(X.shape[2], height), _triangle_weights(X.shape[3], width)
    return (down.astype(X.dtype) @ X) @ across.T.astype(X.dtype)


def _triangle_weights(n: int, to: int) -> np.ndarray:
    """Float64[to, n]: the weight of each of ``n`` pixels in a line in each of ``to``; rows sum to
    1.
    """
    step = n / to
    centres = (np.arange(to) + 0.5) * step - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(n) - centres[:, None]) / max(step, 1.0))
    return weights / weights.sum(axis=1, keepdims=True)
