"""Images of the user's own files as arrays: what kind of file it is, which rows train and test, how pixels lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN
from kdgraph.data.files.npz import open_npz
from kdgraph.data.files.paths import said
from kdgraph.data.images.idx import labels_beside, read_idx
from kdgraph.data.images.pictures import names_of_pictures, read_pictures
from kdgraph.errors import DataError

ARRAYS = {
    ("x_train", "y_train"): TRAIN,
    ("train_images", "train_labels"): TRAIN,
    ("val_images", "val_labels"): CALIBRATION,
    ("x_test", "y_test"): TEST,
    ("test_images", "test_labels"): TEST,
    ("x", "y"): None,
    ("X", "y"): None,
    ("images", "labels"): None,
}
"""Names of the arrays of images and labels in .npz files, as they are published, and the role of their rows."""
_KINDS = ".npz, .zip, idx files (…-images-idx3-ubyte.gz), or a folder of pictures or idx files"


@dataclass(frozen=True)
class Part:
    """Images of one shape and one role.

    Attributes
    ----------
    images : Float32[n, c, h, w] in [0, 1].
    labels : [n] or None.
    role : of all of them (:mod:`kdgraph.data.dataset`), or None where the file does not say it.
    source_rows : Int[n], the place of each picture among the names of all pictures; None: images are
        numbered part by part.
    """

    images: np.ndarray
    labels: np.ndarray | None = None
    role: int | None = None
    source_rows: np.ndarray | None = None


def read_parts(path: Path, unreadable: list[str] | None = None) -> list[Part]:
    """All images of a file or folder that is there; of pictures see :func:`~kdgraph.data.images.pictures.read_pictures`.

    Raises
    ------
    DataError
        In one line, if it is of no known kind, or cannot be read.
    """
    if path.suffix.lower() == ".npz":
        return list(_of_npz(path))
    if path.is_dir():
        found = _idx_in(path)
        return [_of_idx(file, _role_of(file)) for file in found] if found else _of_pictures(path, unreadable)
    if _is_idx(path):
        return [_of_idx(path, None)]
    if path.suffix.lower() == ".zip":
        return _of_pictures(path, unreadable)
    raise DataError(f"{said(path)} must be one of these: {_KINDS}")


def files_of(path: Path) -> list[Path]:
    """What :func:`read_parts` reads: the file, or the folder's pictures or idx files, and the labels beside each file of images."""
    idx = _idx_in(path) if path.is_dir() else [path] if _is_idx(path) else []
    if idx:
        return [file for images in idx for file in (images, labels_beside(images)) if file is not None]
    return [path / name for name in names_of_pictures(path)] if path.is_dir() else [path]


def _idx_in(folder: Path) -> list[Path]:
    """Its idx files of images; of a file and its compressed copy the file."""
    idx = sorted((file for file in folder.iterdir() if _is_idx(file)), reverse=True)  # the file comes last
    return sorted({file.name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz"): file for file in idx}.values())


def _is_idx(path: Path) -> bool:
    """Whether the name is that of images in an idx file."""
    return path.is_file() and "idx3" in path.name and "images" in path.name


def _role_of(path: Path) -> int | None:
    """By the names that MNIST's files have."""
    before = path.name.rpartition("images")[0]
    return TRAIN if "train" in before else TEST if "t10k" in before or "test" in before else None


def _of_idx(path: Path, role: int | None) -> Part:
    images, beside = read_idx(path), labels_beside(path)
    if images.ndim != 3:
        raise DataError(f"{said(path)} must hold images [n, height, width], got shape {images.shape}")
    labels = None if beside is None else read_idx(beside)
    if labels is not None and labels.ndim == 2:
        labels = labels[:, 0]  # QMNIST says more of each digit than what it is
    return Part(_between_0_and_1(images[:, None], said(path)), _checked(labels, len(images), said(path)), role)


def _of_npz(path: Path) -> Iterator[Part]:
    with open_npz(path) as arrays:
        named = [names for names in ARRAYS if names[0] in arrays.files]
        if not named:
            known = ", ".join(dict.fromkeys(images for images, _ in ARRAYS))
            raise DataError(f"{said(path)} has no array of images named {known}; it has {', '.join(arrays.files) or 'none'}")
        for images, labels in named:
            where = f"{said(path)}: {images}"
            X = _between_0_and_1(_channel_first(arrays[images], where), where)
            yield Part(X, _checked(arrays[labels] if labels in arrays.files else None, len(X), where), ARRAYS[images, labels])


def _of_pictures(path: Path, unreadable: list[str] | None) -> list[Part]:
    """A part for each shape."""
    by_shape: dict[tuple[int, ...], list[tuple[np.ndarray, str, int]]] = {}
    for picture in read_pictures(path, unreadable):
        by_shape.setdefault(picture[0].shape, []).append(picture)
    if not by_shape:
        raise DataError(f"{said(path)} has no picture that can be read, of {len(unreadable or ())}")
    parts = []
    for pictures in by_shape.values():
        pixels, folders, numbers = zip(*pictures, strict=True)
        images = _between_0_and_1(np.stack(pixels), said(path))
        parts.append(Part(images, np.array(folders), source_rows=np.array(numbers)))
    return parts


def _checked(labels: np.ndarray | None, n: int, where: str) -> np.ndarray | None:
    """[n] labels, or None where there are none."""
    if labels is None:
        return None
    labels = labels[:, 0] if labels.shape == (n, 1) else labels
    if labels.shape != (n,):
        raise DataError(f"{where}: there must be one label for each of {n} images, got shape {labels.shape}")
    return labels


def _channel_first(images: np.ndarray, where: str) -> np.ndarray:
    """[n, c, h, w] of images with channels first, last or without an axis of their own."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    rule = "must be [n, height, width], or have 1 or 3 channels before or behind these"
    raise DataError(f"{where} {rule}, got shape {images.shape}")


def _between_0_and_1(images: np.ndarray, where: str) -> np.ndarray:
    """Float32: integers from 0 to 255 divided by 255, other numbers as they are."""
    if images.dtype.kind not in "biuf" or not images.size:
        raise DataError(f"{where} must hold numbers, got {images.dtype} of shape {images.shape}")
    brightest = 255 if images.dtype.kind in "iu" else 1
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= brightest):  # NaN neither
        raise DataError(f"{where}: pixels must be integers from 0 to 255 or lie in [0, 1], got {low:g} to {high:g}")
    return images.astype(np.float32) / np.float32(brightest)
