"""Tables that scikit-learn ships or generates; none of them needs a network.

The generated tables have a known structure that is hidden among their features.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.source import Source, numbered_names
from kdgraph.errors import ParameterError
from kdgraph.parameters import ClosedFraction, Count, NonNegative, Positive, Range


@dataclass(eq=False, repr=False)
class SklearnTable(Source):
    """Table that scikit-learn ships, with its features, classes and names.

    Parameters
    ----------
    loader : {"digits", "breast_cancer", "wine", "iris", "diabetes"}
        The table: digits (1797 rows, 64 features, 10 classes), breast_cancer (569, 30, 2), wine
        (178, 13, 3), iris (150, 4, 3) or, for regression, diabetes (442, 10). The features of
        diabetes have their measured, unscaled values.

    Examples
    --------
    >>> SklearnTable("iris").load().X.shape
    (150, 4)
    """

    loader: Literal["digits", "breast_cancer", "wine", "iris", "diabetes"]

    @property
    def name(self) -> str:
        """Name of the loader; longer for diabetes, since OpenML has a table of this name."""
        return "diabetes_progression" if self.loader == "diabetes" else self.loader

    def load(self) -> Dataset:
        """Return the whole table."""
        # A command line that only lists configurations must not wait for this import.
        from sklearn import datasets

        is_regression = self.loader == "diabetes"
        options = {"scaled": False} if is_regression else {}
        bunch = getattr(datasets, f"load_{self.loader}")(**options)
        names = tuple(str(name) for name in bunch.feature_names)
        if is_regression:
            return _regression_table(
                self.name, np.ascontiguousarray(bunch.data), bunch.target, names
            )
        return Dataset.from_labels(self.name, bunch.data, bunch.target, names)


def _regression_table(name: str, X: np.ndarray, y: np.ndarray, names: tuple[str, ...]) -> Dataset:
    return Dataset(name, X, y, np.empty(0), names, "regression")


RandomState = Annotated[int, Range(0)]
"""Seed of the generator; the seed of a run only determines how the table is split."""


@dataclass(eq=False, repr=False)
class SklearnGenerator(Source):
    """Table that a function of scikit-learn generates.

    Parameters
    ----------
    draw : int, default=0
        Seed of the generator.
    """

    draw: RandomState = field(default=0, kw_only=True)

    name: str = field(init=False)
    task = "regression"

    def load(self) -> Dataset:
        """Return the whole table."""
        # A command line that only lists configurations must not wait for this import.
        from sklearn import datasets

        X, y = self._make(datasets, random_state=self.draw)[:2]
        if self.task == "classification":
            return Dataset.from_labels(self.name, X, y)
        return _regression_table(self.name, X, y, numbered_names(X.shape[1]))

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        """Return X [n, d] and y [n] from the generator, and possibly more arrays."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class SyntheticClassification(SklearnGenerator):
    """Clusters at corners of a hypercube among noise features (``make_classification``).

    Parameters
    ----------
    n_rows : int, default=2000
        Number of rows.
    n_features : int, default=20
        Number of features. Those beyond ``n_informative`` and ``n_redundant`` are noise.
    n_informative : int, default=5
        Number of features in which the clusters lie.
    n_redundant : int, default=2
        Number of features that are linear combinations of the informative ones.
    n_classes : int, default=2
        Number of classes.
    n_clusters : int, default=2
        Number of clusters of each class.
    separation : float, default=1.0
        Half the side length of the hypercube. Smaller values make the task harder.
    flip : float, default=0.05
        Fraction of the rows whose label is drawn at random.
    name : str, default="made_classification"
        Name of the runs.

    Raises
    ------
    ParameterError
        If there are too few features, or too few corners for the clusters.

    Examples
    --------
    >>> SyntheticClassification(n_rows=100).load().X.shape
    (100, 20)
    """

    n_rows: Count = 2000
    n_features: Count = 20
    n_informative: Count = 5
    n_redundant: Annotated[int, Range(0)] = 2
    n_classes: Annotated[int, Range(2)] = 2
    n_clusters: Count = 2
    separation: Positive = 1.0
    flip: ClosedFraction = 0.05
    name: str = field(default="made_classification", kw_only=True)

    task = "classification"

    def __post_init__(self) -> None:
        super().__post_init__()
        n_dependent = self.n_informative + self.n_redundant
        if n_dependent > self.n_features:
            raise ParameterError(
                f"n_features must be at least n_informative + n_redundant, {n_dependent}, got"
                f" {self.n_features}"
            )
        n_corners = self.n_classes * self.n_clusters
        if n_corners > 2**self.n_informative:
            corners = (
                f"{self.n_classes} classes of {self.n_clusters} clusters need {n_corners}"
                " corners of a hypercube"
            )
            raise ParameterError(
                f"{corners}; n_informative={self.n_informative} gives {2**self.n_informative}:"
                " raise it"
            )

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        return datasets.make_classification(
            self.n_rows,
            self.n_features,
            n_informative=self.n_informative,
            n_redundant=self.n_redundant,
            n_classes=self.n_classes,
            n_clusters_per_class=self.n_clusters,
            class_sep=self.separation,
            flip_y=self.flip,
            **options,
        )


@dataclass(eq=False, repr=False)
class GaussianShells(SklearnGenerator):
    """Concentric shells with equally many rows in each (``make_gaussian_quantiles``).

    The rows are drawn from a Gaussian, and the class is the quantile of the distance to its centre.

    Parameters
    ----------
    n_rows, n_features : int, default=2000 and 5
        Number of rows, and of features.
    n_classes : int, default=4
        Number of shells. The first one is a ball.
    name : str, default="gaussian_shells"
        Name of the runs.

    Examples
    --------
    >>> GaussianShells(n_rows=100).load().X.shape
    (100, 5)
    """

    n_rows: Count = 2000
    n_features: Count = 5
    n_classes: Annotated[int, Range(2)] = 4
    name: str = field(default="gaussian_shells", kw_only=True)

    task = "classification"

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        return datasets.make_gaussian_quantiles(
            n_samples=self.n_rows, n_features=self.n_features, n_classes=self.n_classes, **options
        )


@dataclass(eq=False, repr=False)
class SwissRoll(SklearnGenerator):
    """Rolled sheet in three features, cut along its length into classes (``make_swiss_roll``).

    All classes have equally many rows. Noise features may be added.

    Parameters
    ----------
    n_rows : int, default=2000
        Number of rows.
    n_classes : int, default=4
        Number of pieces of the sheet, from the innermost to the outermost.
    noise_std : float, default=0.3
        Standard deviation of the noise around the sheet, which is 21 wide and rolled up to a radius
        of 14.
    n_noise : int, default=0
        Number of added features of Gaussian noise, with the standard deviation of the other three.
    name : str, default="swiss_roll"
        Name of the runs.

    Examples
    --------
    >>> SwissRoll(n_rows=100, n_noise=2).load().X.shape
    (100, 5)
    """

    n_rows: Count = 2000
    n_classes: Annotated[int, Range(2)] = 4
    noise_std: NonNegative = 0.3
    n_noise: Annotated[int, Range(0)] = 0
    name: str = field(default="swiss_roll", kw_only=True)

    task = "classification"

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        X, sheet_positions = datasets.make_swiss_roll(self.n_rows, noise=self.noise_std, **options)
        noise = np.random.default_rng(self.draw).normal(
            scale=X.std(), size=(self.n_rows, self.n_noise)
        )
        ranks = np.argsort(np.argsort(sheet_positions))
        return np.column_stack([X, noise]), ranks * self.n_classes // self.n_rows


@dataclass(eq=False, repr=False)
class SyntheticRegression(SklearnGenerator):
    """Linear function of some of the features with Gaussian noise (``make_regression``).

    Parameters
    ----------
    n_rows, n_features : int, default=2000 and 20
        Number of rows, and of features, which are standard normal.
    n_informative : int, default=5
        Number of features that the target depends on.
    noise_std : float, default=10.0
        Standard deviation of the noise.

    Raises
    ------
    ParameterError
        If ``n_informative`` exceeds ``n_features``.

    Examples
    --------
    >>> SyntheticRegression(n_rows=100).load().X.shape
    (100, 20)
    """

    n_rows: Count = 2000
    n_features: Count = 20
    n_informative: Count = 5
    noise_std: NonNegative = 10.0

    name = "made_regression"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_informative > self.n_features:
            raise ParameterError(
                f"n_informative must be at most n_features, {self.n_features}, got"
                f" {self.n_informative}"
            )

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        return datasets.make_regression(
            self.n_rows,
            self.n_features,
            n_informative=self.n_informative,
            noise=self.noise_std,
            **options,
        )


@dataclass(eq=False, repr=False)
class FriedmanTable(SklearnGenerator):
    """Nonlinear regression of Friedman (1991) and Breiman (1996), ``make_friedman1`` to 3.

    Parameters
    ----------
    number : {1, 2, 3}, default=1
        Number of the function. Function 1 has 10 features, of which 5 determine the target; 2 and 3
        have 4 features.
    n_rows : int, default=2000
        Number of rows.
    noise_std : float, default=1.0
        Standard deviation of the noise.

    Examples
    --------
    >>> FriedmanTable(2, n_rows=100).load().X.shape
    (100, 4)
    """

    number: Literal[1, 2, 3] = 1
    n_rows: Count = 2000
    noise_std: NonNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = f"friedman{self.number}"

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        make = getattr(datasets, f"make_friedman{self.number}")
        return make(self.n_rows, noise=self.noise_std, **options)
