"""Image files: pictures in a folder or a zip file, .npz files and idx files."""

from __future__ import annotations

import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, ClassVar, Literal

import numpy as np

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED, Dataset
from kdgraph.data.files.arrays import label_file_of, open_npz, read_idx
from kdgraph.data.files.file_source import FileSource
from kdgraph.data.files.paths import path_argument, sha256_of
from kdgraph.data.source import numbered_names
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count
from kdgraph.quoting import override

_PICTURE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm"),
)
_GREY_MODES = {"1": "L", "L": "L", "LA": "L", "I;16": "I;16"}
"""Grey modes of Pillow, and the modes to which they are converted; all others become colours."""
_PICTURE_ERRORS = (
    *(OSError, SyntaxError, ValueError, EOFError, RuntimeError),
    *(struct.error, zlib.error, zipfile.BadZipFile),
)
"""Errors of Pillow and archives for invalid content; RuntimeError: a password is required."""


def read_pictures(
    path: Path, unreadable: list[str] | None = None
) -> Iterator[tuple[np.ndarray, str, int]]:
    """Yield pixels UInt8[c, h, w], folder and number of each picture, in the order of their names.

    The number is the position of the picture, from 0, among the names of all pictures, including
    those that cannot be read: these are left out if their names can be appended to ``unreadable``,
    and raise DataError otherwise. Transparency is ignored. Names that begin with a dot or two
    underscores, and files without the suffix of a picture, are left out.
    """
    from PIL import Image, UnidentifiedImageError

    names = list_pictures(path)
    if not names:
        raise DataError(f"{path_argument(path)} has no pictures ({', '.join(_PICTURE_SUFFIXES)})")
    with nullcontext() if path.is_dir() else zipfile.ZipFile(path) as archive:
        # The number counts unreadable pictures too, so that it does not depend on ``unreadable``.
        for number, name in enumerate(names):
            try:
                with archive.open(str(name)) if archive else (path / name).open("rb") as file:
                    pixels = _read_picture(file)
            except (*_PICTURE_ERRORS, Image.DecompressionBombError) as error:
                if unreadable is None:
                    is_unknown = isinstance(error, UnidentifiedImageError)
                    reason = "it is of no known format" if is_unknown else error
                    raise DataError(
                        f"{path_argument(path)}: {name} cannot be read as a picture: {reason};"
                        " repair or remove it, or leave out all such files:"
                        " dataset.unreadable=skip"
                    ) from error
                unreadable.append(str(name))
            else:
                yield pixels, str(name.parent), number


def list_pictures(path: Path) -> list[PurePosixPath]:
    """Return the sorted names of the pictures in a folder or a zip file."""
    if path.is_dir():
        files = (file for file in path.rglob("*") if file.is_file())
        names = [PurePosixPath(file.relative_to(path).as_posix()) for file in files]
    else:
        try:
            with zipfile.ZipFile(path) as archive:
                names = [PurePosixPath(name) for name in archive.namelist()]
        except (zipfile.BadZipFile, OSError) as error:
            raise DataError(
                f"{path_argument(path)} is not a zip file, or is damaged: {error}"
            ) from error
    return sorted(
        name
        for name in names
        if name.suffix.lower() in _PICTURE_SUFFIXES
        and not any(p.startswith((".", "__")) for p in name.parts)
    )


def _read_picture(file: IO[bytes]) -> np.ndarray:
    """Return the pixels of a picture, UInt8[1 or 3, h, w]."""
    from PIL import Image

    with Image.open(file) as picture:
        pixels = np.asarray(picture.convert(_GREY_MODES.get(picture.mode, "RGB")))
    if pixels.dtype == np.uint16:
        # 16-bit grey: 65535 = 255 · 257.
        pixels = (pixels // 257).astype(np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


_NPZ_ARRAY_NAMES = {
    ("x_train", "y_train"): TRAIN,
    ("train_images", "train_labels"): TRAIN,
    ("val_images", "val_labels"): CALIBRATION,
    ("x_test", "y_test"): TEST,
    ("test_images", "test_labels"): TEST,
    ("x", "y"): None,
    ("X", "y"): None,
    ("images", "labels"): None,
}
"""Published names of the arrays of images and labels in .npz files, and the role of their rows."""
_SUPPORTED_FILES = (
    ".npz, .zip, idx files (…-images-idx3-ubyte.gz), or a folder of pictures or idx files"
)


@dataclass(frozen=True)
class ImagePart:
    """Images, Float32[n, c, h, w] in [0, 1], of one shape and one role, with their labels [n].

    ``role`` is None if the file does not define it. ``source_rows`` are the positions of pictures
    among the names of all pictures; with None, images are numbered part by part.
    """

    images: np.ndarray
    labels: np.ndarray | None = None
    role: int | None = None
    source_rows: np.ndarray | None = None


def read_image_parts(path: Path, unreadable: list[str] | None = None) -> list[ImagePart]:
    """Return all images of an existing file or folder; see :func:`read_pictures`."""
    if path.suffix.lower() == ".npz":
        return list(_read_npz_parts(path))
    if path.is_dir():
        if idx_files := _list_idx_files(path):
            return [_read_idx_part(file, _role_from_name(file)) for file in idx_files]
        return _read_picture_parts(path, unreadable)
    if _is_idx_file(path):
        return [_read_idx_part(path, None)]
    if path.suffix.lower() == ".zip":
        return _read_picture_parts(path, unreadable)
    raise DataError(f"{path_argument(path)} must be one of these: {_SUPPORTED_FILES}")


def list_image_files(path: Path) -> list[Path]:
    """Return the files that ``read_image_parts`` reads."""
    idx = _list_idx_files(path) if path.is_dir() else [path] if _is_idx_file(path) else []
    if idx:
        files = [file for images in idx for file in (images, label_file_of(images))]
        return [file for file in files if file is not None]
    return [path / name for name in list_pictures(path)] if path.is_dir() else [path]


def _list_idx_files(folder: Path) -> list[Path]:
    # In reverse order the uncompressed file comes last and replaces its compressed copies.
    idx = sorted((file for file in folder.iterdir() if _is_idx_file(file)), reverse=True)
    return sorted(
        {
            file.name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"): file
            for file in idx
        }.values()
    )


def _is_idx_file(path: Path) -> bool:
    return path.is_file() and "idx3" in path.name and "images" in path.name


def _role_from_name(path: Path) -> int | None:
    prefix = path.name.rpartition("images")[0]
    return TRAIN if "train" in prefix else TEST if "t10k" in prefix or "test" in prefix else None


def _read_idx_part(path: Path, role: int | None) -> ImagePart:
    images, label_file = read_idx(path), label_file_of(path)
    if images.ndim != 3:
        raise DataError(
            f"{path_argument(path)} must hold images [n, height, width], got shape {images.shape}"
        )
    labels = None if label_file is None else read_idx(label_file)
    if labels is not None and labels.ndim == 2:
        # QMNIST has further columns for each digit, such as its writer.
        labels = labels[:, 0]
    source = path_argument(path)
    X = _scale_pixels(images[:, None], source)
    return ImagePart(X, _check_image_labels(labels, len(X), source), role)


def _read_npz_parts(path: Path) -> Iterator[ImagePart]:
    with open_npz(path) as arrays:
        present = [names for names in _NPZ_ARRAY_NAMES if names[0] in arrays.files]
        if not present:
            array_names = ", ".join(dict.fromkeys(images for images, _ in _NPZ_ARRAY_NAMES))
            raise DataError(
                f"{path_argument(path)} has no array of images named {array_names}; it has"
                f" {', '.join(arrays.files) or 'none'}"
            )
        # A file may have training, validation and test arrays at once; each becomes a part.
        for images, labels in present:
            source = f"{path_argument(path)}: {images}"
            X = _scale_pixels(_to_channel_first(arrays[images], source), source)
            y = arrays[labels] if labels in arrays.files else None
            role = _NPZ_ARRAY_NAMES[images, labels]
            yield ImagePart(X, _check_image_labels(y, len(X), source), role)


def _read_picture_parts(path: Path, unreadable: list[str] | None) -> list[ImagePart]:
    by_shape: dict[tuple[int, ...], list[tuple[np.ndarray, str, int]]] = {}
    for picture in read_pictures(path, unreadable):
        by_shape.setdefault(picture[0].shape, []).append(picture)
    if not by_shape:
        raise DataError(
            f"{path_argument(path)} has no picture that can be read, of {len(unreadable or ())}"
        )
    parts = []
    for pictures in by_shape.values():
        pixels, folders, numbers = zip(*pictures, strict=True)
        images = _scale_pixels(np.stack(pixels), path_argument(path))
        parts.append(ImagePart(images, np.array(folders), source_rows=np.array(numbers)))
    return parts


def _check_image_labels(labels: np.ndarray | None, n: int, source: str) -> np.ndarray | None:
    """Return [n] labels, or None if there are none or several for each image."""
    if labels is None:
        return None
    if _are_multi_label(labels, n):
        warnings.warn(
            f"{source}: an image may have several of {labels.shape[1]} labels; they are left out,"
            " since a classifier predicts one",
            stacklevel=2,
        )
        return None
    labels = labels[:, 0] if labels.shape == (n, 1) else labels
    if labels.shape != (n,):
        raise DataError(
            f"{source}: there must be one label for each of {n} images, got shape {labels.shape}"
        )
    return labels


def _are_multi_label(labels: np.ndarray, n: int) -> bool:
    """Return whether labels are indicators [n, k] of which a row has none or several.

    ChestMNIST has such labels, of 14 diseases. Rows with exactly one indicator each are one-hot
    codes of a single label and not of this kind.
    """
    if labels.ndim != 2 or len(labels) != n or labels.shape[1] < 2:
        return False
    return bool(np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) != 1).any())


def _to_channel_first(images: np.ndarray, source: str) -> np.ndarray:
    """Return images as [n, c, h, w], from channels first, channels last or no channel axis."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    rule = "must be [n, height, width], or have 1 or 3 channels before or behind these"
    raise DataError(f"{source} {rule}, got shape {images.shape}")


def _scale_pixels(images: np.ndarray, source: str) -> np.ndarray:
    if images.dtype.kind not in "biuf" or not images.size:
        raise DataError(f"{source} must hold numbers, got {images.dtype} of shape {images.shape}")
    brightest = 255 if images.dtype.kind in "iu" else 1
    low, high = float(images.min()), float(images.max())
    # The comparison is written so that NaN is rejected too.
    if not (low >= 0 and high <= brightest):
        raise DataError(
            f"{source}: pixels must be integers from 0 to 255 or lie in [0, 1], got {low:g} to"
            f" {high:g}"
        )
    return images.astype(np.float32) / np.float32(brightest)


@dataclass(eq=False, repr=False)
class ImageFiles(FileSource):
    """Images of files: pictures in a folder or a .zip file, arrays in a .npz file, or idx files.

    The label of a picture (PNG, JPEG and others) is its folder. A .npz file has the arrays ``x``
    and ``y``, ``images`` and ``labels``, ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or
    those of MedMNIST (``train_images``, …). Indicators of several labels for an image, as
    ChestMNIST has them, are left out with a warning. The labels of an idx file of images are in
    the file of the same name with ``labels``. All idx files of a folder are read, and their names
    define which rows train and which test. Images without labels, or all with the same label,
    cannot train a classifier. They serve only as test rows or as an out-of-distribution set.

    Parameters
    ----------
    path : str
        File (.zip, .npz, idx) or folder, relative to the working directory.
    size : sequence of 2 ints or None, default=None
        Height and width to which images are resized, bilinearly. None: images keep their size and
        must all have the same.
    channels : {1, 3} or None, default=None
        1: grey from colours (Rec. 601 luma). 3: grey is repeated. None: images keep their channels
        and must all have the same number.
    invert : bool, default=False
        If True, white and black are exchanged: for pictures in black on white, where other sets are
        white on black.
    flat : bool, default=False
        If True, rows are vectors of pixels, Float64[n, c·h·w], for parents that do not support
        images. If False, they are images Float32[n, c, h, w].
    unreadable : {"refuse", "skip"}, default="refuse"
        Treatment of a picture that cannot be read. "refuse" raises an error that names it. "skip"
        leaves it out, warns, and records the number of such pictures in the facts.

    Examples
    --------
    >>> ImageFiles("pictures.zip", size=(28, 28), channels=1).name
    'pictures'
    """

    file_parameters: ClassVar = {"path": list_image_files}

    size: Sequence[Count] | None = None
    channels: Count | None = None
    invert: bool = False
    flat: bool = False
    unreadable: Literal["refuse", "skip"] = "refuse"

    nameless = "images"

    def __post_init__(self) -> None:
        super().__post_init__()
        size, channels = self.size, self.channels
        if size is not None and len(size) != 2:
            raise ParameterError(f"size must be a height and a width, got {list(size)}")
        if channels not in (None, 1, 3):
            raise ParameterError(f"channels must be 1, 3 or null, got {channels}")

    def load(self) -> Dataset:
        """Return all images, made equal in size and channels if these are given."""
        path = self._existing_path()
        unreadable: list[str] = []
        parts = read_image_parts(path, unreadable if self.unreadable == "skip" else None)
        # Parts differ in shape or role; the rows of the data set are their concatenation.
        X, changes = self._with_common_shape(parts)
        facts: dict[str, Any] = {
            "source": "file",
            "path": self.path,
            "image_shape": list(X.shape[1:]),
            "flat": self.flat,
        }
        facts |= {"sha256": sha256_of(path)} if path.is_file() else {}
        facts |= {"made": changes} if changes else {}
        if unreadable:
            facts["unreadable"] = (
                f"{len(unreadable):,} that cannot be read as pictures, such as {unreadable[0]}"
            )
            warnings.warn(f"{self.name}: left out are {facts['unreadable']}", stacklevel=2)
        names = numbered_names(X[0].size, "pixel") if self.flat else ()
        y, classes, roles = self._labels_and_roles(parts)
        X = X.reshape(len(X), -1).astype(np.float64) if self.flat else X
        # Pictures of several shapes are read shape by shape.
        rows = [part.source_rows for part in parts if part.source_rows is not None]
        source_rows = np.concatenate(rows) if len(rows) == len(parts) else None
        more = {"roles": roles, "facts": facts, "source_rows": source_rows}
        return Dataset(self.name, X, y, classes, names, **more)

    def _with_common_shape(self, parts: Sequence[ImagePart]) -> tuple[np.ndarray, list[str]]:
        from kdgraph.data.images.pixels import match_image_shape

        # Without ``size`` and ``channels`` no common shape is guessed, because each choice would
        # blur or discard pixels.
        shapes = {
            (self.channels or c, *(self.size or (h, w)))
            for c, h, w in (part.images.shape[1:] for part in parts)
        }
        if len(shapes) > 1:
            examples = " and ".join("×".join(map(str, shape)) for shape in sorted(shapes)[:2])
            way_out = override("dataset.channels", 1)
            if len({shape[1:] for shape in shapes}) > 1:
                way_out = override("dataset.size", [28, 28])
            raise DataError(
                f"{self._argument} has images of {len(shapes)} shapes, such as"
                f" {examples}; make them equal: {way_out}"
            )
        (shape,) = shapes
        matched = [match_image_shape(tuple(map(int, shape)), part.images) for part in parts]
        changes = sorted({change for _, part_changes in matched for change in part_changes})
        X = np.concatenate([images for images, _ in matched])
        return (1 - X, ["inverted", *changes]) if self.invert else (X, changes)

    def _labels_and_roles(
        self, parts: Sequence[ImagePart]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return labels Int[n], classes [K], and roles Int8[n] or None."""
        from kdgraph.data.images.pixels import parse_image_labels

        labels = [part.labels for part in parts if part.labels is not None]
        of_parts = [part.role for part in parts if part.role is not None]
        roles = None
        if len(of_parts) == len(parts):
            sizes = [len(part.images) for part in parts]
            roles = np.repeat(np.array(of_parts, dtype=np.int8), sizes)
        # Without labels for all images, or with one class only, nothing can be trained.
        if len(labels) == len(parts):
            source = self._argument
            all_labels = parse_image_labels(np.concatenate(labels), source)
            classes, y = np.unique(all_labels, return_inverse=True)
            if len(classes) > 1:
                return y, classes, roles
        n = sum(len(part.images) for part in parts)
        only_test = np.full(n, TEST, dtype=np.int8)
        if roles is not None:
            only_test = np.where(roles == TEST, roles, UNUSED)
        return np.zeros(n, dtype=int), np.array(["none"]), only_test
