"""Out-of-distribution rows of other data sets and left-out classes, and combinations of sources.

Except for other data sets, all of them are original to kdgraph.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from kdgraph.data.ood.base import OodRows
from kdgraph.data.ood.synthetic import draw_seed, match_training_rows, numeric_rows
from kdgraph.data.source import Source
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from kdgraph.parameters import ClosedFraction


def cycle_columns(
    train: Dataset, X: np.ndarray, table: Dataset | None, name: str, rng: np.random.Generator
) -> tuple[np.ndarray, list[str]]:
    """Return rows of another table with the width and the ranges of the training rows.

    The j-th numeric feature becomes the numeric column j mod k of the other table, of the k columns
    that are not constant. So surplus columns are cut off, and missing ones are filled by
    repetition. Each column is mapped, min-max, from its range in the other table to the range of
    the feature in the training rows. So no single value is out of range. Shape and dependence are
    those of the other table. Original to kdgraph.

    X: Float[m, d″], or images, is in the original units; a missing value becomes the mean of its
    column. ``table`` has ranges and categories; for a simulation it is None, and the ranges are
    those of X. The result is scaled as the training rows are, Float64[m, d], with a description of
    the changes.
    """
    all_rows = X if table is None else table.X
    numeric = ~table.is_categorical if table is not None and X.ndim == 2 else slice(None)
    X, all_rows = (
        rows.reshape(len(rows), -1)[:, numeric].astype(np.float64) for rows in (X, all_rows)
    )
    low, high = np.fmin.reduce(all_rows), np.fmax.reduce(all_rows)
    # A column that is missing in every row has NaN ends and does not count.
    varied = np.flatnonzero(high > low)
    train_rows = numeric_rows(train)
    if not len(varied) or not train_rows.shape[1]:
        constant_table = train.name if len(varied) else name
        raise DataError(
            f"{constant_table} has no numeric feature that varies, and only such columns can stand"
            " for others; name another"
        )
    width = train_rows.shape[1]
    columns = np.resize(varied, width)
    mean = np.nanmean(all_rows[:, varied], axis=0)
    X = np.where(np.isnan(X[:, columns]), np.resize(mean, width), X[:, columns])
    position = (X - low[columns]) / (high - low)[columns]
    # Map each column from its range in the other table to that of the training feature.
    train_low, train_high = train_rows.min(axis=0), train_rows.max(axis=0)
    description = f"{len(varied)} numeric columns repeated to {width}"
    if width <= len(varied):
        description = f"{width} of {len(varied)} numeric columns"
    mapped = train_low + position * (train_high - train_low)
    X = match_training_rows(train, mapped, draw_seed(rng))
    return X, [f"{description}, each in the range of a training feature"]


_OTHER_DATASET_ADVICE = "choose another data set: ood.name=…"


@dataclass(eq=False, repr=False)
class OtherDataset(OodRows):
    """Random rows of another data set, from its official test rows if it has them, else from all.

    CIFAR-100 and SVHN have this role for CIFAR-10 in Table 1 of Dey et al. (2024), "Deep
    discriminative to kernel density graph".

    Images get the shape of the training images: another size by bilinear interpolation, grey from
    colours (Rec. 601 luma), colours from grey by repetition. If the training rows are vectors of
    pixels, these images become vectors too. The set's ``facts`` list the changes.

    Parameters
    ----------
    source : Table or Simulation
        Source of the rows, as in the group ``dataset``.
    n : int, default=1000
        Number of rows; all if there are fewer.
    columns : {"same", "cycle"}, default="same"
        Treatment of vectors. "same": the rows must have the number of features and the categories
        of the training rows, and are scaled as those. "cycle": any table is accepted; see
        :func:`~kdgraph.data.ood.other_data.cycle_columns`.
    class_half : {"first", "second"} or None, default=None
        Half of the sorted classes from which rows are drawn; None means all. For an odd number of
        classes the first half is the smaller one. So rows can be drawn from classes that a network
        has not used as outliers in training
        (:class:`kdgraph.parents.networks.outlier_sources.DatasetOutliers`).

    Examples
    --------
    >>> from kdgraph.data.simulations import Spiral
    >>> OtherDataset(Spiral(), n=100).source.name
    'spiral'
    """

    source: Table | Simulation
    columns: Literal["same", "cycle"] = "same"
    class_half: ClassHalf = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_half is not None and isinstance(self.source, Simulation):
            raise ParameterError(
                f"class_half must be null, since {self.source.name} is a simulation and not"
                f" divided, got {self.class_half}"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the other data set if it is not on this machine."""
        if isinstance(self.source, FetchableTable):
            self.source.prefetch(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """Return one set, whose name is that of the other data set and of the half."""
        # Names are compared before the source is loaded, origins after; both catch a data set that
        # would be out of distribution to itself.
        train = splits.learning
        if self.source.name == train.name:
            raise DataError(
                f"{train.name} is the data set that is trained on, so its rows are in distribution;"
                f" {_OTHER_DATASET_ADVICE}"
            )
        X, table, facts, source_rows = self._draw_rows(rng)
        origins = [
            (data.facts.get("source"), data.facts.get("id")) for data in (train, table or train)
        ]
        if table is not None and origins[0] == origins[1] and origins[1][1] is not None:
            raise DataError(
                f"{table.name} and {train.name}, which is trained on, are both {origins[1][0]}"
                f" {origins[1][1]}; {_OTHER_DATASET_ADVICE}"
            )
        has_pixels = X.ndim == 4 or (table is not None and "image_shape" in table.facts)
        are_images = train.are_images or (has_pixels and "image_shape" in train.facts)
        if self.columns == "cycle" and not are_images:
            X, changes = cycle_columns(train, X, table, self.source.name, rng)
        else:
            X, changes = _match_rows(train, X, table, self.source.name)
            X = splits.scaling.apply(X)
        name = self.source.name + (f"_{self.class_half}_half" if self.class_half else "")
        return [OodSet(name, X, facts={**facts, "repaired": changes}, source_rows=source_rows)]

    def _draw_rows(
        self, rng: np.random.Generator
    ) -> tuple[np.ndarray, Dataset | None, dict[str, Any], np.ndarray | None]:
        """Return rows in original units, their table, facts, and positions in the table."""
        if isinstance(self.source, Simulation):
            facts = {"source": "simulation", "rows": f"{self.n:,} drawn"}
            return self.source.sample(self.n, rng)[0], None, facts, None
        with warnings.catch_warnings():
            # Warnings about training rows do not matter here.
            warnings.simplefilter("ignore", UserWarning)
            table = self.source.load()
        is_candidate = is_in_class_half(table, self.class_half)
        sample, description = _sample_rows(table, is_candidate, self.n, rng)
        description += f" of the {self.class_half} half of the classes" if self.class_half else ""
        return sample.X, table, {**table.facts, "rows": description}, sample.source_rows


def _sample_rows(
    table: Dataset, is_candidate: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[Dataset, str]:
    """Draw candidates (Bool[n]), of the test rows if there are such, and describe the draw."""
    has_test_rows = table.roles is not None and (table.roles == TEST).any()
    if has_test_rows:
        is_candidate = is_candidate & (table.roles == TEST)
    candidates = np.flatnonzero(is_candidate)
    indices = rng.choice(candidates, min(n, len(candidates)), replace=False)
    kind = " test" if has_test_rows else ""
    return table.rows(indices), f"{len(indices):,} at random of {len(candidates):,}{kind} rows"


def _match_rows(
    train: Dataset, X: np.ndarray, table: Dataset | None, name: str
) -> tuple[np.ndarray, list[str]]:
    """Return rows of the shape and type of the training rows, and a description of the changes."""
    shape = train.X.shape[1:] if train.are_images else train.facts.get("image_shape")
    source_shape = None if table is None else table.facts.get("image_shape")
    if X.ndim == 2 and shape and source_shape:
        X = X.reshape(len(X), *source_shape)
    if X.ndim == 4 and shape:
        try:
            X, changes = match_image_shape(shape, X)
        except ValueError as error:
            raise DataError(f"{name}: {error}; {_OTHER_DATASET_ADVICE}") from error
        if not train.are_images:
            X, changes = X.reshape(len(X), -1), [*changes, "flat"]
        return X.astype(train.X.dtype, copy=False), changes
    if train.are_images or X.ndim == 4:
        row_kinds = {2: "vectors", 4: "images"}
        raise DataError(
            f"{name} has {row_kinds[X.ndim]}, and {train.name}, which is trained on, has"
            f" {row_kinds[train.X.ndim]}; {_OTHER_DATASET_ADVICE}"
        )
    _check_same_columns(train, X, table, name)
    return X, []


def _check_same_columns(train: Dataset, X: np.ndarray, table: Dataset | None, name: str) -> None:
    """Raise DataError if a model of the training rows cannot take these rows.

    The features of the two tables need not mean the same; only number, categories and missing
    values are checked.
    """
    if X.shape[1] != train.X.shape[1]:
        raise DataError(
            f"rows of {name} have {X.shape[1]} features, and rows of {train.name}, which is trained"
            f" on, have {train.X.shape[1]}; {_OTHER_DATASET_ADVICE}"
        )
    # A table without categorical features may have no entries, or None for each feature.
    categories, train_categories = (
        data.categories if data is not None and data.is_categorical.any() else ()
        for data in (table, train)
    )
    if categories != train_categories:
        raise DataError(
            f"{name} and {train.name}, which is trained on, do not have the same categories in the"
            f" same columns; {_OTHER_DATASET_ADVICE}"
        )
    if np.isnan(X).any() and not train.has_missing:
        raise DataError(
            f"{name} has missing values, and {train.name}, which is trained on, has none;"
            f" {_OTHER_DATASET_ADVICE}"
        )


_MAX_NAMED_CLASSES = 12
"""Largest number of classes that a description names."""


@dataclass(eq=False, repr=False)
class LeftOutClasses(OodRows):
    """Random rows of the classes of the same table that no model has seen (``dataset.left_out``).

    The rows are official test rows if the table has them, else any rows. For example, the digits 5
    to 9 are out of distribution for a model of 0 to 4.

    Parameters
    ----------
    n : int, default=1000
        Number of rows; all if there are fewer.

    Examples
    --------
    >>> LeftOutClasses(n=100).n
    100
    """

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """Return one set, whose facts contain the classes."""
        left_out = splits.left_out
        if left_out is None or not len(left_out.y):
            raise DataNotAvailable(
                f"no class of {splits.train.name} is left out; name some, or give their number:"
                " dataset.left_out=…"
            )
        sample, description = _sample_rows(left_out, np.ones(len(left_out.y), bool), self.n, rng)
        classes = left_out.classes.tolist()
        class_names = ", ".join(map(str, classes[:_MAX_NAMED_CLASSES]))
        if (n_more := len(classes) - _MAX_NAMED_CLASSES) > 0:
            class_names += f" and {n_more} more"
        facts = {"classes": classes, "rows": f"{description}, class {class_names}"}
        return [OodSet("left_out", sample.X, facts=facts, source_rows=sample.source_rows)]


@dataclass(eq=False, repr=False)
class CompositeOod(Source):
    """The sets of several sources, named after the keys of the sources.

    A set is named after the key of its source. If a source has several sets, the name of the set
    follows the key (``far/sphere``), unless it equals the key. The generator of each source depends
    on one common draw and on the key, so adding or removing a source does not change the others.

    Parameters
    ----------
    sources : mapping of str to OodSource
        Sources of out-of-distribution rows by key.
    missing : {"refuse", "skip"}, default="refuse"
        Treatment of a source whose rows are not available: data that cannot be fetched, a missing
        file, or no left-out classes. "refuse" raises an error. "skip" continues without the source
        and warns. A finished run is not repeated when such rows become available; use
        ``force=true``.

    Examples
    --------
    >>> from kdgraph.data.ood import Sphere, UniformNoise
    >>> list(CompositeOod({"far": Sphere(), "noise": UniformNoise()}).sources)
    ['far', 'noise']
    """

    sources: Mapping[str, OodSource]
    missing: Literal["refuse", "skip"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, source in self.sources.items():
            if not hasattr(source, "sets"):
                raise ParameterError(
                    f"sources.{key} must be a source of out-of-distribution rows, got {source!r}"
                )
        if not self.sources:
            raise ParameterError(
                "sources must name at least one source of out-of-distribution rows, got none; or"
                " choose ood=none"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the data of all sources that are not on this machine."""
        for key, source in self.sources.items():
            try:
                _prefetch(source, progress)
            except DataNotAvailable as error:
                if self.missing == "refuse":
                    raise
                if progress is not None:
                    progress(_skip_message(key, error))

    def absent(self) -> list[str]:
        """Return the keys of the sources that are known to be skipped before the split.

        The list is empty if ``missing`` is "refuse".
        """
        if self.missing == "refuse":
            return []
        return [key for key, source in self.sources.items() if not _is_available(source)]

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """Yield the sets of each source in turn, drawn when they are requested."""
        family = draw_seed(rng)
        for key, source in self.sources.items():
            generator = np.random.default_rng([family, zlib.crc32(key.encode())])
            try:
                yield from _rename_sets(key, source.sets(splits, generator))
            except DataNotAvailable as error:
                if self.missing == "refuse":
                    raise
                warnings.warn(_skip_message(key, error), stacklevel=2)


CONTAMINATION_SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of out-of-distribution rows, from few to all."""


@dataclass(eq=False, repr=False)
class Contaminated(OodRows):
    """Sets of test rows of which a share is out of distribution, drawn from another source.

    Detectors of sets draw theirs from these rows, so that a set of m rows has share · m rows out of
    distribution on average. All shares use the same order of both kinds of rows and differ only in
    the number of each, so that differences between shares are more accurate than each value. Test
    rows of a contaminated set are among the rows in distribution that it is compared with. This
    makes the two dependent and does not favour either.

    Parameters
    ----------
    outliers : OodSource
        Source of the out-of-distribution rows. Each of its sets becomes one set for each share.
    shares : sequence of float, default=(0.05, 0.1, 0.2, 0.5, 1)
        Fractions of out-of-distribution rows. 0 gives a set in distribution.
    n : int, default=1000
        Number of rows of each set, at most all test rows, and at most all rows of the set of
        ``outliers``.

    Examples
    --------
    >>> from kdgraph.data.ood import UniformNoise
    >>> Contaminated(UniformNoise(), shares=[0.1, 1]).shares
    [0.1, 1]
    """

    outliers: OodSource
    shares: Sequence[ClosedFraction] = CONTAMINATION_SHARES

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.outliers, "sets"):
            raise ParameterError(
                f"outliers must be a source of out-of-distribution rows, got {self.outliers!r};"
                " name one: +ood@ood.outliers=noise"
            )
        if not len(self.shares):
            raise ParameterError("shares must have at least one number, got []")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Fetch the data of the source if they are not on this machine."""
        _prefetch(self.outliers, progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """Yield a set for each set of the source and each share, with parameter ``share``."""
        source_rng, order_rng = rng.spawn(2)
        for ood_set in self.outliers.sets(splits, source_rng):
            n = min(self.n, len(ood_set.X), len(splits.test.y))
            ood_rows = ood_set.X[order_rng.permutation(len(ood_set.X))[:n]]
            test_rows = splits.test.X[order_rng.permutation(len(splits.test.y))[:n]]
            for share in self.shares:
                n_ood = min(max(round(share * n), int(share > 0)), n)
                yield OodSet(
                    ood_set.name,
                    np.concatenate([ood_rows[:n_ood], test_rows[: n - n_ood]]),
                    {**ood_set.params, "share": float(share)},
                    id_values=(0.0,),
                    facts={**ood_set.facts, "contamination": f"{n_ood} of {n} rows"},
                )


def _prefetch(source: OodSource, progress: Callable[[str], None] | None = None) -> None:
    if (fetch := getattr(source, "prefetch", None)) is not None:
        fetch(progress)


def _skip_message(key: str, error: DataNotAvailable) -> str:
    return f"{key} is skipped: {error}"


def _is_available(source: OodSource) -> bool:
    try:
        _prefetch(source)
    except DataNotAvailable:
        return False
    return True


def _rename_sets(key: str, sets: Iterable[OodSet]) -> Iterator[OodSet]:
    remaining = iter(sets)
    # Two sets are drawn first, because the name of a set depends on whether it is the only one.
    first_sets = list(islice(remaining, 2))
    for ood_set in chain(first_sets, remaining):
        name = key if len(first_sets) == 1 or ood_set.name == key else f"{key}/{ood_set.name}"
        is_renamed = ood_set.facts and name == key != ood_set.name
        facts = {**ood_set.facts, "set": ood_set.name} if is_renamed else ood_set.facts
        yield replace(ood_set, name=name, facts=facts)
