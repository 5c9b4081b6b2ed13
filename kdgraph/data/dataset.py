"""What comes in: a data set and its rows by role."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kdgraph.data.scaling import Scaling
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError

Posterior = Callable[[np.ndarray], np.ndarray]
"""X: Float[n, d] → P(y|x): Float[n, K], rows sum to 1."""

Task = Literal["auto", "classification", "regression"]
"""What a user says that the target of a table is; auto decides by its values."""

Kind = Literal["numeric", "categorical"]
"""What a column of a table is."""

UNUSED, TRAIN, CALIBRATION, TEST = -1, 0, 1, 2
"""Roles of rows where the source prescribes them (:attr:`Dataset.roles`)."""


@dataclass(frozen=True)
class Dataset:
    """Rows with labels, as every stage sees them.

    Attributes
    ----------
    name : what the user calls it.
    X : Float64[n, d], or images Float32[n, c, h, w] in [0, 1], channel first. NaN is a missing value, which images cannot have. A
        categorical feature holds the positions of its values in ``categories``.
    y : Int[n], positions in ``classes``; Float[n] for regression.
    classes : [K], the labels sorted by value; empty for regression.
    feature_names : d names; none for images.
    split_groups : Int[n] or None; rows of one of them stay together in a split.
    groups : Int[n] or None, positions in ``group_names``: whom a row belongs to, where groups are to be measured apart.
    group_names : of the groups; a group may have no row.
    groups_are_target : whether the group of a row is its label, for metrics by true class; nothing is fitted by such groups.
    posterior : the true P(y|x) as a vectorised function, or None where nobody knows it.
    distribution : in a regression the true distribution of y at each row, likewise.
    categories : for each feature its values as text, sorted, or None where it is numeric; empty where all are numeric.
    roles : Int8[n] of the roles that the source prescribes (UNUSED, TRAIN, CALIBRATION, TEST), or None.
    facts : what the record says about where the rows come from; plain numbers and text.
    given_scores : whether X holds the class probabilities of a model that was trained elsewhere, Float[n, K]: nothing is left to train.
    given_layers : of given scores, name and number of columns of each layer whose features stand in X behind the probabilities.
    source_rows : Int64[n], the number of each row in the source that it was read from, from 0; by default
        0 to n - 1. A subset keeps the numbers of its rows. They are no part of the fingerprint.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    feature_names: tuple[str, ...]
    task: Literal["classification", "regression"] = "classification"
    split_groups: np.ndarray | None = None
    posterior: Posterior | None = field(default=None, compare=False)
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
            raise DataError(f"{self.name}: X must have one row for each of {len(self.y)} labels, got shape {self.X.shape}")
        self._number_rows()
        if not self.X.size:
            return
        low, high = self.X.min(), self.X.max()  # NaN and infinity show here, without an array of flags as long as X
        if not (np.isfinite(low) and np.isfinite(high)) and (self.are_images or np.isinf(self.X).any()):
            raise DataError(self._first_bad_cell())
        if self.are_images and (low < 0 or high > 1):
            raise DataError(f"{self.name}: images must lie in [0, 1], got {low:g} to {high:g}; divide by the largest intensity")

    def _number_rows(self) -> None:
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
        return np.array([values is not None for values in self.categories] or [False] * d, dtype=bool)

    @property
    def truth(self) -> np.ndarray | Distribution | None:
        """What is true of the rows: posteriors Float[n, K], in a regression their distributions, or None where nobody knows it."""
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

    def _first_bad_cell(self) -> str:
        bad = ~np.isfinite(self.X) if self.are_images else np.isinf(self.X)
        row, *cell = np.argwhere(bad)[0].tolist()
        where = f"pixel {tuple(cell)}" if self.are_images else self.feature_names[cell[0]]
        found = f"{where} has {self.X[(row, *cell)]} in row {row} ({bad.sum()} such cells)"
        remedy = "drop the image" if self.are_images else "write what is unknown as an empty cell, which is read as missing"
        return f"{self.name}: {found}; {remedy}"

    @classmethod
    def from_labels(cls, name: str, X: np.ndarray, labels: np.ndarray, feature_names: tuple[str, ...] | None = None, **more) -> Dataset:
        """Encode ``labels`` of any type by their sorted unique values; images become float32, vectors float64."""
        X = np.ascontiguousarray(X, dtype=np.float32 if np.ndim(X) == 4 else np.float64)
        classes, y = np.unique(np.asarray(labels), return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"{name}: a classifier needs two classes, the target has only {classes.tolist()}")
        names = feature_names or (tuple(f"x{i + 1}" for i in range(X.shape[1])) if X.ndim == 2 else ())
        return cls(name, X, y, classes, tuple(names), **more)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that is learnt from: X, y, classes, categories, and groups where there are some."""
        digest = hashlib.sha256()
        for part in (self.X, self.y, self.split_groups if self.split_groups is not None else np.empty(0)):
            part = np.ascontiguousarray(part)
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(part.data)
        digest.update(repr(self.classes.tolist()).encode())
        if any(self.categories):
            digest.update(repr(self.categories).encode())
        if self.given_layers:
            digest.update(f"layers{self.given_layers!r}".encode())
        if self.groups is not None:
            digest.update(f"groups{self.group_names!r}".encode() + np.ascontiguousarray(self.groups, dtype=np.int64).tobytes())
        return digest.hexdigest()[:16]

    def rows(self, index: np.ndarray) -> Dataset:
        """The same data set with only the rows at ``index``."""
        by_row = ("split_groups", "groups", "roles", "source_rows")
        more = {name: None if (values := getattr(self, name)) is None else values[index] for name in by_row}
        return replace(self, X=self.X[index], y=self.y[index], **more)

    def with_classes(self, kept: np.ndarray) -> Dataset:
        """Only the rows whose class is among ``kept``, Int[K'] of positions in ``classes``, which become the classes."""
        chosen = self.rows(np.flatnonzero(np.isin(self.y, kept)))
        return replace(chosen, y=np.searchsorted(kept, chosen.y), classes=self.classes[kept])


@dataclass(frozen=True)
class Splits:
    """Rows by role, all of them scaled by ``scaling``, which only ``train`` decided. Nothing that is fitted ever sees ``test``.

    ``left_out`` has the rows of classes that have no role, with these classes; None where there are none. No number but those of
    out-of-distribution sets depends on them, except that a missing value in one makes a run fill in missing values.
    """

    train: Dataset
    calibration: Dataset
    test: Dataset
    scaling: Scaling = field(default_factory=Scaling)
    left_out: Dataset | None = None

    @property
    def fingerprint(self) -> str:
        """Hex digest of the three roles' fingerprints, and of that of the rows that are left out."""
        parts = [each.fingerprint for each in (self.train, self.calibration, self.test, self.left_out) if each is not None]
        return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]

    @property
    def learning(self) -> Dataset:
        """The rows that there are to learn from: for training, or for calibration where nothing is trained, or for test where all test."""
        return next((role for role in (self.train, self.calibration) if len(role.y)), self.test)

    @property
    def has_missing(self) -> bool:
        """Whether a row of any role, or one that is left out, has a missing value."""
        return any(each.has_missing for each in (self.train, self.calibration, self.test, self.left_out) if each is not None)

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
    id_values : values of the family's one parameter at which its rows are in distribution after all.
    facts : what the record says about where the rows come from and what was done to them.
    source_rows : Int64[n], the number of the row in its source (of another data set, or of the run's)
        that each row is or was made of; None where rows come from no source.
    """

    name: str
    X: np.ndarray
    params: dict[str, float] = field(default_factory=dict)
    id_values: tuple[float, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    source_rows: np.ndarray | None = field(default=None, compare=False)
