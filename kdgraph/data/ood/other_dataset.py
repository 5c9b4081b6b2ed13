"""Another data set as what is out of distribution, its rows made like the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from kdgraph.data.dataset import TEST, Dataset, OodSet, Splits
from kdgraph.data.halves import Half, in_half
from kdgraph.data.images.shape import like_images_of
from kdgraph.data.ood.columns import cycled
from kdgraph.data.sources import Fetched, Simulation, Table
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, check_parameters

OTHER = "choose another data set: ood.name=…"


class OtherDataset:
    """Rows of another data set, drawn at random: of its official test rows where it has them, else of all.

    As CIFAR-100 and SVHN are for CIFAR-10 in Table 1 of Dey et al. (2024), "Deep discriminative to kernel density graph".

    Images get the shape of the training images: another size by bilinear interpolation, grey from colours (Rec. 601 luma), colours from
    grey by repeating it. Where the training rows are vectors of pixels, these images become vectors as well. What was done is in the set's
    ``facts``.

    Parameters
    ----------
    source : where the rows come from, as in the group ``dataset``.
    n : rows; all where there are fewer.
    columns : of vectors. "same": they must have as many features as the training rows have, the same categories in the same columns, and
        are scaled as those were. "cycle": any table will do; see :func:`~kdgraph.data.ood.columns.cycled`.
    half : "first" or "second": only the rows of that half of the sorted classes, of an odd number the first half being the smaller, such
        as those that a network has not trained with as outliers (:class:`kdgraph.parents.networks.exposure.RowsOutliers`). None: all.
    """

    def __init__(self, source: Table | Simulation, n: Count = 1000, columns: Literal["same", "cycle"] = "same", half: Half = None) -> None:
        self.source = source
        self.n = n
        self.columns = columns
        self.half: Half = half
        check_parameters(self)
        if half is not None and isinstance(source, Simulation):
            raise ParameterError(f"half must be null, since {source.name} is a simulation and not divided, got {half}")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the other data set is on this machine."""
        if isinstance(self.source, Fetched):
            self.source.prefetch(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows, by the name of the other data set and of its half.

        Raises
        ------
        DataError
            If the other data set is the one that is trained on, or its rows cannot be made like these.
        """
        train = splits.train
        if self.source.name == train.name:
            raise DataError(f"{train.name} is the data set that is trained on, so its rows are in distribution; {OTHER}")
        X, other, facts, source_rows = self._rows(rng)
        if other is not None:
            _refuse_the_same(train, other)
        if self.columns == "cycle" and not _as_images(train, X, other):
            X, repaired = cycled(train, X, other, self.source.name, rng)
        else:
            X, repaired = _like(train, X, other, self.source.name)
            X = splits.scaling.apply(X)
        name = self.source.name if self.half is None else f"{self.source.name}_{self.half}_half"
        return [OodSet(name, X, facts={**facts, "repaired": repaired}, source_rows=source_rows)]

    def _rows(self, rng: np.random.Generator) -> tuple[np.ndarray, Dataset | None, dict[str, Any], np.ndarray | None]:
        """Rows as they are measured, the table that they come from, facts, and their numbers in the table."""
        if isinstance(self.source, Simulation):
            facts = {"source": "simulation", "rows": f"{self.n:,} drawn"}
            return self.source.sample(self.n, rng)[0], None, facts, None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of what matters where rows are learnt from
            table = self.source.load()
        tests = table.roles is not None and (table.roles == TEST).any()
        among = np.flatnonzero(in_half(table, self.half) & (table.roles == TEST if tests else True))
        chosen = rng.choice(among, min(self.n, len(among)), replace=False)
        rows = f"{len(chosen):,} at random of {len(among):,}{' test' if tests else ''} rows"
        rows += f" of the {self.half} half of the classes" if self.half else ""
        drawn = table.rows(chosen)
        return drawn.X, table, {**table.facts, "rows": rows}, drawn.source_rows


def _refuse_the_same(train: Dataset, other: Dataset) -> None:
    """One data set can go by two names."""
    origin = [(of.facts.get("source"), of.facts.get("id")) for of in (train, other)]
    if origin[0] == origin[1] and origin[0][1] is not None:
        raise DataError(f"{other.name} and {train.name}, which is trained on, are both {origin[0][0]} {origin[0][1]}; {OTHER}")


def _as_images(train: Dataset, X: np.ndarray, other: Dataset | None) -> bool:
    """Whether these rows become images, or vectors of the pixels of images, as the training rows are."""
    of_pixels = X.ndim == 4 or (other is not None and "image_shape" in other.facts)
    return train.are_images or (of_pixels and "image_shape" in train.facts)


def _like(train: Dataset, X: np.ndarray, other: Dataset | None, name: str) -> tuple[np.ndarray, list[str]]:
    """Rows of the shape and type of ``train``'s, and what was done to them."""
    shape = train.X.shape[1:] if train.are_images else train.facts.get("image_shape")
    from_shape = None if other is None else other.facts.get("image_shape")
    if X.ndim == 2 and shape and from_shape:
        X = X.reshape(len(X), *from_shape)
    if X.ndim == 4 and shape:
        return _like_images(train, X, shape, name)
    if train.are_images or X.ndim == 4:
        rows = {2: "vectors", 4: "images"}
        raise DataError(f"{name} has {rows[X.ndim]}, and {train.name}, which is trained on, has {rows[train.X.ndim]}; {OTHER}")
    _check_columns(train, X, other, name)
    return X, []


def _like_images(train: Dataset, X: np.ndarray, shape: Sequence[int], name: str) -> tuple[np.ndarray, list[str]]:
    try:
        X, done = like_images_of(shape, X)
    except ValueError as error:
        raise DataError(f"{name}: {error}; {OTHER}") from error
    if not train.are_images:
        X, done = X.reshape(len(X), -1), [*done, "flat"]
    return X.astype(train.X.dtype, copy=False), done


def _check_columns(train: Dataset, X: np.ndarray, other: Dataset | None, name: str) -> None:
    """Features of two tables have nothing in common but their number; a model takes them if that is the same."""
    if X.shape[1] != train.X.shape[1]:
        rule = f"and rows of {train.name}, which is trained on, have {train.X.shape[1]}"
        raise DataError(f"rows of {name} have {X.shape[1]} features, {rule}; {OTHER}")
    categories = [of.categories if of is not None and of.is_categorical.any() else () for of in (train, other)]
    if categories[0] != categories[1]:
        raise DataError(f"{name} and {train.name}, which is trained on, do not have the same categories in the same columns; {OTHER}")
    if np.isnan(X).any() and not train.has_missing:
        raise DataError(f"{name} has missing values, and {train.name}, which is trained on, has none; {OTHER}")
