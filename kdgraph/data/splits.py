"""The rows of a table divided into roles: as the source prescribes, by group, or at random within
classes.

Classes that no role has: what a model has never seen of the same table, and so what is near to its
training distribution.

The split of a source into training, calibration and test rows.
"""

from __future__ import annotations

import inspect
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
    Scaling,
    ScalingName,
    Simulation,
    Splits,
    Table,
)
from kdgraph.data.sizes import RoleSizes, SplitSizes
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.parameters import Range, annotations_of, check_value

SplitMode = Literal["auto", "random", "group"]
"""random: rows at random, each role with each class in its share. group: rows of one group all in
one role. auto: the roles that the source prescribes, else by group where it has groups to keep
together, else at random.
"""
_N_GROUP_ORDERS = 50
"""Random orders of the groups that are tried: with one, a class of a few large groups is missing
from a part now and then.
"""


def split_indices(
    table: Dataset, sizes: SplitSizes, split: SplitMode, rng: np.random.Generator
) -> list[np.ndarray]:
    """Row numbers of train, calibration and test, Int[n_role] each: disjoint, by class if the table
    has classes.
    """
    strata = table.y if table.task == "classification" else np.zeros(len(table.y), dtype=int)
    if split == "auto" and table.roles is not None:
        return _prescribed_indices(table, strata, sizes, rng)
    counts = (sizes.of_scores if table.given_scores else sizes.of_table)(table.name, len(table.y))
    wanted = [counts.test, counts.calibration, counts.train]
    if split == "group" and table.split_groups is None:
        way_out = (
            "name their column (dataset.split_groups; of dataset=arrays an array split_groups)"
        )
        raise DataError(
            f"{table.name} has no groups to keep together; {way_out}, or give dataset.split=random"
        )
    if split == "group" or (split == "auto" and table.split_groups is not None):
        test, calibration, train = grouped_split(
            table.name, strata, table.split_groups, wanted, rng
        )
    else:
        test, calibration, train = stratified_split(strata, wanted, rng)
    return [train, calibration, test]


def _prescribed_indices(
    table: Dataset, strata: np.ndarray, sizes: SplitSizes, rng: np.random.Generator
) -> list[np.ndarray]:
    """The same where the source prescribes roles; without calibration rows, these come out of the
    training rows.
    """
    train, calibration, test = (
        np.flatnonzero(table.roles == role) for role in (TRAIN, CALIBRATION, TEST)
    )
    found = RoleSizes(len(train), len(calibration), len(test))
    counts = (
        sizes.of_scores(table.name, len(table.y), found)
        if table.given_scores
        else sizes.of_roles(table.name, found)
    )

    def some(rows: np.ndarray, *wanted: int) -> list[np.ndarray]:
        return (
            [rows[part] for part in stratified_split(strata[rows], wanted, rng)]
            if len(rows)
            else [rows] * len(wanted)
        )

    (test,) = some(test, counts.test)
    if len(calibration):
        (calibration,) = some(calibration, counts.calibration)
        (train,) = some(train, counts.train)
    else:
        calibration, train = some(train, counts.calibration, counts.train)
    return [train, calibration, test]


def stratified_split(
    y: np.ndarray, sizes: Sequence[int], rng: np.random.Generator
) -> list[np.ndarray]:
    """Disjoint random parts of the rows with classes y: Int[n], of ``sizes`` rows with sum at most
    n.

    Returns
    -------
    list of Int[size]
        Row numbers in random order. A part depends on its own size and on those before it, not on
        those after it.
    """
    rank = rng.permutation(len(y))
    members = [
        rows[np.argsort(rank[rows])] for rows in (np.flatnonzero(y == c) for c in np.unique(y))
    ]
    parts = []
    for size in sizes:
        quota = class_quotas(np.array([len(rows) for rows in members]), size, rng)
        part = np.concatenate([rows[:q] for rows, q in zip(members, quota, strict=True)])
        members = [rows[q:] for rows, q in zip(members, quota, strict=True)]
        parts.append(part[np.argsort(rank[part])])
    return parts


def class_quotas(available: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """``size`` rows over classes of which Int[K] are ``available``, in proportion, by largest
    remainder: Int[K]. Chance breaks ties.
    """
    exact = available * size / max(available.sum(), 1)
    quota = np.floor(exact).astype(int)
    by_remainder = np.lexsort((rng.random(len(quota)), quota - exact))
    quota[by_remainder[: size - quota.sum()]] += 1
    return quota


def grouped_split(
    name: str,
    y: np.ndarray,
    groups: np.ndarray | None,
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Disjoint parts of the rows with classes y: Int[n] and groups: Int[n], of at most ``sizes``
    rows, no group in two of them.

    Groups come in random order; each part takes groups until it has its size, the last one those
    that are left. Of :data:`ORDERS` orders it is the one whose parts come closest to the class
    shares of all rows. What a part has too many is left out at random, by class.

    Returns
    -------
    list of Int[≤ size]
        Row numbers in random order.

    Raises
    ------
    DataError
        If there are fewer groups than parts.
    """
    values, group = np.unique(np.asarray(groups), return_inverse=True)
    if len(values) < len(sizes):
        raise DataError(
            f"{name} has {len(values)} groups, and each of {len(sizes)} roles needs its own; give"
            " dataset.split=random"
        )
    rows_of_class = np.zeros((len(values), int(y.max()) + 1))
    np.add.at(rows_of_class, (group, y), 1)
    orders = [rng.permutation(len(values)) for _ in range(_N_GROUP_ORDERS)]
    divided = [
        np.split(order, _part_ends(rows_of_class[order].sum(axis=1), sizes)) for order in orders
    ]
    best = divided[int(np.argmin([_class_imbalance(rows_of_class, each) for each in divided]))]
    parts = []
    for chosen, size in zip(best, sizes, strict=True):
        rows = np.flatnonzero(np.isin(group, chosen))
        (part,) = stratified_split(y[rows], [min(size, len(rows))], rng)
        parts.append(rows[part])
    return parts


def _part_ends(n_rows: np.ndarray, sizes: Sequence[int]) -> list[int]:
    """Where each part but the last ends, of groups of Float[g] rows in their order; none is empty,
    and each has its size if it can.
    """
    reached, ends, start = np.cumsum(n_rows), [], 0
    for left, size in zip(range(len(sizes) - 1, 0, -1), sizes, strict=False):
        before = reached[start - 1] if start else 0
        stop = int(np.searchsorted(reached, before + size)) + 1
        start = min(max(stop, start + 1), len(n_rows) - left)
        ends.append(start)
    return ends


def _class_imbalance(rows_of_class: np.ndarray, parts: Sequence[np.ndarray]) -> float:
    """The largest distance, over parts and classes, of a class's share in a part from its share in
    all rows, in units of the latter.
    """
    share = rows_of_class.sum(axis=0) / rows_of_class.sum()
    found = np.array(
        [rows_of_class[part].sum(axis=0) / rows_of_class[part].sum() for part in parts]
    )
    return float((np.abs(found - share) / share).max())


LeftOutSetting = Annotated[int, Range(1)] | Sequence[Any] | None
"""Labels of the classes whose rows train, calibrate and test nothing, or how many of them chance
takes; None: no class.
"""

_MIN_CLASSES = 2
"""Classes that a classifier needs."""


def split_off_classes(
    table: Dataset, left_out: LeftOutSetting, split: SplitMode, rng: np.random.Generator
) -> tuple[Dataset, Dataset | None]:
    """The table without the classes that are left out, and their rows; what a source does not use
    (role UNUSED) is in neither.

    Chance takes from a generator of its own, so the rows that remain are divided as if the classes
    had been named.

    Raises
    ------
    DataError
        For a regression, for class scores, for a label that is none, and where fewer than two
        classes would remain.
    """
    if left_out is None or (not isinstance(left_out, int) and not len(left_out)):
        return table, None
    if table.task != "classification":
        raise DataError(
            f"{table.name} has a target to regress on, and dataset.left_out leaves out classes;"
            " give dataset.left_out=null"
        )
    if table.given_scores:
        raise DataError(
            f"{table.name} has the scores of a model that has seen every class; give"
            " dataset.left_out=null"
        )
    gone = _left_out_class_indices(table, left_out, rng)
    kept = np.setdiff1d(np.arange(len(table.classes)), gone)
    if len(kept) < _MIN_CLASSES:
        what = f"{table.name} has {len(table.classes)} classes, and without {len(gone)} of them"
        raise DataError(
            f"{what} {len(kept)} would remain, but a classifier needs {_MIN_CLASSES}; lower"
            " dataset.left_out"
        )
    table = replace(table, facts={**table.facts, "left_out": table.classes[gone].tolist()})
    away = table.with_classes(gone)
    if split == "auto" and away.roles is not None:
        away = away.rows(np.flatnonzero(away.roles != UNUSED))
    return table.with_classes(kept), away


def _left_out_class_indices(
    table: Dataset, left_out: int | Sequence[Any], rng: np.random.Generator
) -> np.ndarray:
    """Int[g], sorted: which of the classes are left out. A label may be given as text, as a command
    line has it.
    """
    k = len(table.classes)
    if isinstance(left_out, int):
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
"""What becomes of a class with too few rows to be learnt and calibrated: an error, or its rows are
left out of every role.
"""

_MIN_CALIBRATION_ROWS_PER_CLASS = 2
"""The fewest from which a calibrator can hold some out and still see every class."""


def make_splits(
    source: Simulation | Table,
    *,
    scale: ScalingName = "none",
    split: SplitMode = "auto",
    rare: RareClassPolicy = "refuse",
    left_out: LeftOutSetting = None,
    rng: np.random.Generator,
    **sizes: Any,
) -> Splits:
    """Draw or divide ``source`` into three roles, scaled by what the training rows say.

    Parameters
    ----------
    source : a simulation draws three independent samples, so the size of one changes no row of
        another. A table is divided; test rows are chosen first, so neither of the other sizes
        changes them.
    scale : what is done to the features; see :data:`kdgraph.data.dataset.ScalingName`.
    split : how a table is divided; see :data:`~kdgraph.data.splits.SplitMode`.
    rare : what becomes of classes that are too small; see :data:`Rare`.
    left_out : labels of classes of a table that no role has, or how many of them chance takes;
        shares are of the rows that remain. Rows of such classes are in ``Splits.left_out``.
    rng : the only source of chance.
    sizes : fields of :class:`~kdgraph.data.sizes.SplitSizes`.

    Returns
    -------
    Splits
        The posterior of each role is the exact P(y|x) of a sample of its size, as a function of
        scaled features; None if nobody knows it. So is, in a regression, its true distribution.

    Raises
    ------
    DataError
        If ``source`` is neither kind, or has fewer rows than asked for, fewer than 2 calibration
        rows of a class, a class without training rows, or none that can be left out.
    ParameterError
        If a size is neither a number of rows nor a share, or ``scale`` is not one of the three or,
        of images, not "none".
    """
    given = {
        "scale": (scale, ScalingName),
        "split": (split, SplitMode),
        "rare": (rare, RareClassPolicy),
        "left_out": (left_out, LeftOutSetting),
    }
    for name, (value, annotation) in given.items():
        check_value(name, value, annotation)
    roles, away = _split_source(source, SplitSizes(**sizes), split, left_out, rng)
    if roles[0].task == "classification" and not roles[0].given_scores:
        roles = _drop_rare_classes(roles) if rare == "drop" else roles
        _check_rows_per_class(roles[0], roles[1])
    if roles[0].given_scores and scale != "none":
        raise DataError(
            f"dataset.scale must be none, since {source.name} has class scores, which would be none"
            f" any more; got {scale}"
        )
    scaling = Scaling.fit(roles[0].X, scale, roles[0].is_categorical)
    return Splits(
        *(_scale_dataset(role, scaling) for role in roles),
        scaling=scaling,
        left_out=None if away is None else _scale_dataset(away, scaling),
    )


def split_options() -> dict[str, Any]:
    """What a configuration may say about the split, beside the parameters of its source: name →
    annotation.
    """
    own = {
        name: kind
        for name, kind in annotations_of(make_splits).items()
        if name in inspect.signature(make_splits).parameters
    }
    return {
        **annotations_of(SplitSizes),
        **{name: own[name] for name in ("scale", "split", "rare", "left_out")},
    }


@dataclass(frozen=True)
class ScaledPosterior:
    """P(y|x) of a sample of ``n`` rows of ``source``, as a function of scaled features; unlike a
    closure, it can be pickled.
    """

    source: PosteriorSimulation
    n: int
    scaling: Scaling

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """P(y|x): Float[m, K] at scaled rows X: Float[m, d]."""
        return self.source.posterior(self.scaling.undo(X), n=self.n)


@dataclass(frozen=True)
class ScaledDistribution:
    """The true distribution of a regression as a function of scaled features."""

    source: RegressionSimulation
    scaling: Scaling

    def __call__(self, X: np.ndarray) -> Distribution:
        """Of the n scaled rows X: Float[n, d]."""
        return self.source.distribution(self.scaling.undo(X))


def _split_source(
    source: Simulation | Table,
    sizes: SplitSizes,
    split: SplitMode,
    left_out: LeftOutSetting,
    rng: np.random.Generator,
) -> tuple[list[Dataset], Dataset | None]:
    """Unscaled train, calibration and test, and the rows of the classes that are left out."""
    if isinstance(source, Table):
        table, away = split_off_classes(source.load(), left_out, split, rng)
        return [table.rows(index) for index in split_indices(table, sizes, split, rng)], away
    if isinstance(source, Simulation):
        if left_out is not None:
            raise DataError(
                f"{source.name} is a simulation, and only a table can leave out classes; give"
                " dataset.left_out=null"
            )
        return _draw_splits(source, sizes, rng), None
    what = type(source).__name__
    raise DataError(
        f"{what} is no source of data; a table needs name and load, a simulation name, classes,"
        " feature_names and sample"
    )


def _draw_splits(source: Simulation, sizes: SplitSizes, rng: np.random.Generator) -> list[Dataset]:
    """Train, calibration and test: three samples, each from a generator of its own."""
    counts, roles = sizes.of_simulation(source.name), []
    for n, generator in zip(
        (counts.train, counts.calibration, counts.test), rng.spawn(3), strict=True
    ):
        X, y = source.sample(n, generator)
        truth: dict[str, Any] = (
            {"posterior": ScaledPosterior(source, n, Scaling())}
            if isinstance(source, PosteriorSimulation)
            else {}
        )
        truth |= (
            {"distribution": ScaledDistribution(source, Scaling())}
            if isinstance(source, RegressionSimulation)
            else {}
        )
        task = "classification" if len(source.classes) else "regression"
        roles.append(
            Dataset(source.name, X, y, source.classes, tuple(source.feature_names), task, **truth)
        )
    return roles


def _drop_rare_classes(roles: list[Dataset]) -> list[Dataset]:
    """The roles without the classes that have no training row, or too few calibration rows."""
    train, calibration, _ = roles
    k = len(train.classes)
    learnt, held = np.bincount(train.y, minlength=k), np.bincount(calibration.y, minlength=k)
    enough = (learnt >= 1) & (held >= _MIN_CALIBRATION_ROWS_PER_CLASS)
    if enough.all():
        return roles
    gone = train.classes[~enough].tolist()
    if enough.sum() < 2:
        raise DataError(
            f"{train.name}: without the rare classes {gone} there are not two left; ask for more"
            " rows"
        )
    lost = sum(int(np.isin(role.y, np.flatnonzero(~enough)).sum()) for role in roles)
    warnings.warn(
        f"{train.name}: rare classes are left out, {lost} rows: {', '.join(map(str, gone))}",
        stacklevel=3,
    )
    return [role.with_classes(np.flatnonzero(enough)) for role in roles]


def _check_rows_per_class(train: Dataset, calibration: Dataset) -> None:
    """Every class, so also each one that test has, needs rows to be learnt from and to be
    calibrated on.
    """
    for position, label in enumerate(train.classes.tolist()):
        if not (train.y == position).any():
            remedy = "ask for more, or leave rare classes out (dataset.rare=drop)"
            raise DataError(
                f"{train.name}: class {label!r} has no training row among {len(train.y)}; {remedy}"
            )
        found = int((calibration.y == position).sum())
        if found < _MIN_CALIBRATION_ROWS_PER_CLASS:
            raise DataError(
                f"{train.name}: too few rows to calibrate, class {label!r} has {found} of the"
                f" {len(calibration.y)} calibration rows and needs {_MIN_CALIBRATION_ROWS_PER_CLASS};"
                " raise dataset.n_calibration, or leave rare classes out (dataset.rare=drop)"
            )


def _scale_dataset(role: Dataset, scaling: Scaling) -> Dataset:
    truths = {name: getattr(role, name) for name in ("posterior", "distribution")}
    known = {
        name: replace(one, scaling=scaling)
        for name, one in truths.items()
        if isinstance(one, ScaledPosterior | ScaledDistribution)
    }
    return replace(role, X=scaling.apply(role.X), **known)
