"""The columns of any table in the place of those of the training rows.

Another data set as what is out of distribution, its rows made like the training rows.

Rows of the classes that the split has left out: near to the training distribution, and new to every
model.

Several sources of rows out of distribution in one run.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from kdgraph.data.dataset import (
    TEST,
    ClassHalf,
    Dataset,
    FetchableTable,
    OodSet,
    OodSource,
    Simulation,
    Splits,
    Table,
    is_in_class_half,
)
from kdgraph.data.images.pixels import match_image_shape
from kdgraph.data.ood.synthetic import draw_seed, match_training_rows, numeric_rows
from kdgraph.errors import DataError, NotAtHand, ParameterError
from kdgraph.parameters import Count, check_parameters


def cycle_columns(
    train: Dataset, X: np.ndarray, other: Dataset | None, name: str, rng: np.random.Generator
) -> tuple[np.ndarray, list[str]]:
    """Rows X of another table with the width and the ranges of the training rows, and what was done
    to them.

    Ours. The j-th numeric feature gets the other table's numeric column j mod k, of the k that are
    not constant: columns are cut off where there are too many, and repeated where there are too
    few. Each is moved, min-max, from the range that it has in the other table onto the range that
    the feature has in the training rows, so no value alone is out of range; shape and dependence
    are those of the other table.

    Parameters
    ----------
    X : Float[m, d″] or images, as they are measured. A missing value becomes the mean of its
    column.
    other : the whole table, for its ranges and categories; None of a simulation, whose ranges are
    those of X.
    rng : decides the training rows that categories are taken from.

    Returns
    -------
    Float64[m, d], scaled as training rows are, and words on what was done.

    Raises
    ------
    DataError
        If one of the two has no numeric column.
    """
    every = X if other is None else other.X
    numeric = ~other.is_categorical if other is not None and X.ndim == 2 else slice(None)
    X, every = (rows.reshape(len(rows), -1)[:, numeric].astype(np.float64) for rows in (X, every))
    low, high = np.fmin.reduce(every), np.fmax.reduce(every)
    varied = np.flatnonzero(high > low)  # NaN, of a column that is missing in every row, is not
    to = numeric_rows(train)
    if not len(varied) or not to.shape[1]:
        which = train.name if len(varied) else name
        raise DataError(
            f"{which} has no numeric feature that varies, and only such columns can stand for"
            " others; name another"
        )
    width = to.shape[1]
    columns = np.resize(varied, width)
    mean = np.nanmean(every[:, varied], axis=0)
    X = np.where(np.isnan(X[:, columns]), np.resize(mean, width), X[:, columns])
    share = (X - low[columns]) / (high - low)[columns]
    to_low, to_high = to.min(axis=0), to.max(axis=0)
    words = (
        f"{width} of {len(varied)} numeric columns"
        if width <= len(varied)
        else f"{len(varied)} numeric columns repeated to {width}"
    )
    moved = match_training_rows(train, to_low + share * (to_high - to_low), draw_seed(rng))
    return moved, [f"{words}, each in the range of a training feature"]


_OTHER_DATASET_ADVICE = "choose another data set: ood.name=…"


class OtherDataset:
    """Rows of another data set, drawn at random: of its official test rows where it has them, else
    of all.

    As CIFAR-100 and SVHN are for CIFAR-10 in Table 1 of Dey et al. (2024), "Deep discriminative to
    kernel density graph".

    Images get the shape of the training images: another size by bilinear interpolation, grey from
    colours (Rec. 601 luma), colours from grey by repeating it. Where the training rows are vectors
    of pixels, these images become vectors as well. What was done is in the set's ``facts``.

    Parameters
    ----------
    source : where the rows come from, as in the group ``dataset``.
    n : rows; all where there are fewer.
    columns : of vectors. "same": they must have as many features as the training rows have, the
        same categories in the same columns, and are scaled as those were. "cycle": any table will
        do; see :func:`~kdgraph.data.ood.other_data.cycle_columns`.
    half : "first" or "second": only the rows of that half of the sorted classes, of an odd number
        the first half being the smaller, such as those that a network has not trained with as
        outliers (:class:`kdgraph.parents.networks.outlier_sources.DatasetOutliers`). None: all.
    """

    def __init__(
        self,
        source: Table | Simulation,
        n: Count = 1000,
        columns: Literal["same", "cycle"] = "same",
        half: ClassHalf = None,
    ) -> None:
        self.source = source
        self.n = n
        self.columns = columns
        self.half: ClassHalf = half
        check_parameters(self)
        if half is not None and isinstance(source, Simulation):
            raise ParameterError(
                f"half must be null, since {source.name} is a simulation and not divided, got"
                f" {half}"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the other data set is on this machine."""
        if isinstance(self.source, FetchableTable):
            self.source.prefetch(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows, by the name of the other data set and of its
        half.

        Raises
        ------
        DataError
            If the other data set is the one that is trained on, or its rows cannot be made like
            these.
        """
        train = splits.train
        if self.source.name == train.name:
            raise DataError(
                f"{train.name} is the data set that is trained on, so its rows are in distribution;"
                f" {_OTHER_DATASET_ADVICE}"
            )
        X, other, facts, source_rows = self._draw_rows(rng)
        if other is not None:
            _check_different_datasets(train, other)
        if self.columns == "cycle" and not _are_image_rows(train, X, other):
            X, repaired = cycle_columns(train, X, other, self.source.name, rng)
        else:
            X, repaired = _match_rows(train, X, other, self.source.name)
            X = splits.scaling.apply(X)
        name = self.source.name if self.half is None else f"{self.source.name}_{self.half}_half"
        return [OodSet(name, X, facts={**facts, "repaired": repaired}, source_rows=source_rows)]

    def _draw_rows(
        self, rng: np.random.Generator
    ) -> tuple[np.ndarray, Dataset | None, dict[str, Any], np.ndarray | None]:
        """Rows as they are measured, the table that they come from, facts, and their numbers in the
        table.
        """
        if isinstance(self.source, Simulation):
            facts = {"source": "simulation", "rows": f"{self.n:,} drawn"}
            return self.source.sample(self.n, rng)[0], None, facts, None
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of what matters where rows are learnt from
            table = self.source.load()
        tests = table.roles is not None and (table.roles == TEST).any()
        among = np.flatnonzero(
            is_in_class_half(table, self.half) & (table.roles == TEST if tests else True)
        )
        chosen = rng.choice(among, min(self.n, len(among)), replace=False)
        rows = f"{len(chosen):,} at random of {len(among):,}{' test' if tests else ''} rows"
        rows += f" of the {self.half} half of the classes" if self.half else ""
        drawn = table.rows(chosen)
        return drawn.X, table, {**table.facts, "rows": rows}, drawn.source_rows


def _check_different_datasets(train: Dataset, other: Dataset) -> None:
    """One data set can go by two names."""
    origin = [(of.facts.get("source"), of.facts.get("id")) for of in (train, other)]
    if origin[0] == origin[1] and origin[0][1] is not None:
        raise DataError(
            f"{other.name} and {train.name}, which is trained on, are both {origin[0][0]}"
            f" {origin[0][1]}; {_OTHER_DATASET_ADVICE}"
        )


def _are_image_rows(train: Dataset, X: np.ndarray, other: Dataset | None) -> bool:
    """Whether these rows become images, or vectors of the pixels of images, as the training rows
    are.
    """
    of_pixels = X.ndim == 4 or (other is not None and "image_shape" in other.facts)
    return train.are_images or (of_pixels and "image_shape" in train.facts)


def _match_rows(
    train: Dataset, X: np.ndarray, other: Dataset | None, name: str
) -> tuple[np.ndarray, list[str]]:
    """Rows of the shape and type of ``train``'s, and what was done to them."""
    shape = train.X.shape[1:] if train.are_images else train.facts.get("image_shape")
    from_shape = None if other is None else other.facts.get("image_shape")
    if X.ndim == 2 and shape and from_shape:
        X = X.reshape(len(X), *from_shape)
    if X.ndim == 4 and shape:
        return _match_images(train, X, shape, name)
    if train.are_images or X.ndim == 4:
        rows = {2: "vectors", 4: "images"}
        raise DataError(
            f"{name} has {rows[X.ndim]}, and {train.name}, which is trained on, has"
            f" {rows[train.X.ndim]}; {_OTHER_DATASET_ADVICE}"
        )
    _check_same_columns(train, X, other, name)
    return X, []


def _match_images(
    train: Dataset, X: np.ndarray, shape: Sequence[int], name: str
) -> tuple[np.ndarray, list[str]]:
    try:
        X, done = match_image_shape(shape, X)
    except ValueError as error:
        raise DataError(f"{name}: {error}; {_OTHER_DATASET_ADVICE}") from error
    if not train.are_images:
        X, done = X.reshape(len(X), -1), [*done, "flat"]
    return X.astype(train.X.dtype, copy=False), done


def _check_same_columns(train: Dataset, X: np.ndarray, other: Dataset | None, name: str) -> None:
    """Features of two tables have nothing in common but their number; a model takes them if that is
    the same.
    """
    if X.shape[1] != train.X.shape[1]:
        rule = f"and rows of {train.name}, which is trained on, have {train.X.shape[1]}"
        raise DataError(
            f"rows of {name} have {X.shape[1]} features, {rule}; {_OTHER_DATASET_ADVICE}"
        )
    categories = [
        of.categories if of is not None and of.is_categorical.any() else () for of in (train, other)
    ]
    if categories[0] != categories[1]:
        raise DataError(
            f"{name} and {train.name}, which is trained on, do not have the same categories in the"
            f" same columns; {_OTHER_DATASET_ADVICE}"
        )
    if np.isnan(X).any() and not train.has_missing:
        raise DataError(
            f"{name} has missing values, and {train.name}, which is trained on, has none; {_OTHER_DATASET_ADVICE}"
        )


_MAX_NAMED_CLASSES = 12
"""Classes that a line names."""


class LeftOutClasses:
    """Rows of the same table whose class no model has seen (``dataset.left_out``), drawn at random:
    of its official test rows where it has them, else of all. Ours; as digits 5 to 9 are for 0 to 4.

    Parameters
    ----------
    n : rows; all where there are fewer.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set; its facts name the classes.

        Raises
        ------
        NotAtHand
            If the split has left out no class, or none of them has rows.
        """
        away = splits.left_out
        if away is None or not len(away.y):
            raise NotAtHand(
                f"no class of {splits.train.name} is left out; name some, or say how many:"
                " dataset.left_out=…"
            )
        tests = away.roles is not None and (away.roles == TEST).any()
        among = np.flatnonzero(away.roles == TEST) if tests else np.arange(len(away.y))
        chosen = rng.choice(among, min(self.n, len(among)), replace=False)
        classes = away.classes.tolist()
        named = ", ".join(map(str, classes[:_MAX_NAMED_CLASSES])) + (
            f" and {len(classes) - _MAX_NAMED_CLASSES} more"
            if len(classes) > _MAX_NAMED_CLASSES
            else ""
        )
        rows = (
            f"{len(chosen):,} at random of {len(among):,}{' test' if tests else ''} rows, class"
            f" {named}"
        )
        drawn = away.rows(chosen)
        facts = {"classes": classes, "rows": rows}
        return [OodSet("left_out", drawn.X, facts=facts, source_rows=drawn.source_rows)]


class CompositeOod:
    """The sets of several sources, named by their keys. Ours: in one run, from near to far.

    A source that gives one set gives it the name of its key; of a source with more, each set has
    its own name behind the key (``far/sphere``), or the key alone where that is its own name. Each
    source has a generator of its own, made of one draw and its key, so that one can be added or
    taken away without a change to the others.

    Parameters
    ----------
    sources : key → source of out-of-distribution rows.
    missing : what becomes of a source whose rows are not at hand: data that cannot be fetched, a
        file that is not there, classes of which none is left out. "refuse" is an error; "skip" goes
        on without it and warns. A run that is done is not done again when such rows come to hand:
        give ``force=true``.
    """

    def __init__(
        self, sources: Mapping[str, OodSource], missing: Literal["refuse", "skip"] = "refuse"
    ) -> None:
        self.sources = sources
        self.missing = missing
        check_parameters(self)
        for key, source in sources.items():
            if not hasattr(source, "sets"):
                raise ParameterError(
                    f"sources.{key} must be a source of out-of-distribution rows, got {source!r}"
                )
        if not sources:
            raise ParameterError(
                "sources must name at least one source of out-of-distribution rows, got none; or"
                " choose ood=none"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that what the sources need is on this machine.

        Raises
        ------
        NotAtHand
            If something is not, and ``missing`` is "refuse".
        """
        for key, source in self.sources.items():
            if (fetch := getattr(source, "prefetch", None)) is None:
                continue
            try:
                fetch(progress)
            except NotAtHand as error:
                if self.missing == "refuse":
                    raise
                if progress is not None:
                    progress(_skip_message(key, error))

    def absent(self) -> list[str]:
        """Keys of the sources that are left out here, of those that can tell before a split; none
        where a missing one is refused.
        """
        if self.missing == "refuse":
            return []
        return [key for key, source in self.sources.items() if not _is_available(source)]

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """The sets of each source in turn, drawn when they are asked for.

        Raises
        ------
        NotAtHand
            If rows are not at hand, and ``missing`` is "refuse".
        """
        family = draw_seed(rng)
        for key, source in self.sources.items():
            generator = np.random.default_rng([family, zlib.crc32(key.encode())])
            try:
                yield from _rename_sets(key, source.sets(splits, generator))
            except NotAtHand as error:
                if self.missing == "refuse":
                    raise
                warnings.warn(_skip_message(key, error), stacklevel=2)


def _skip_message(key: str, error: NotAtHand) -> str:
    return f"{key} is skipped: {error}"


def _is_available(source: OodSource) -> bool:
    fetch = getattr(source, "prefetch", None)
    try:
        if fetch is not None:
            fetch()
    except NotAtHand:
        return False
    return True


def _rename_sets(key: str, sets: Iterable[OodSet]) -> Iterator[OodSet]:
    """The sets by the name of the source; whether there is more than one is known when two are
    drawn.
    """
    drawn = iter(sets)
    first = list(islice(drawn, 2))
    for each in chain(first, drawn):
        name = key if len(first) == 1 or each.name == key else f"{key}/{each.name}"
        facts = (
            {**each.facts, "set": each.name}
            if each.facts and name == key != each.name
            else each.facts
        )
        yield replace(each, name=name, facts=facts)
