"""Division of a data source into training, calibration and test rows.

Some classes can be left out of every role first. Their rows come from the same table, so they are
out-of-distribution rows near the training distribution.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from kdgraph.data.dataset import (
    CALIBRATION,
    TEST,
    TRAIN,
    UNUSED,
    Dataset,
    PosteriorSimulation,
    RegressionSimulation,
    Simulation,
    Splits,
    Table,
)
from kdgraph.data.division import Fold, Folds, grouped_split, stratified_split
from kdgraph.data.scaling import Scaling, ScalingName
from kdgraph.data.sizes import REST, RoleSizes, SplitSizes
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.parameters import Range, annotations_of, check_value

SplitMode = Literal["auto", "random", "unstratified", "group"]
"""Ways to divide a table.

"random" draws rows at random, with equal class proportions in each role. "unstratified" draws them
whatever their class, so that class proportions vary from role to role. "group" puts all rows of a
group into the same role. "auto" uses the roles that the source prescribes; without roles it divides
by group if there are groups to keep together, and at random otherwise.
"""


def split_indices(
    table: Dataset,
    sizes: SplitSizes,
    split: SplitMode,
    rng: np.random.Generator,
    *,
    trains: bool = True,
    tests: bool = True,
    fold: Fold | None = None,
) -> list[np.ndarray]:
    """Return the row numbers of the training, calibration and test rows, each Int[n_role].

    They are disjoint, and stratified by class unless ``split`` is "unstratified". Without
    ``trains``, rows that do not test calibrate, as those of class scores, unless training rows are
    requested or prescribed. Without ``tests``, rows that a table prescribes for testing are left
    out. The rows of ``fold`` test instead of rows that are drawn.
    """
    by_class = table.task == "classification" and split != "unstratified"
    strata = table.y if by_class else np.zeros(len(table.y), dtype=int)
    if split == "auto" and table.roles is not None:
        if fold is not None:
            raise DataError(
                f"{table.name} prescribes its test rows, and dataset.folds={fold.n} divides all"
                " rows; give dataset.folds=null, or dataset.split=random"
            )
        train, calibration, test = _prescribed_indices(table, strata, sizes, rng)
        return [train, calibration, test if tests else test[:0]]
    if fold is not None and sizes.n_test is not None:
        raise DataError(
            f"dataset.folds={fold.n} decides the number of test rows, and so does"
            f" dataset.n_test={sizes.n_test}; give one of them"
        )
    needs_training_rows = trains or sizes.n_train is not None or sizes.log_share is not None
    of_scores = table.has_scores or not needs_training_rows
    if split == "group" and table.split_groups is None:
        raise DataError(
            f"{table.name} has no groups to keep together; name their column (dataset.split_groups;"
            " of dataset=arrays an array split_groups), or give dataset.split=random"
        )
    by_group = split == "group" or (split == "auto" and table.split_groups is not None)
    groups = table.split_groups if by_group else None
    test = None if tests else np.empty(0, dtype=np.intp)
    if fold is not None and tests:
        test = fold.test_rows(table.name, strata, groups)
        sizes = replace(sizes, n_test=len(test))
    of_rows = sizes.of_scores if of_scores else sizes.of_table
    counts = of_rows(table.name, len(table.y), tests=tests)
    # Test rows come first: a part of the split does not depend on the sizes after it.
    part_sizes = [counts.test, counts.calibration, counts.train]
    if test is None:
        test, calibration, train = _draw_parts(table.name, strata, groups, part_sizes, rng)
        if sizes.n_test == REST:
            test.sort()  # a large table is read forwards
        return [train, calibration, test]
    rest = np.setdiff1d(np.arange(len(strata)), test)
    if len(test):
        (sample,) = stratified_split(strata[test], [counts.test], rng)
        test = test[sample]
    wanted = [size for size in part_sizes[1:] if size]
    groups = None if groups is None else groups[rest]
    parts = _draw_parts(table.name, strata[rest], groups, wanted, rng)
    calibration, train = [*(rest[part] for part in parts), rest[:0]][:2]
    return [train, calibration, test]


def _draw_parts(
    name: str,
    strata: np.ndarray,
    groups: np.ndarray | None,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    if groups is None:
        return stratified_split(strata, sizes, rng)
    return grouped_split(name, strata, groups, sizes, rng)


def _prescribed_indices(
    table: Dataset, strata: np.ndarray, sizes: SplitSizes, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the row numbers by role for a table with prescribed roles.

    If no calibration rows are prescribed, they are drawn from the training rows.
    """
    # Roles smaller than the prescribed ones are drawn at random within each class, in the order
    # test, calibration, training: then the test rows do not depend on the other sizes.
    train, calibration, test = (
        np.flatnonzero(table.roles == role) for role in (TRAIN, CALIBRATION, TEST)
    )
    prescribed = RoleSizes(len(train), len(calibration), len(test))
    if table.has_scores:
        counts = sizes.of_scores(table.name, len(table.y), prescribed)
    else:
        counts = sizes.of_roles(table.name, prescribed)

    def draw(rows: np.ndarray, *n_wanted: int) -> list[np.ndarray]:
        if not len(rows):
            return [rows] * len(n_wanted)
        return [rows[part] for part in stratified_split(strata[rows], n_wanted, rng)]

    (test,) = draw(test, counts.test)
    if len(calibration):
        (calibration,) = draw(calibration, counts.calibration)
        (train,) = draw(train, counts.train)
    else:
        calibration, train = draw(train, counts.calibration, counts.train)
    return [train, calibration, test]


LeftOutSetting = Annotated[int, Range(1)] | Sequence[Any] | None
"""Labels of the classes that no role contains, or the number of such classes, drawn at random.

None leaves out no class.
"""

_MIN_CLASSES = 2
"""Smallest number of classes of a classifier."""


def split_off_classes(
    table: Dataset, left_out: LeftOutSetting, split: SplitMode, rng: np.random.Generator
) -> tuple[Dataset, Dataset | None]:
    """Return the table without the classes that are left out, and the rows of these classes.

    Rows that a source does not use (role UNUSED) are in neither of the two, if the roles apply
    (``split`` "auto"). Classes are drawn from a child generator of ``rng``, so the other rows are
    divided as if the same classes had been given by label.
    """
    if left_out is None or (not isinstance(left_out, int) and not len(left_out)):
        return table, None
    if table.task != "classification":
        raise DataError(
            f"{table.name} has a target to regress on, and dataset.left_out leaves out classes;"
            " give dataset.left_out=null"
        )
    if table.has_scores:
        raise DataError(
            f"{table.name} has the scores of a model that has seen every class; give"
            " dataset.left_out=null"
        )
    # Labels are renumbered in both parts, so neither refers to classes of the other.
    left_out_indices = _left_out_class_indices(table, left_out, rng)
    remaining = np.setdiff1d(np.arange(len(table.classes)), left_out_indices)
    if len(remaining) < _MIN_CLASSES:
        raise DataError(
            f"{table.name} has {len(table.classes)} classes, and without {len(left_out_indices)} of"
            f" them {len(remaining)} would remain, but a classifier needs {_MIN_CLASSES}; lower"
            " dataset.left_out"
        )
    table = replace(
        table, facts={**table.facts, "left_out": table.classes[left_out_indices].tolist()}
    )
    left_out_rows = table.with_classes(left_out_indices)
    if split == "auto" and left_out_rows.roles is not None:
        left_out_rows = left_out_rows.rows(np.flatnonzero(left_out_rows.roles != UNUSED))
    return table.with_classes(remaining), left_out_rows


def _left_out_class_indices(
    table: Dataset, left_out: int | Sequence[Any], rng: np.random.Generator
) -> np.ndarray:
    """Return the sorted positions Int[g]; a label may also be text, as on a command line."""
    k = len(table.classes)
    if isinstance(left_out, int):
        # A child generator leaves the state of rng unchanged for the division of the other rows.
        return np.sort(rng.spawn(1)[0].choice(k, min(left_out, k), replace=False))
    labels = table.classes.tolist()
    by_text = {str(label): position for position, label in enumerate(labels)}
    for label in left_out:
        if label not in labels and str(label) not in by_text:
            raise DataError(
                f"dataset.left_out: {table.name} has no class {label!r}; it has"
                f" {', '.join(by_text)}"
            )
    return np.unique(
        [labels.index(label) if label in labels else by_text[str(label)] for label in left_out]
    )


RareClassPolicy = Literal["refuse", "drop"]
"""Treatment of a class with too few rows to be learnt and calibrated.

"refuse" raises an error, "drop" removes the rows of the class from every role.
"""

_MIN_CALIBRATION_ROWS_PER_CLASS = 2
"""Smallest number of calibration rows of a class.

With fewer rows, a calibrator that holds out some of them would miss a class.
"""


def make_splits(
    source: Simulation | Table,
    *,
    scale: ScalingName = "none",
    split: SplitMode = "auto",
    rare: RareClassPolicy = "refuse",
    left_out: LeftOutSetting = None,
    hold_out: bool = True,
    trains: bool = True,
    tests: bool = True,
    fold: Fold | None = None,
    rng: np.random.Generator,
    **sizes: Any,
) -> Splits:
    """Draw or divide ``source`` into training, calibration and test rows, and scale them.

    The scaling is fitted on the training rows. A simulation draws three independent samples, so the
    size of one role changes no row of another. For a table, test rows are chosen first, so the
    other two sizes do not change them.

    Parameters
    ----------
    source : Simulation or Table
        Source of the rows.
    scale : {"none", "min_max", "max_norm"}, default="none"
        Scaling of the features; see :data:`kdgraph.data.scaling.ScalingName`.
    split : {"auto", "random", "unstratified", "group"}, default="auto"
        Way to divide a table; see :data:`~kdgraph.data.splits.SplitMode`.
    rare : {"refuse", "drop"}, default="refuse"
        Treatment of classes that are too small; see :data:`~kdgraph.data.splits.RareClassPolicy`.
    left_out : int or sequence of labels, default=None
        Labels of the classes of a table that no role contains, or the number of such classes, which
        are then drawn. Fractions of rows refer to the remaining rows. ``Splits.left_out`` contains
        the rows of these classes.
    hold_out : bool, default=True
        Hold calibration rows out of training. False: the rows that would calibrate are training
        rows too, and ``Splits.calibration`` has none; the test rows are the same.
    trains : bool, default=True
        False for a model that was trained elsewhere: all rows of a table that do not test
        calibrate, unless training rows are requested or the source prescribes them.
    tests : bool, default=True
        False: no row of a table tests, and ``Splits.test`` has none.
    fold : Fold or None, default=None
        Fold of a table whose rows test, for cross-validation.
    rng : Generator
        Source of all random numbers but those of the folds.
    **sizes
        Fields of :class:`~kdgraph.data.sizes.SplitSizes`.

    Returns
    -------
    Splits
        Scaled rows by role. The posterior of each role is the exact P(y|x) of a sample of its size,
        as a function of scaled features, and the distribution is the true one in regression. Both
        are None if the source does not provide them.

    Raises
    ------
    DataError
        If ``source`` is neither a simulation nor a table, or has fewer rows than requested; if a
        class has no training row or fewer than 2 calibration rows; if no class can be left out; or
        if X contains class scores and ``scale`` is not "none".
    ParameterError
        If a size is neither a number of rows nor a fraction, if ``scale`` is not one of the three,
        or if the rows are images and ``scale`` is not "none".

    Examples
    --------
    >>> from kdgraph.data.simulations import Spiral
    >>> splits = make_splits(Spiral(), n_train=70, n_test=20, rng=np.random.default_rng(0))
    >>> [len(role.y) for role in (splits.train, splits.calibration, splits.test)]
    [70, 30, 20]
    """
    settings = {
        "scale": (scale, ScalingName),
        "split": (split, SplitMode),
        "rare": (rare, RareClassPolicy),
        "left_out": (left_out, LeftOutSetting),
    }
    for name, (value, annotation) in settings.items():
        check_value(name, value, annotation)
    roles, left_out_rows = _split_source(
        source, SplitSizes(**sizes), split, left_out, rng, trains=trains, tests=tests, fold=fold
    )
    if roles[0].task == "classification" and not roles[0].has_scores:
        roles = _drop_rare_classes(roles) if rare == "drop" else roles
        _check_rows_per_class(*roles)
    train, calibration, test = roles
    learning = join_rows(train, calibration)
    parts = [role.fingerprint for role in (learning, test, left_out_rows) if role is not None]
    if not hold_out:
        roles = [learning, calibration.rows(np.empty(0, dtype=np.intp)), test]
    if roles[0].has_scores and scale != "none":
        raise DataError(
            f"dataset.scale must be none, since {source.name} has class scores, which would be none"
            f" any more; got {scale}"
        )
    # Only training rows determine the scaling; test rows may leave its range.
    scaling = Scaling.fit(roles[0].X, scale, roles[0].is_categorical)
    return Splits(
        *(_scale_dataset(role, scaling) for role in roles),
        scaling=scaling,
        left_out=None if left_out_rows is None else _scale_dataset(left_out_rows, scaling),
        rows_fingerprint=hashlib.sha256("".join(parts).encode()).hexdigest()[:16],
        test_fingerprint=test.fingerprint,
    )


def split_options() -> dict[str, Any]:
    """Return the configuration keys of a split with their annotations, without its source's."""
    annotations = annotations_of(make_splits)
    return {
        **annotations_of(SplitSizes),
        **{name: annotations[name] for name in ("scale", "split", "rare", "left_out")},
        "folds": Folds,
    }


@dataclass(frozen=True)
class ScaledPosterior:
    """P(y|x) for a sample of ``n`` rows of ``source``, as a function of scaled features.

    Unlike a closure, an instance can be pickled.
    """

    source: PosteriorSimulation
    n: int
    scaling: Scaling

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return P(y|x): Float[m, K] at scaled rows X: Float[m, d]."""
        return self.source.posterior(self.scaling.undo(X), n=self.n)


@dataclass(frozen=True)
class ScaledDistribution:
    """True distribution of a regression as a function of scaled features."""

    source: RegressionSimulation
    scaling: Scaling

    def __call__(self, X: np.ndarray) -> Distribution:
        """Return the distributions at the n scaled rows X: Float[n, d]."""
        return self.source.distribution(self.scaling.undo(X))


def _split_source(
    source: Simulation | Table,
    sizes: SplitSizes,
    split: SplitMode,
    left_out: LeftOutSetting,
    rng: np.random.Generator,
    *,
    trains: bool,
    tests: bool,
    fold: Fold | None,
) -> tuple[list[Dataset], Dataset | None]:
    """Return the unscaled roles, and the rows of the classes that are left out."""
    if isinstance(source, Table):
        table, left_out_rows = split_off_classes(source.load(), left_out, split, rng)
        indices = split_indices(table, sizes, split, rng, trains=trains, tests=tests, fold=fold)
        return [table.rows(index) for index in indices], left_out_rows
    if isinstance(source, Simulation):
        if left_out is not None:
            raise DataError(
                f"{source.name} is a simulation, and only a table can leave out classes; give"
                " dataset.left_out=null"
            )
        if fold is not None:
            raise DataError(
                f"{source.name} is a simulation, and only a table has rows to divide into folds;"
                " give dataset.folds=null"
            )
        return _draw_splits(source, sizes, rng), None
    raise DataError(
        f"{type(source).__name__} is no source of data; a table needs name and load, a simulation"
        " name, classes, feature_names and sample"
    )


def _draw_splits(source: Simulation, sizes: SplitSizes, rng: np.random.Generator) -> list[Dataset]:
    # Each role has a child generator, so the size of one role does not change the rows of another.
    counts, roles = sizes.of_simulation(source.name), []
    sizes_of_roles = (counts.train, counts.calibration, counts.test)
    for n, generator in zip(sizes_of_roles, rng.spawn(3), strict=True):
        X, y = source.sample(n, generator)
        truth: dict[str, Any] = {}
        if isinstance(source, PosteriorSimulation):
            truth["posterior"] = ScaledPosterior(source, n, Scaling())
        if isinstance(source, RegressionSimulation):
            truth["distribution"] = ScaledDistribution(source, Scaling())
        task = "classification" if len(source.classes) else "regression"
        roles.append(
            Dataset(source.name, X, y, source.classes, tuple(source.feature_names), task, **truth)
        )
    return roles


def join_rows(first: Dataset, second: Dataset) -> Dataset:
    """Return the rows of two roles of one source, those of ``second`` last."""
    by_row = ("X", "y", "split_groups", "groups", "roles", "source_rows")
    joined: dict[str, Any] = {}
    for name in by_row:
        rows = getattr(first, name)
        joined[name] = None if rows is None else np.concatenate([rows, getattr(second, name)])
    if isinstance(first.posterior, ScaledPosterior):
        joined["posterior"] = replace(first.posterior, n=len(first.y) + len(second.y))
    return replace(first, **joined)


def _drop_rare_classes(roles: list[Dataset]) -> list[Dataset]:
    # The counts are those after the split: what matters is the rows that fit and calibrate. A class
    # is removed from all roles, because a model without it would be tested on it.
    train, calibration, _ = roles
    k = len(train.classes)
    n_train = np.bincount(train.y, minlength=k)
    n_calibration = np.bincount(calibration.y, minlength=k)
    is_frequent = n_calibration >= _MIN_CALIBRATION_ROWS_PER_CLASS
    if len(train.y):
        is_frequent &= n_train >= 1
    if is_frequent.all():
        return roles
    dropped = train.classes[~is_frequent].tolist()
    if is_frequent.sum() < 2:
        raise DataError(
            f"{train.name}: without the rare classes {dropped} there are not two left; ask for more"
            " rows"
        )
    n_dropped_rows = sum(int((~is_frequent)[role.y].sum()) for role in roles)
    warnings.warn(
        f"{train.name}: rare classes are left out, {n_dropped_rows} rows:"
        f" {', '.join(map(str, dropped))}",
        stacklevel=3,
    )
    return [role.with_classes(np.flatnonzero(is_frequent)) for role in roles]


def _check_rows_per_class(train: Dataset, calibration: Dataset, test: Dataset) -> None:
    for position, label in enumerate(train.classes.tolist()):
        if len(train.y) and not (train.y == position).any():
            n_test = int((test.y == position).sum())
            where = f", {n_test} among the test rows" if n_test else ""
            raise DataError(
                f"{train.name}: class {label!r} has no row among {len(train.y)} training"
                f" rows{where}; ask for more training rows, some of this class, or leave rare"
                " classes out (dataset.rare=drop)"
            )
        n_rows = int((calibration.y == position).sum())
        if n_rows < _MIN_CALIBRATION_ROWS_PER_CLASS:
            raise DataError(
                f"{train.name}: too few rows to calibrate, class {label!r} has {n_rows} of the"
                f" {len(calibration.y)} calibration rows and needs"
                f" {_MIN_CALIBRATION_ROWS_PER_CLASS}; raise dataset.n_calibration, or leave rare"
                " classes out (dataset.rare=drop)"
            )


def _scale_dataset(role: Dataset, scaling: Scaling) -> Dataset:
    true_functions = {name: getattr(role, name) for name in ("posterior", "distribution")}
    rescaled = {
        name: replace(function, scaling=scaling)
        for name, function in true_functions.items()
        if isinstance(function, ScaledPosterior | ScaledDistribution)
    }
    return replace(role, X=scaling.apply(role.X), **rescaled)
