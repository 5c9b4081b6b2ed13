"""Images of the user's own: ``dataset=image_files dataset.path=pictures.zip``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from kdgraph.data.dataset import TEST, UNUSED, Dataset
from kdgraph.data.files.paths import existing, file_stem, said, sha256_of
from kdgraph.data.images.reading import Part, files_of, read_parts
from kdgraph.errors import DataError, ParameterError
from kdgraph.overrides import override
from kdgraph.parameters import Count, check_parameters


class ImageFiles:
    """Images in files: pictures in a folder or a .zip file, arrays in a .npz file, or idx files as MNIST's.

    Of pictures (PNG, JPEG and others) the folder that each is in is its label. A .npz file has the arrays ``x`` and ``y``, ``images`` and
    ``labels``, ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or those of MedMNIST (``train_images``, …). Of an idx file of images
    the labels are in the file of the same name but for ``labels``; of a folder all idx files are read, and their names say what trains and
    what tests. Images without labels, or all with the same, have nothing to learn: they only test, or are a set out of distribution.

    Parameters
    ----------
    path : the file or folder, relative to the working directory.
    size : height and width that images are resized to, bilinearly; None: as they are, all of them equal.
    channels : 1, grey from colours (Rec. 601 luma), or 3, grey repeated; None: as they are, all of them equal.
    invert : white for black and black for white: of what is drawn in black on white, where other sets are white on black.
    flat : whether rows are vectors of pixels, Float64[n, c·h·w], for parents that take no images, in place of images Float32[n, c, h, w].
    unreadable : what becomes of a picture that cannot be read. "refuse" is an error that names it; "skip" goes on without it, warns, and
        says in the facts how many there are.
    name : what runs are called; None: the file's name without its ending.
    """

    reads: ClassVar = {"path": files_of}

    def __init__(
        self,
        path: str,
        size: Sequence[Count] | None = None,
        channels: Count | None = None,
        invert: bool = False,
        flat: bool = False,
        unreadable: Literal["refuse", "skip"] = "refuse",
        name: str | None = None,
    ) -> None:
        self.path = path
        self.size = size
        self.channels = channels
        self.invert = invert
        self.flat = flat
        self.unreadable: Literal["refuse", "skip"] = unreadable
        self.name = file_stem(path, "images") if name is None else name
        check_parameters(self)
        if size is not None and len(size) != 2:
            raise ParameterError(f"size must be a height and a width, got {list(size)}")
        if channels not in (None, 1, 3):
            raise ParameterError(f"channels must be 1, 3 or null, got {channels}")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise :class:`NotAtHand` before any run starts if the file or folder is not there."""
        existing(self.path)

    def load(self) -> Dataset:
        """All images.

        Raises
        ------
        NotAtHand, DataError
            In one line, if the file is not there, or cannot be read, or images differ in size and nothing says which they should have.
        """
        path = existing(self.path)
        unreadable: list[str] = []
        parts = read_parts(path, unreadable if self.unreadable == "skip" else None)
        X, done = self._alike(parts)
        facts: dict[str, Any] = {"source": "file", "path": self.path, "image_shape": list(X.shape[1:]), "flat": self.flat}
        facts |= {"sha256": sha256_of(path)} if path.is_file() else {}
        facts |= {"made": done} if done else {}
        if unreadable:
            facts["unreadable"] = f"{len(unreadable):,} that cannot be read as pictures, such as {unreadable[0]}"
            warnings.warn(f"{self.name}: left out are {facts['unreadable']}", stacklevel=2)
        names = tuple(f"pixel{i + 1}" for i in range(X[0].size)) if self.flat else ()
        y, classes, roles = self._labelled(parts)
        X = X.reshape(len(X), -1).astype(np.float64) if self.flat else X
        return Dataset(self.name, X, y, classes, names, roles=roles, facts=facts, source_rows=_source_rows(parts))

    def _alike(self, parts: Sequence[Part]) -> tuple[np.ndarray, list[str]]:
        """Float32[n, c, h, w] of all parts, and what was done to them, in words."""
        from kdgraph.data.images.shape import like_images_of

        shapes = {(self.channels or c, *(self.size or (h, w))) for c, h, w in (part.images.shape[1:] for part in parts)}
        if len(shapes) > 1:
            some = " and ".join("×".join(map(str, shape)) for shape in sorted(shapes)[:2])
            size = len({shape[1:] for shape in shapes}) > 1
            way_out = override("dataset.size", [28, 28]) if size else override("dataset.channels", 1)
            raise DataError(f"{said(self.path)} has images of {len(shapes)} shapes, such as {some}; make them equal: {way_out}")
        (shape,) = shapes
        made = [like_images_of(tuple(map(int, shape)), part.images) for part in parts]
        done = sorted({words for _, all_of_it in made for words in all_of_it})
        X = np.concatenate([images for images, _ in made])
        return (1 - X, ["inverted", *done]) if self.invert else (X, done)

    def _labelled(self, parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Labels Int[n], classes [K], roles Int8[n] or None."""
        from kdgraph.data.images.pixels import labels_of

        given, roles = [part.labels for part in parts], _roles(parts)
        labels = [one for one in given if one is not None]
        if len(labels) == len(given):
            classes, y = np.unique(labels_of(np.concatenate(labels), said(self.path)), return_inverse=True)
            if len(classes) > 1:
                return y, classes, roles
        n = sum(len(part.images) for part in parts)
        only_test = np.full(n, TEST, dtype=np.int8) if roles is None else np.where(roles == TEST, roles, UNUSED)
        return np.zeros(n, dtype=int), np.array(["none"]), only_test


def _source_rows(parts: Sequence[Part]) -> np.ndarray | None:
    """Int[n], where every part has them: pictures of several shapes are read shape by shape."""
    rows = [part.source_rows for part in parts if part.source_rows is not None]
    return np.concatenate(rows) if len(rows) == len(parts) else None


def _roles(parts: Sequence[Part]) -> np.ndarray | None:
    """Int8[n], where every part has one."""
    roles = [part.role for part in parts if part.role is not None]
    return np.repeat(np.array(roles, dtype=np.int8), [len(part.images) for part in parts]) if len(roles) == len(parts) else None
