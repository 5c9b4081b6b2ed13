"""Scaling of features, fitted on training rows and applied to every other.

What comes in: a data set and its rows by role.

Where rows come from: sources that can draw any number of them, sources that have a fixed number,
and what is out of distribution.

One half of the classes of a data set: so that a network can learn from some classes what is not its
own, and be asked about others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from kdgraph.distributions import Distribution
from kdgraph.errors import DataError, ParameterError

ScalingName = Literal["none", "min_max", "max_norm"]
"""none: as they are. min_max: each feature of the training rows to [0, 1]. max_norm: all divided by
the training rows' largest L2 norm.

Images are already in [0, 1] and stay as they are, and so do categories. A missing value stays
missing, and adds nothing to a norm.
"""


@dataclass(frozen=True)
class Scaling:
    """The map x ↦ (x - shift) / size, feature by feature; by default the identity.

    Attributes
    ----------
    shift : Float[d], or one number for all features.
    size : Float[d], or one number for all features; never 0.
    """

    shift: np.ndarray | float = 0.0
    size: np.ndarray | float = 1.0

    @classmethod
    def fit(
        cls, X: np.ndarray, scale: ScalingName, categorical: np.ndarray | None = None
    ) -> Scaling:
        """The scaling that ``scale`` means for training rows X: Float[n, d], or images, for which
        it must be "none".

        A constant feature has no range; min_max only shifts it to 0, and so max_norm leaves rows
        that are all 0. Features that are ``categorical`` (Bool[d]) are neither shifted nor scaled.
        """
        if X.ndim != 2 and scale != "none":
            raise ParameterError(
                f"scale must be none for images, which are in [0, 1] already, got {scale!r}; it is"
                " for vectors"
            )
        kept = (
            np.zeros(X.shape[1], dtype=bool)
            if categorical is None or scale == "none"
            else categorical
        )
        if scale == "min_max":
            low, high = (
                np.where(kept | np.isnan(ends), 0.0, ends)
                for ends in (np.fmin.reduce(X), np.fmax.reduce(X))
            )
            return cls(low, np.where(kept, 1.0, _nonzero(high - low)))
        if scale == "max_norm":
            norm = _nonzero(np.linalg.norm(np.nan_to_num(X) * ~kept, axis=1).max())
            return cls(0.0, np.where(kept, 1.0, norm) if kept.any() else norm)
        return cls()

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are measured to rows as they are learnt from: Float[n, d]. The identity
        gives X itself, no copy.
        """
        return X if self._is_identity else (X - self.shift) / self.size

    def undo(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are learnt from to rows as they are measured: Float[n, d]. The identity
        gives X itself, no copy.
        """
        return X if self._is_identity else X * self.size + self.shift

    @property
    def _is_identity(self) -> bool:
        return np.ndim(self.shift) == np.ndim(self.size) == 0 and self.shift == 0 and self.size == 1


def _nonzero(size: np.ndarray) -> np.ndarray:
    return np.where(size == 0, 1.0, size)


PosteriorFunction = Callable[[np.ndarray], np.ndarray]
"""X: Float[n, d] → P(y|x): Float[n, K], rows sum to 1."""

TaskSetting = Literal["auto", "classification", "regression"]
"""What a user says that the target of a table is; auto decides by its values."""

ColumnKind = Literal["numeric", "categorical"]
"""What a column of a table is."""

UNUSED, TRAIN, CALIBRATION, TEST = -1, 0, 1, 2
"""Roles of rows where the source prescribes them (:attr:`Dataset.roles`)."""


@dataclass(frozen=True)
class Dataset:
    """Rows with labels, as every stage sees them.

    Attributes
    ----------
    name : what the user calls it.
    X : Float64[n, d], or images Float32[n, c, h, w] in [0, 1], channel first. NaN is a missing
        value, which images cannot have. A categorical feature holds the positions of its values in
        ``categories``.
    y : Int[n], positions in ``classes``; Float[n] for regression.
    classes : [K], the labels sorted by value; empty for regression.
    feature_names : d names; none for images.
    split_groups : Int[n] or None; rows of one of them stay together in a split.
    groups : Int[n] or None, positions in ``group_names``: whom a row belongs to, where groups are
    to be measured apart.
    group_names : of the groups; a group may have no row.
    groups_are_target : whether the group of a row is its label, for metrics by true class; nothing
    is fitted by such groups.
    posterior : the true P(y|x) as a vectorised function, or None where nobody knows it.
    distribution : in a regression the true distribution of y at each row, likewise.
    categories : for each feature its values as text, sorted, or None where it is numeric; empty
    where all are numeric.
    roles : Int8[n] of the roles that the source prescribes (UNUSED, TRAIN, CALIBRATION, TEST), or
    None.
    facts : what the record says about where the rows come from; plain numbers and text.
    given_scores : whether X holds the class probabilities of a model that was trained elsewhere,
    Float[n, K]: nothing is left to train.
    given_layers : of given scores, name and number of columns of each layer whose features stand in
    X behind the probabilities.
    source_rows : Int64[n], the number of each row in the source that it was read from, from 0; by
        default 0 to n - 1. A subset keeps the numbers of its rows. They are no part of the
        fingerprint.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    feature_names: tuple[str, ...]
    task: Literal["classification", "regression"] = "classification"
    split_groups: np.ndarray | None = None
    posterior: PosteriorFunction | None = field(default=None, compare=False)
    categories: tuple[tuple[str, ...] | None, ...] = ()
    roles: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    given_scores: bool = False
    given_layers: tuple[tuple[str, int], ...] = ()
    distribution: Callable[[np.ndarray], Distribution] | None = field(default=None, compare=False)
    groups: np.ndarray | None = None
    group_names: tuple[str, ...] = ()
    groups_are_target: bool = False
    source_rows: np.ndarray | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.X.ndim not in (2, 4) or len(self.X) != len(self.y):
            raise DataError(
                f"{self.name}: X must have one row for each of {len(self.y)} labels, got shape"
                f" {self.X.shape}"
            )
        self._set_source_rows()
        if not self.X.size:
            return
        low, high = (
            self.X.min(),
            self.X.max(),
        )  # NaN and infinity show here, without an array of flags as long as X
        if not (np.isfinite(low) and np.isfinite(high)) and (
            self.are_images or np.isinf(self.X).any()
        ):
            raise DataError(self._invalid_cell_message())
        if self.are_images and (low < 0 or high > 1):
            raise DataError(
                f"{self.name}: images must lie in [0, 1], got {low:g} to {high:g}; divide by the"
                " largest intensity"
            )

    def _set_source_rows(self) -> None:
        n, given = len(self.y), self.source_rows
        rows = np.arange(n) if given is None else np.asarray(given, dtype=np.int64)
        if rows.shape != (n,):
            rule = f"source_rows must have one number for each of {n} rows"
            raise DataError(f"{self.name}: {rule}, got shape {rows.shape}")
        object.__setattr__(self, "source_rows", rows)

    @property
    def are_images(self) -> bool:
        """Whether a row is an image, not a vector."""
        return self.X.ndim == 4

    @property
    def is_categorical(self) -> np.ndarray:
        """Bool[d]: which features hold categories; of images none."""
        d = self.X.shape[1] if self.X.ndim == 2 else 0
        return np.array(
            [values is not None for values in self.categories] or [False] * d, dtype=bool
        )

    @property
    def truth(self) -> np.ndarray | Distribution | None:
        """What is true of the rows: posteriors Float[n, K], in a regression their distributions, or
        None where nobody knows it.
        """
        known = self.posterior or self.distribution
        return None if known is None else known(self.X)

    @property
    def needs_encoding(self) -> bool:
        """Whether some values are no numbers: categories, or missing ones."""
        return bool(self.is_categorical.any()) or self.has_missing

    @cached_property
    def has_missing(self) -> bool:
        """Whether any value is missing."""
        return bool(self.X.size and np.isnan(self.X.min()))

    def _invalid_cell_message(self) -> str:
        bad = ~np.isfinite(self.X) if self.are_images else np.isinf(self.X)
        row, *cell = np.argwhere(bad)[0].tolist()
        where = f"pixel {tuple(cell)}" if self.are_images else self.feature_names[cell[0]]
        found = f"{where} has {self.X[(row, *cell)]} in row {row} ({bad.sum()} such cells)"
        remedy = (
            "drop the image"
            if self.are_images
            else "write what is unknown as an empty cell, which is read as missing"
        )
        return f"{self.name}: {found}; {remedy}"

    @classmethod
    def from_labels(
        cls,
        name: str,
        X: np.ndarray,
        labels: np.ndarray,
        feature_names: tuple[str, ...] | None = None,
        **more,
    ) -> Dataset:
        """Encode ``labels`` of any type by their sorted unique values; images become float32,
        vectors float64.
        """
        X = np.ascontiguousarray(X, dtype=np.float32 if np.ndim(X) == 4 else np.float64)
        classes, y = np.unique(np.asarray(labels), return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"{name}: a classifier needs two classes, the target has only {classes.tolist()}"
            )
        names = feature_names or (
            tuple(f"x{i + 1}" for i in range(X.shape[1])) if X.ndim == 2 else ()
        )
        return cls(name, X, y, classes, tuple(names), **more)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that is learnt from: X, y, classes, categories, and groups where
        there are some.
        """
        digest = hashlib.sha256()
        for part in (
            self.X,
            self.y,
            self.split_groups if self.split_groups is not None else np.empty(0),
        ):
            part = np.ascontiguousarray(part)
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(part.data)
        digest.update(repr(self.classes.tolist()).encode())
        if any(self.categories):
            digest.update(repr(self.categories).encode())
        if self.given_layers:
            digest.update(f"layers{self.given_layers!r}".encode())
        if self.groups is not None:
            digest.update(
                f"groups{self.group_names!r}".encode()
                + np.ascontiguousarray(self.groups, dtype=np.int64).tobytes()
            )
        return digest.hexdigest()[:16]

    def rows(self, index: np.ndarray) -> Dataset:
        """The same data set with only the rows at ``index``."""
        by_row = ("split_groups", "groups", "roles", "source_rows")
        more = {
            name: None if (values := getattr(self, name)) is None else values[index]
            for name in by_row
        }
        return replace(self, X=self.X[index], y=self.y[index], **more)

    def with_classes(self, kept: np.ndarray) -> Dataset:
        """Only the rows whose class is among ``kept``, Int[K'] of positions in ``classes``, which
        become the classes.
        """
        chosen = self.rows(np.flatnonzero(np.isin(self.y, kept)))
        return replace(chosen, y=np.searchsorted(kept, chosen.y), classes=self.classes[kept])


@dataclass(frozen=True)
class Splits:
    """Rows by role, all of them scaled by ``scaling``, which only ``train`` decided. Nothing that
    is fitted ever sees ``test``.

    ``left_out`` has the rows of classes that have no role, with these classes; None where there are
    none. No number but those of out-of-distribution sets depends on them, except that a missing
    value in one makes a run fill in missing values.
    """

    train: Dataset
    calibration: Dataset
    test: Dataset
    scaling: Scaling = field(default_factory=Scaling)
    left_out: Dataset | None = None

    @property
    def fingerprint(self) -> str:
        """Hex digest of the three roles' fingerprints, and of that of the rows that are left
        out.
        """
        parts = [
            each.fingerprint
            for each in (self.train, self.calibration, self.test, self.left_out)
            if each is not None
        ]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    @property
    def learning(self) -> Dataset:
        """The rows that there are to learn from: for training, or for calibration where nothing is
        trained, or for test where all test.
        """
        return next((role for role in (self.train, self.calibration) if len(role.y)), self.test)

    @property
    def has_missing(self) -> bool:
        """Whether a row of any role, or one that is left out, has a missing value."""
        return any(
            each.has_missing
            for each in (self.train, self.calibration, self.test, self.left_out)
            if each is not None
        )

    @property
    def prior(self) -> np.ndarray | None:
        """Float[K]: class shares of the rows to learn from; None in regression."""
        y, k = self.learning.y, len(self.train.classes)
        return np.bincount(y, minlength=k) / len(y) if self.train.task == "classification" else None


@dataclass(frozen=True)
class OodSet:
    """Rows that are not from the training distribution.

    Attributes
    ----------
    name : of the set, or of the family that it is one of.
    X : rows of the shape and type of the training rows, scaled as those are.
    params : which of the family, e.g. ``{"radius": 2.0}``.
    id_values : values of the family's one parameter at which its rows are in distribution after
    all.
    facts : what the record says about where the rows come from and what was done to them.
    source_rows : Int64[n], the number of the row in its source (of another data set, or of the
        run's) that each row is or was made of; None where rows come from no source.
    """

    name: str
    X: np.ndarray
    params: dict[str, float] = field(default_factory=dict)
    id_values: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    source_rows: np.ndarray | None = field(default=None, compare=False)


@runtime_checkable
class Simulation(Protocol):
    """A source that can draw any number of rows; ``classes`` is empty if it is a regression."""

    name: str
    classes: np.ndarray
    feature_names: tuple[str, ...]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """X: Float[n, d] or Float[n, c, h, w], y: Int[n], Float[n] in regression."""
        ...


@runtime_checkable
class PosteriorSimulation(Simulation, Protocol):
    """A simulation that knows the truth."""

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """P(y|x): Float[m, K] of a sample of ``n`` rows (None: of the population)."""
        ...


@runtime_checkable
class RegressionSimulation(Simulation, Protocol):
    """A simulation of a regression that knows the truth."""

    def distribution(self, X: np.ndarray) -> Distribution:
        """The true distributions of y at the n rows of X: Float[n, d]."""
        ...


@runtime_checkable
class Table(Protocol):
    """A source that has a fixed number of rows.

    One that reads more than the file that its parameter ``path`` names says so in ``reads``:
    parameter → function from its path to the files that are read. Their content is part of what a
    run is.
    """

    name: str

    def load(self) -> Dataset:
        """The whole table."""
        ...


@runtime_checkable
class FetchableTable(Table, Protocol):
    """A table that may have to be fetched before a run can start, once and in one process."""

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the rows are on this machine, telling ``progress`` what is going on.

        Raises
        ------
        NotAtHand
            If they cannot be had, or what the source requires of them shuts them out.
        """
        ...


@runtime_checkable
class OodSource(Protocol):
    """A source of rows that are not from the training distribution; one that has to be fetched has
    ``prefetch`` as :class:`FetchableTable` has.
    """

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """Sets of rows as a model takes them, drawn one at a time.

        ``splits.train`` says where the training distribution is, ``splits.test`` has the rows that
        a shift of rows in distribution starts from, and ``splits.scaling`` scales rows that come as
        they are measured.
        """
        ...


ClassHalf = Literal["first", "second"] | None
"""Of the sorted classes; of an odd number the first half is the smaller. None: all of them."""


def is_in_class_half(table: Dataset, half: ClassHalf) -> np.ndarray:
    """Bool[n]: rows whose class is in that half.

    Raises
    ------
    DataError
        If there are no two classes to divide.

    Examples
    --------
    >>> table = Dataset.from_labels("letters", np.zeros((3, 1)), ["a", "b", "c"])
    >>> is_in_class_half(table, "first").tolist(), is_in_class_half(table, "second").tolist()
    ([True, False, False], [False, True, True])
    """
    if half is None:
        return np.ones(len(table.y), dtype=bool)
    if len(table.classes) < 2:
        raise DataError(
            f"{table.name} has no classes to be divided into halves; give half=null, or choose"
            " another data set"
        )
    is_first = table.y < len(table.classes) // 2
    return is_first if half == "first" else ~is_first
