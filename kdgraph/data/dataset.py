"""Data sets, their division into roles, and the interfaces of data sources.

A source is a simulation, which can draw any number of rows, or a table, which has a fixed number of
rows. Both produce a :class:`Dataset`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from kdgraph.data.mapped_rows import extremes, mapped_blocks, select_mapped_rows
from kdgraph.data.scaling import Scaling
from kdgraph.data.source import numbered_names
from kdgraph.data.source_columns import SourceColumn, source_columns
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError

PosteriorFunction = Callable[[np.ndarray], np.ndarray]
"""X: Float[n, d] → P(y|x): Float[n, K], rows sum to 1."""

TaskSetting = Literal["auto", "classification", "regression"]
"""Task of a table as configured; "auto" chooses by the values of the target."""

ColumnKind = Literal["numeric", "categorical"]
"""Kind of the values in a column of a table."""

UNUSED, TRAIN, CALIBRATION, TEST = -1, 0, 1, 2
"""Roles of rows where the source prescribes them (:attr:`Dataset.roles`)."""


@dataclass(frozen=True)
class Dataset:
    """Rows with labels, in the form that every stage of a run uses.

    Attributes
    ----------
    name : str
        Name in configurations and messages.
    X : Float64[n, d] or Float32[n, c, h, w]
        Features, or images in [0, 1] with the channel first. NaN is a missing value; images cannot
        have missing values. A categorical feature contains positions in its entry of
        ``categories``.
    y : Int[n] or Float[n]
        Positions in ``classes``; real values in regression.
    classes : ndarray of shape (K,)
        Labels, sorted by value; empty in regression.
    feature_names : tuple of d str
        Names of the features; empty for images.
    task : {"classification", "regression"}, default="classification"
        Kind of the target.
    split_groups : Int[n], default=None
        Group of each row; a split keeps the rows of one group together.
    posterior : callable, default=None
        True P(y|x) as a vectorised function; None if it is unknown.
    categories : tuple of d (tuple of str or None), default=()
        Sorted values of each categorical feature as text, None for a numeric feature; empty if all
        features are numeric.
    columns : tuple of d SourceColumn, default=()
        Each feature as its source has it, for models that were fitted elsewhere; empty for a source
        without types. They are not part of the fingerprint: nothing that is fitted here depends on
        them.
    roles : Int8[n], default=None
        Roles that the source prescribes (UNUSED, TRAIN, CALIBRATION, TEST), or None.
    facts : mapping, default={}
        Origin of the rows, as written to the record of a run; plain numbers and text.
    has_scores : bool, default=False
        True if X contains class probabilities, Float[n, K], of a model that was trained elsewhere;
        then there is nothing to train.
    layer_widths : tuple of (str, int), default=()
        For class probabilities: name and number of columns of each layer whose features follow the
        probabilities in X.
    distribution : callable, default=None
        In regression, the true distribution of y at given rows; None if it is unknown.
    groups : Int[n], default=None
        Group of each row, as a position in ``group_names``, for metrics that are computed per
        group.
    group_names : tuple of str, default=()
        Names of the groups; a group may have no row.
    groups_are_target : bool, default=False
        True if the group of a row is its label, for metrics by true class. Nothing is fitted by
        such groups.
    source_rows : Int64[n], default=0 to n - 1
        Number of each row in the source that it was read from, from 0. A subset keeps the numbers
        of its rows. The numbers are not part of the fingerprint.

    Raises
    ------
    DataError
        If the shapes do not fit, a value is infinite, or a pixel is missing or outside [0, 1].

    Examples
    --------
    >>> table = Dataset.from_labels("pets", np.zeros((3, 2)), ["dog", "cat", "dog"])
    >>> table.classes.tolist(), table.y.tolist()
    (['cat', 'dog'], [1, 0, 1])
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
    columns: tuple[SourceColumn, ...] = field(default=(), compare=False)
    roles: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    has_scores: bool = False
    layer_widths: tuple[tuple[str, int], ...] = ()
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
        if self.columns and [c.name for c in self.columns] != list(self.feature_names):
            names = [column.name for column in self.columns]
            raise DataError(f"{self.name}: columns must be the features, got {names}")
        if not self.X.size:
            return
        # NaN and infinity appear in the extremes, which need no array of flags as long as X.
        low, high = extremes(self.X)
        if not (np.isfinite(low) and np.isfinite(high)) and (
            self.are_images or any(np.isinf(self.X[rows]).any() for rows in mapped_blocks(self.X))
        ):
            raise DataError(self._invalid_cell_message())
        if self.are_images and (low < 0 or high > 1):
            raise DataError(
                f"{self.name}: images must lie in [0, 1], got {low:g} to {high:g}; divide by the"
                " largest intensity"
            )

    def _set_source_rows(self) -> None:
        n, numbers = len(self.y), self.source_rows
        rows = np.arange(n) if numbers is None else np.asarray(numbers, dtype=np.int64)
        if rows.shape != (n,):
            raise DataError(
                f"{self.name}: source_rows must have one number for each of {n} rows, got shape"
                f" {rows.shape}"
            )
        object.__setattr__(self, "source_rows", rows)

    @property
    def are_images(self) -> bool:
        """Truth value that is True if each row is an image, and False for vectors."""
        return self.X.ndim == 4

    @property
    def is_categorical(self) -> np.ndarray:
        """Bool[d]: True for each feature that contains categories; empty for images."""
        d = self.X.shape[1] if self.X.ndim == 2 else 0
        values = self.categories or [None] * d
        return np.array([names is not None for names in values], dtype=bool)

    @property
    def source_columns(self) -> tuple[SourceColumn, ...]:
        """Each feature as its source has it; empty for images."""
        return self.columns or source_columns(self.feature_names, self.categories)

    @property
    def truth(self) -> np.ndarray | Distribution | None:
        """True posteriors Float[n, K] of the rows, or their distributions in regression.

        None if the source does not provide them.
        """
        function = self.posterior or self.distribution
        return None if function is None else function(self.X)

    @property
    def needs_encoding(self) -> bool:
        """Truth value that is True if some values are categories or missing."""
        return bool(self.is_categorical.any()) or self.has_missing

    @cached_property
    def has_missing(self) -> bool:
        """Truth value that is True if any value is missing."""
        return bool(self.X.size and np.isnan(extremes(self.X)[0]))

    def _invalid_cell_message(self) -> str:
        bad = ~np.isfinite(self.X) if self.are_images else np.isinf(self.X)
        row, *cell = np.argwhere(bad)[0].tolist()
        location = f"pixel {tuple(cell)}" if self.are_images else self.feature_names[cell[0]]
        remedy = "write what is unknown as an empty cell, which is read as missing"
        remedy = "drop the image" if self.are_images else remedy
        value = self.X[(row, *cell)]
        return (
            f"{self.name}: {location} has {value} in row {row} ({bad.sum()} such cells); {remedy}"
        )

    @classmethod
    def from_labels(
        cls,
        name: str,
        X: np.ndarray,
        labels: np.ndarray,
        feature_names: tuple[str, ...] | None = None,
        **attributes,
    ) -> Dataset:
        """Create a data set from labels of any type.

        Parameters
        ----------
        name : str
            Name of the data set.
        X : Float[n, d] or Float[n, c, h, w]
            Features, converted to float64, or images, converted to float32.
        labels : array-like of shape (n,)
            Labels; their sorted unique values become ``classes``.
        feature_names : tuple of str, default=None
            Names of the features; None for x1, x2, ….
        **attributes
            Other attributes of :class:`Dataset`.

        Raises
        ------
        DataError
            If there are fewer than two classes.
        """
        X = np.ascontiguousarray(X, dtype=np.float32 if np.ndim(X) == 4 else np.float64)
        classes, y = np.unique(np.asarray(labels), return_inverse=True)
        if len(classes) < 2:
            raise DataError(
                f"{name}: a classifier needs two classes, the target has only {classes.tolist()}"
            )
        names = feature_names or (numbered_names(X.shape[1]) if X.ndim == 2 else ())
        return cls(name, X, y, classes, tuple(names), **attributes)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that a model can learn from.

        These are X, y, classes, categories, layers and both kinds of groups.
        """
        # Categories, layers and groups enter the digest only if they are set, so a data set without
        # them has the digest of its rows and classes alone.
        digest = hashlib.sha256()
        groups = self.split_groups if self.split_groups is not None else np.empty(0)
        for part in (self.X, self.y, groups):
            part = np.ascontiguousarray(part)
            digest.update(f"{part.dtype}{part.shape}".encode())
            for rows in mapped_blocks(part) if part.ndim else []:
                digest.update(part[rows].data)
        digest.update(repr(self.classes.tolist()).encode())
        if any(self.categories):
            digest.update(repr(self.categories).encode())
        if self.layer_widths:
            digest.update(f"layers{self.layer_widths!r}".encode())
        if self.groups is not None:
            digest.update(
                f"groups{self.group_names!r}".encode()
                + np.ascontiguousarray(self.groups, dtype=np.int64).tobytes()
            )
        return digest.hexdigest()[:16]

    def rows(self, index: np.ndarray) -> Dataset:
        """Return the same data set with only the rows at ``index``."""
        selected = {
            name: None if (values := getattr(self, name)) is None else values[index]
            for name in ("split_groups", "groups", "roles", "source_rows")
        }
        return replace(self, X=select_mapped_rows(self.X, index), y=self.y[index], **selected)

    def with_classes(self, class_indices: np.ndarray) -> Dataset:
        """Return only the rows of some classes (sorted Int[K']), which become the classes."""
        subset = self.rows(np.flatnonzero(np.isin(self.y, class_indices)))
        y = np.searchsorted(class_indices, subset.y)
        return replace(subset, y=y, classes=self.classes[class_indices])


@dataclass(frozen=True)
class Splits:
    """Rows by role, all of them scaled by a scaling that is fitted on the training rows.

    Attributes
    ----------
    train, calibration, test : Dataset
        Rows of each role, scaled. No fitted object uses ``test``.
    scaling : Scaling, default=identity
        Scaling of all rows, fitted on ``train``.
    rows_fingerprint, test_fingerprint : str, default=""
        Hex digests of the unscaled rows that learn, held out or not, and test; and of the latter.
    left_out : Dataset, default=None
        Rows of classes that no role contains, with these classes; None without such classes. Only
        numbers of out-of-distribution sets depend on them, with one exception: if one of them has a
        missing value, a run fills in missing values.

    Examples
    --------
    >>> table = Dataset.from_labels("pets", np.arange(6.0)[:, None], ["cat", "dog"] * 3)
    >>> splits = Splits(table.rows([0, 1, 2]), table.rows([3, 4]), table.rows([5]))
    >>> len(splits.train.y), splits.prior.round(3).tolist()
    (3, [0.667, 0.333])
    """

    train: Dataset
    calibration: Dataset
    test: Dataset
    scaling: Scaling = field(default_factory=Scaling)
    left_out: Dataset | None = None
    rows_fingerprint: str = ""
    test_fingerprint: str = ""

    @property
    def fingerprint(self) -> str:
        """Hex digest of the fingerprints of the three roles and of the rows that are left out."""
        parts = [role.fingerprint for role in self._roles]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    @property
    def _roles(self) -> list[Dataset]:
        roles = (self.train, self.calibration, self.test, self.left_out)
        return [role for role in roles if role is not None]

    @property
    def learning(self) -> Dataset:
        """Rows to learn from: those for training, else for calibration, else for testing."""
        return next((role for role in (self.train, self.calibration) if len(role.y)), self.test)

    @property
    def has_missing(self) -> bool:
        """Truth value that is True if a row of any role, or a row left out, has a missing value."""
        return any(role.has_missing for role in self._roles)

    @property
    def prior(self) -> np.ndarray | None:
        """Float[K]: proportions of the classes in the rows to learn from; None in regression."""
        y, k = self.learning.y, len(self.train.classes)
        return np.bincount(y, minlength=k) / len(y) if self.train.task == "classification" else None


@dataclass(frozen=True)
class OodSet:
    """Rows that are not from the training distribution.

    Attributes
    ----------
    name : str
        Name of the set, or of the family that it belongs to.
    X : ndarray
        Rows, with the shape, type and scaling of the training rows.
    params : dict of str to float, default={}
        Parameters of the set in its family, e.g. ``{"radius": 2.0}``.
    id_values : tuple of float, default=()
        Values of the one parameter of the family at which the rows are in distribution.
    facts : mapping, default={}
        Origin of the rows and what was done to them, as written to the record of a run.
    source_rows : Int64[n], default=None
        Number of the source row from which each row was made. The source is another data set, or
        that of the run. None if the rows have no source.

    Examples
    --------
    >>> ood_set = OodSet("sphere", np.array([[0.0, 2.0], [2.0, 0.0]]), {"radius": 2.0})
    >>> ood_set.name, ood_set.X.shape, ood_set.params
    ('sphere', (2, 2), {'radius': 2.0})
    """

    name: str
    X: np.ndarray
    params: dict[str, float] = field(default_factory=dict)
    id_values: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    source_rows: np.ndarray | None = field(default=None, compare=False)


@runtime_checkable
class Simulation(Protocol):
    """Source that can draw any number of rows; ``classes`` is empty in regression.

    Examples
    --------
    >>> class Coin:
    ...     name, classes, feature_names = "coin", np.array(["heads", "tails"]), ("x1",)
    ...     def sample(self, n, rng):
    ...         y = rng.integers(2, size=n)
    ...         return rng.normal(y, 0.5)[:, None], y
    >>> X, y = Coin().sample(3, np.random.default_rng(0))
    >>> isinstance(Coin(), Simulation), X.shape, y.tolist()
    (True, (3, 1), [1, 1, 1])
    """

    name: str
    classes: np.ndarray
    feature_names: tuple[str, ...]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draw X: Float[n, d] or Float[n, c, h, w], and y: Int[n], or Float[n] in regression."""
        ...


@runtime_checkable
class PosteriorSimulation(Simulation, Protocol):
    """Simulation with a computable true posterior.

    Examples
    --------
    >>> class Sides:
    ...     name, classes, feature_names = "sides", np.arange(2), ("x1",)
    ...     def sample(self, n, rng):
    ...         X = rng.uniform(-1, 1, (n, 1))
    ...         return X, (X[:, 0] > 0).astype(int)
    ...     def posterior(self, X, n=None):
    ...         return np.column_stack([X[:, 0] <= 0, X[:, 0] > 0]).astype(float)
    >>> isinstance(Sides(), PosteriorSimulation), Sides().posterior(np.array([[0.3]])).tolist()
    (True, [[0.0, 1.0]])
    """

    def posterior(self, X: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return P(y|x): Float[m, K] for a sample of ``n`` rows.

        None stands for the whole population.
        """
        ...


@runtime_checkable
class RegressionSimulation(Simulation, Protocol):
    """Simulation of a regression with a computable true distribution.

    Examples
    --------
    >>> from kdgraph.distributions import Normal
    >>> class Line:
    ...     name, classes, feature_names = "line", np.empty(0), ("x1",)
    ...     def sample(self, n, rng):
    ...         X = rng.uniform(size=(n, 1))
    ...         return X, self.distribution(X).sample(1, rng)[:, 0]
    ...     def distribution(self, X):
    ...         return Normal(2 * X[:, 0], np.full(len(X), 0.1))
    >>> isinstance(Line(), RegressionSimulation), Line().distribution(np.ones((1, 1))).mean()
    (True, array([2.]))
    """

    def distribution(self, X: np.ndarray) -> Distribution:
        """Return the true distributions of y at the n rows of X: Float[n, d]."""
        ...


@runtime_checkable
class Table(Protocol):
    """Source with a fixed number of rows.

    A table that reads more files than the one at its parameter ``path`` has an attribute ``reads``.
    It maps a parameter to a function from the path in it to the files that are read. The content of
    these files is part of the identity of a run.

    Examples
    --------
    >>> class Pets:
    ...     name = "pets"
    ...     def load(self):
    ...         return Dataset.from_labels(self.name, [[4.0], [21.0]], ["cat", "dog"], ("kg",))
    >>> isinstance(Pets(), Table), Pets().load().classes.tolist()
    (True, ['cat', 'dog'])
    """

    name: str

    def load(self) -> Dataset:
        """Return the whole table."""
        ...


@runtime_checkable
class FetchableTable(Table, Protocol):
    """Table that may have to be downloaded before a run starts, once and in one process.

    Examples
    --------
    >>> class RemotePets:
    ...     name = "remote_pets"
    ...     def prefetch(self, progress=None):
    ...         (progress or print)("fetching pets, 1 kB")
    ...     def load(self):
    ...         return Dataset.from_labels(self.name, np.zeros((2, 1)), ["cat", "dog"])
    >>> isinstance(RemotePets(), FetchableTable), RemotePets().prefetch()
    fetching pets, 1 kB
    (True, None)
    """

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Download the rows unless they are on this machine.

        Parameters
        ----------
        progress : callable, default=None
            Function that is called with one line of text at each step.

        Raises
        ------
        DataNotAvailable
            If the rows cannot be downloaded, or the source excludes them by its requirements.
        """
        ...


@runtime_checkable
class OodSource(Protocol):
    """Source of rows that are not from the training distribution.

    A source that has to be downloaded has the method ``prefetch`` of :class:`FetchableTable`.

    Examples
    --------
    >>> class Corner:
    ...     def sets(self, splits, rng):
    ...         return [OodSet("corner", 10 + rng.random((3, splits.train.X.shape[1])))]
    >>> table = Dataset.from_labels("pets", np.zeros((2, 4)), ["cat", "dog"])
    >>> (corner,) = Corner().sets(Splits(table, table, table), np.random.default_rng(0))
    >>> isinstance(Corner(), OodSource), corner.X.shape
    (True, (3, 4))
    """

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """Generate sets of rows in the form that a model takes, one at a time.

        Parameters
        ----------
        splits : Splits
            ``train`` describes the training distribution, ``test`` contains the rows to which a
            shift is applied, and ``scaling`` scales rows that are in the units of the source.
        rng : Generator
            Source of all random numbers.
        """
        ...


ClassHalf = Literal["first", "second"] | None
"""Half of the sorted classes; the first half of an odd number is the smaller. None: all."""


def is_in_class_half(table: Dataset, class_half: ClassHalf) -> np.ndarray:
    """Return which rows, Bool[n], have a class in one half of the sorted classes.

    With the two halves, a network can learn from some classes of a data set, and can then be tested
    on the others.

    Examples
    --------
    >>> table = Dataset.from_labels("letters", np.zeros((3, 1)), ["a", "b", "c"])
    >>> is_in_class_half(table, "first").tolist(), is_in_class_half(table, "second").tolist()
    ([True, False, False], [False, True, True])
    """
    if class_half is None:
        return np.ones(len(table.y), dtype=bool)
    if len(table.classes) < 2:
        raise DataError(
            f"{table.name} has no classes to be divided into halves; give class_half=null,"
            " or choose another data set"
        )
    is_first = table.y < len(table.classes) // 2
    return is_first if class_half == "first" else ~is_first
