"""The split of a source into training, calibration and test rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kdgraph.data.dataset import Dataset, PosteriorSimulation, Simulation, Splits, Table
from kdgraph.data.scaling import Scale, Scaling
from kdgraph.data.sizes import Size, simulated_counts, table_counts
from kdgraph.data.stratify import stratified_parts
from kdgraph.errors import DataError
from kdgraph.parameters import check_value

CALIBRATION_ROWS_OF_A_CLASS = 2
"""The fewest from which a calibrator can hold some out and still see every class."""


def make_splits(
    source: Simulation | Table,
    *,
    n_train: Size = None,
    n_calibration: Size = None,
    n_test: Size = None,
    scale: Scale = "none",
    rng: np.random.Generator,
) -> Splits:
    """Draw or divide ``source`` into three roles, scaled by what the training rows say.

    Parameters
    ----------
    source : a simulation draws three independent samples, so the size of one changes no row of another. A table is divided so that each
        role has each class in its share; test rows are chosen first, so neither of the other sizes changes them.
    n_train : number of rows, or a share of a table's rows that are not for test. None: 1000 from a simulation, what is left of a table.
    n_calibration : the same. None: 30 % of the rows that fit and calibrate, which is 0.43 n_train where ``n_train`` is given.
    n_test : number of rows, or a share of a table. None: 1000 from a simulation, 0.3 of a table.
    scale : what is done to the features; see :data:`kdgraph.data.scaling.Scale`.
    rng : the only source of chance.

    Returns
    -------
    Splits
        The posterior of each role is the exact P(y|x) of a sample of its size, as a function of scaled features; None if nobody knows it.

    Raises
    ------
    DataError
        If ``source`` is neither kind, or has fewer rows than asked for, fewer than 2 calibration rows of a class, or a class without
        training rows.
    ParameterError
        If a size is neither a number of rows nor a share, or ``scale`` is not one of the three or, of images, not "none".
    """
    check_value("scale", scale, Scale)
    sizes = {"n_train": n_train, "n_calibration": n_calibration, "n_test": n_test}
    train, calibration, test = _roles(source, sizes, rng)
    if train.task == "classification":
        _check_classes(train, calibration)
    scaling = Scaling.fit(train.X, scale)
    return Splits(*(_scaled(role, scaling) for role in (train, calibration, test)), scaling=scaling)


@dataclass(frozen=True)
class ScaledPosterior:
    """P(y|x) of a sample of ``n`` rows of ``source``, as a function of scaled features; unlike a closure, it can be pickled."""

    source: PosteriorSimulation
    n: int
    scaling: Scaling

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """P(y|x): Float[m, K] at scaled rows X: Float[m, d]."""
        return self.source.posterior(self.scaling.undo(X), n=self.n)


def _roles(source: Simulation | Table, sizes: dict[str, Size], rng: np.random.Generator) -> list[Dataset]:
    """Unscaled train, calibration and test."""
    if isinstance(source, Table):
        return _divide(source.load(), sizes, rng)
    if isinstance(source, Simulation):
        return _draw(source, sizes, rng)
    what = type(source).__name__
    raise DataError(f"{what} is no source of data; a table needs name and load, a simulation name, classes, feature_names and sample")


def _draw(source: Simulation, sizes: dict[str, Size], rng: np.random.Generator) -> list[Dataset]:
    """Train, calibration and test: three samples, each from a generator of its own."""
    roles = []
    for n, generator in zip(simulated_counts(source.name, sizes).values(), rng.spawn(3), strict=True):
        X, y = source.sample(n, generator)
        truth = ScaledPosterior(source, n, Scaling()) if isinstance(source, PosteriorSimulation) else None
        roles.append(Dataset(source.name, X, y, source.classes, tuple(source.feature_names), posterior=truth))
    return roles


def _divide(table: Dataset, sizes: dict[str, Size], rng: np.random.Generator) -> list[Dataset]:
    """Train, calibration and test: disjoint rows of ``table``, by class if it has classes."""
    counts = table_counts(table.name, len(table.y), sizes)
    strata = table.y if table.task == "classification" else np.zeros(len(table.y), dtype=int)
    test, calibration, train = stratified_parts(strata, [counts["n_test"], counts["n_calibration"], counts["n_train"]], rng)
    return [table.rows(index) for index in (train, calibration, test)]


def _check_classes(train: Dataset, calibration: Dataset) -> None:
    """Every class, so also each one that test has, needs rows to be learnt from and to be calibrated on."""
    for position, label in enumerate(train.classes.tolist()):
        if not (train.y == position).any():
            raise DataError(f"{train.name}: class {label!r} has no training row among {len(train.y)}; ask for more, or drop the class")
        found = int((calibration.y == position).sum())
        if found < CALIBRATION_ROWS_OF_A_CLASS:
            raise DataError(
                f"{train.name}: too few rows to calibrate, class {label!r} has {found} of the {len(calibration.y)} calibration rows and "
                f"needs {CALIBRATION_ROWS_OF_A_CLASS}; raise n_calibration, or drop the class"
            )


def _scaled(role: Dataset, scaling: Scaling) -> Dataset:
    truth = replace(role.posterior, scaling=scaling) if isinstance(role.posterior, ScaledPosterior) else role.posterior
    return replace(role, X=scaling.apply(role.X), posterior=truth)
