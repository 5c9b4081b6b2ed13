"""The split of a source into training, calibration and test rows."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from kdgraph.data.dataset import Dataset, Splits
from kdgraph.data.dividing import SplitBy, rows_by_role
from kdgraph.data.left_out import LeftOut, without_classes
from kdgraph.data.scaling import Scale, Scaling
from kdgraph.data.sizes import Sizes
from kdgraph.data.sources import PosteriorSimulation, RegressionSimulation, Simulation, Table
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.parameters import annotations_of, check_value

Rare = Literal["refuse", "drop"]
"""What becomes of a class with too few rows to be learnt and calibrated: an error, or its rows are left out of every role."""

CALIBRATION_ROWS_OF_A_CLASS = 2
"""The fewest from which a calibrator can hold some out and still see every class."""


def make_splits(
    source: Simulation | Table,
    *,
    scale: Scale = "none",
    split: SplitBy = "auto",
    rare: Rare = "refuse",
    left_out: LeftOut = None,
    rng: np.random.Generator,
    **sizes: Any,
) -> Splits:
    """Draw or divide ``source`` into three roles, scaled by what the training rows say.

    Parameters
    ----------
    source : a simulation draws three independent samples, so the size of one changes no row of another. A table is divided; test rows are
        chosen first, so neither of the other sizes changes them.
    scale : what is done to the features; see :data:`kdgraph.data.scaling.Scale`.
    split : how a table is divided; see :data:`~kdgraph.data.dividing.SplitBy`.
    rare : what becomes of classes that are too small; see :data:`Rare`.
    left_out : labels of classes of a table that no role has, or how many of them chance takes; shares are of the rows that remain. Rows of
        such classes are in ``Splits.left_out``.
    rng : the only source of chance.
    sizes : fields of :class:`~kdgraph.data.sizes.Sizes`.

    Returns
    -------
    Splits
        The posterior of each role is the exact P(y|x) of a sample of its size, as a function of scaled features; None if nobody knows it.
        So is, in a regression, its true distribution.

    Raises
    ------
    DataError
        If ``source`` is neither kind, or has fewer rows than asked for, fewer than 2 calibration rows of a class, a class without training
        rows, or none that can be left out.
    ParameterError
        If a size is neither a number of rows nor a share, or ``scale`` is not one of the three or, of images, not "none".
    """
    given = {"scale": (scale, Scale), "split": (split, SplitBy), "rare": (rare, Rare), "left_out": (left_out, LeftOut)}
    for name, (value, annotation) in given.items():
        check_value(name, value, annotation)
    roles, away = _roles(source, Sizes(**sizes), split, left_out, rng)
    if roles[0].task == "classification" and not roles[0].given_scores:
        roles = _without_rare(roles) if rare == "drop" else roles
        _check_classes(roles[0], roles[1])
    if roles[0].given_scores and scale != "none":
        raise DataError(f"dataset.scale must be none, since {source.name} has class scores, which would be none any more; got {scale}")
    scaling = Scaling.fit(roles[0].X, scale, roles[0].is_categorical)
    return Splits(*(_scaled(role, scaling) for role in roles), scaling=scaling, left_out=None if away is None else _scaled(away, scaling))


def split_options() -> dict[str, Any]:
    """What a configuration may say about the split, beside the parameters of its source: name → annotation."""
    own = {name: kind for name, kind in annotations_of(make_splits).items() if name in inspect.signature(make_splits).parameters}
    return {**annotations_of(Sizes), **{name: own[name] for name in ("scale", "split", "rare", "left_out")}}


@dataclass(frozen=True)
class ScaledPosterior:
    """P(y|x) of a sample of ``n`` rows of ``source``, as a function of scaled features; unlike a closure, it can be pickled."""

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


def _roles(
    source: Simulation | Table, sizes: Sizes, split: SplitBy, left_out: LeftOut, rng: np.random.Generator
) -> tuple[list[Dataset], Dataset | None]:
    """Unscaled train, calibration and test, and the rows of the classes that are left out."""
    if isinstance(source, Table):
        table, away = without_classes(source.load(), left_out, split, rng)
        return [table.rows(index) for index in rows_by_role(table, sizes, split, rng)], away
    if isinstance(source, Simulation):
        if left_out is not None:
            raise DataError(f"{source.name} is a simulation, and only a table can leave out classes; give dataset.left_out=null")
        return _draw(source, sizes, rng), None
    what = type(source).__name__
    raise DataError(f"{what} is no source of data; a table needs name and load, a simulation name, classes, feature_names and sample")


def _draw(source: Simulation, sizes: Sizes, rng: np.random.Generator) -> list[Dataset]:
    """Train, calibration and test: three samples, each from a generator of its own."""
    counts, roles = sizes.of_simulation(source.name), []
    for n, generator in zip((counts.train, counts.calibration, counts.test), rng.spawn(3), strict=True):
        X, y = source.sample(n, generator)
        truth: dict[str, Any] = {"posterior": ScaledPosterior(source, n, Scaling())} if isinstance(source, PosteriorSimulation) else {}
        truth |= {"distribution": ScaledDistribution(source, Scaling())} if isinstance(source, RegressionSimulation) else {}
        task = "classification" if len(source.classes) else "regression"
        roles.append(Dataset(source.name, X, y, source.classes, tuple(source.feature_names), task, **truth))
    return roles


def _without_rare(roles: list[Dataset]) -> list[Dataset]:
    """The roles without the classes that have no training row, or too few calibration rows."""
    train, calibration, _ = roles
    k = len(train.classes)
    learnt, held = np.bincount(train.y, minlength=k), np.bincount(calibration.y, minlength=k)
    enough = (learnt >= 1) & (held >= CALIBRATION_ROWS_OF_A_CLASS)
    if enough.all():
        return roles
    gone = train.classes[~enough].tolist()
    if enough.sum() < 2:
        raise DataError(f"{train.name}: without the rare classes {gone} there are not two left; ask for more rows")
    lost = sum(int(np.isin(role.y, np.flatnonzero(~enough)).sum()) for role in roles)
    warnings.warn(f"{train.name}: rare classes are left out, {lost} rows: {', '.join(map(str, gone))}", stacklevel=3)
    return [role.with_classes(np.flatnonzero(enough)) for role in roles]


def _check_classes(train: Dataset, calibration: Dataset) -> None:
    """Every class, so also each one that test has, needs rows to be learnt from and to be calibrated on."""
    for position, label in enumerate(train.classes.tolist()):
        if not (train.y == position).any():
            remedy = "ask for more, or leave rare classes out (dataset.rare=drop)"
            raise DataError(f"{train.name}: class {label!r} has no training row among {len(train.y)}; {remedy}")
        found = int((calibration.y == position).sum())
        if found < CALIBRATION_ROWS_OF_A_CLASS:
            raise DataError(
                f"{train.name}: too few rows to calibrate, class {label!r} has {found} of the {len(calibration.y)} calibration rows and "
                f"needs {CALIBRATION_ROWS_OF_A_CLASS}; raise dataset.n_calibration, or leave rare classes out (dataset.rare=drop)"
            )


def _scaled(role: Dataset, scaling: Scaling) -> Dataset:
    truths = {name: getattr(role, name) for name in ("posterior", "distribution")}
    known = {name: replace(one, scaling=scaling) for name, one in truths.items() if isinstance(one, ScaledPosterior | ScaledDistribution)}
    return replace(role, X=scaling.apply(role.X), **known)
