"""Real tables that scikit-learn ships, so no network is needed.

Tables that scikit-learn makes, with a structure that is hidden among their features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, Range, Share, check_parameters

_REGRESSION_LOADERS = {"diabetes"}
"""Loaders whose target is a number."""


class SklearnTable:
    """A table of scikit-learn, as it is shipped: its features, classes and names; of diabetes the
    features as they were measured.

    Parameters
    ----------
    loader : digits (1797 rows, 64 features, 10 classes), breast_cancer (569, 30, 2), wine (178, 13,
        3), iris (150, 4, 3), or, for regression, diabetes (442, 10).

    >>> SklearnTable("iris").load().X.shape
    (150, 4)
    """

    def __init__(
        self, loader: Literal["digits", "breast_cancer", "wine", "iris", "diabetes"]
    ) -> None:
        self.loader = loader
        check_parameters(self)

    @property
    def name(self) -> str:
        """The loader's name; of diabetes a longer one, since a table of OpenML with classes is
        called so.
        """
        return "diabetes_progression" if self.loader == "diabetes" else self.loader

    def load(self) -> Dataset:
        """The whole table."""
        from sklearn import (
            datasets,
        )  # here, not above: a command line that only lists configurations must not wait for scikit-learn

        options = {"scaled": False} if self.loader == "diabetes" else {}
        bunch = getattr(datasets, f"load_{self.loader}")(**options)
        names = tuple(str(name) for name in bunch.feature_names)
        if self.loader in _REGRESSION_LOADERS:
            return Dataset(
                self.name,
                np.ascontiguousarray(bunch.data),
                bunch.target,
                np.empty(0),
                names,
                "regression",
            )
        return Dataset.from_labels(self.name, bunch.data, bunch.target, names)


RandomState = Annotated[int, Range(0)]
"""Which of the sets that the same parameters can make; a run's seed decides only how it is
split.
"""


class _SklearnGenerator:
    """A table that a function of scikit-learn makes."""

    name: str
    task: Literal["classification", "regression"] = "regression"
    draw: RandomState

    def load(self) -> Dataset:
        """The whole table."""
        from sklearn import (
            datasets,
        )  # here, not above: a command line that only lists configurations must not wait for scikit-learn

        X, y = self._make(datasets, random_state=self.draw)[:2]
        if self.task == "classification":
            return Dataset.from_labels(self.name, X, y)
        return Dataset(
            self.name,
            X,
            y,
            np.empty(0),
            tuple(f"x{i + 1}" for i in range(X.shape[1])),
            "regression",
        )

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        raise NotImplementedError


class SyntheticClassification(_SklearnGenerator):
    """Clusters at corners of a hypercube, some to each class, among features that tell nothing
    (``make_classification``).

    Parameters
    ----------
    n_rows : rows.
    n_features : all of them; those beyond ``n_informative`` and ``n_redundant`` are noise.
    n_informative : features in which the clusters lie.
    n_redundant : features that are linear combinations of these.
    n_classes, n_clusters : classes, and clusters of each.
    separation : half the side of the hypercube; smaller is harder.
    flip : share of rows whose label is drawn at random.
    draw : which set.
    name : what runs are called.
    """

    task = "classification"

    def __init__(
        self,
        n_rows: Count = 2000,
        n_features: Count = 20,
        n_informative: Count = 5,
        n_redundant: Annotated[int, Range(0)] = 2,
        n_classes: Annotated[int, Range(2)] = 2,
        n_clusters: Count = 2,
        separation: Positive = 1.0,
        flip: Share = 0.05,
        draw: RandomState = 0,
        name: str = "made_classification",
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.n_informative = n_informative
        self.n_redundant = n_redundant
        self.n_classes = n_classes
        self.n_clusters = n_clusters
        self.separation = separation
        self.flip = flip
        self.draw = draw
        self.name = name
        check_parameters(self)
        if n_informative + n_redundant > n_features:
            raise ParameterError(
                "n_features must be at least n_informative + n_redundant,"
                f" {n_informative + n_redundant}, got {n_features}"
            )
        if n_classes * n_clusters > 2**n_informative:
            corners = (
                f"{n_classes} classes of {n_clusters} clusters need {n_classes * n_clusters}"
                " corners of a hypercube"
            )
            raise ParameterError(
                f"{corners}; n_informative={n_informative} gives {2**n_informative}: raise it"
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


class GaussianShells(_SklearnGenerator):
    """Shells around one point, as many rows in each: what a Gaussian's rows are by how far they lie
    out (``make_gaussian_quantiles``).

    Parameters
    ----------
    n_rows, n_features : rows, and features.
    n_classes : shells; the first is a ball.
    draw : which set.
    name : what runs are called.
    """

    task = "classification"

    def __init__(
        self,
        n_rows: Count = 2000,
        n_features: Count = 5,
        n_classes: Annotated[int, Range(2)] = 4,
        draw: RandomState = 0,
        name: str = "gaussian_shells",
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.n_classes = n_classes
        self.draw = draw
        self.name = name
        check_parameters(self)

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        return datasets.make_gaussian_quantiles(
            n_samples=self.n_rows, n_features=self.n_features, n_classes=self.n_classes, **options
        )


class SwissRoll(_SklearnGenerator):
    """A rolled sheet in three features, cut along it into classes with as many rows each, among
    features of noise (``make_swiss_roll``).

    Parameters
    ----------
    n_rows : rows.
    n_classes : pieces of the sheet, from the innermost to the outermost.
    noise_std : standard deviation of the noise around the sheet, which is 21 wide and rolled up to
    a radius of 14.
    n_noise : features of Gaussian noise beside the three, as wide as these.
    draw : which set.
    name : what runs are called.
    """

    task = "classification"

    def __init__(
        self,
        n_rows: Count = 2000,
        n_classes: Annotated[int, Range(2)] = 4,
        noise_std: NonNegative = 0.3,
        n_noise: Annotated[int, Range(0)] = 0,
        draw: RandomState = 0,
        name: str = "swiss_roll",
    ) -> None:
        self.n_rows = n_rows
        self.n_classes = n_classes
        self.noise_std = noise_std
        self.n_noise = n_noise
        self.draw = draw
        self.name = name
        check_parameters(self)

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        X, along = datasets.make_swiss_roll(self.n_rows, noise=self.noise_std, **options)
        noise = np.random.default_rng(self.draw).normal(
            scale=X.std(), size=(self.n_rows, self.n_noise)
        )
        ranks = np.argsort(np.argsort(along))
        return np.column_stack([X, noise]), ranks * self.n_classes // self.n_rows


class SyntheticRegression(_SklearnGenerator):
    """A linear function of some of the features and Gaussian noise (``make_regression``).

    Parameters
    ----------
    n_rows, n_features : rows, and features, which are standard normal.
    n_informative : features that the target depends on.
    noise_std : standard deviation of the noise.
    draw : which set.
    """

    name = "made_regression"

    def __init__(
        self,
        n_rows: Count = 2000,
        n_features: Count = 20,
        n_informative: Count = 5,
        noise_std: NonNegative = 10.0,
        draw: RandomState = 0,
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self.n_informative = n_informative
        self.noise_std = noise_std
        self.draw = draw
        check_parameters(self)
        if n_informative > n_features:
            raise ParameterError(
                f"n_informative must be at most n_features, {n_features}, got {n_informative}"
            )

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        return datasets.make_regression(
            self.n_rows,
            self.n_features,
            n_informative=self.n_informative,
            noise=self.noise_std,
            **options,
        )


class FriedmanTable(_SklearnGenerator):
    """One of the three nonlinear regressions of Friedman (1991) and Breiman (1996),
    ``make_friedman1`` to ``make_friedman3``.

    Parameters
    ----------
    number : 1 has 10 features, of which 5 count; 2 and 3 have 4.
    n_rows : rows.
    noise_std : standard deviation of the noise.
    draw : which set.
    """

    def __init__(
        self,
        number: Literal[1, 2, 3] = 1,
        n_rows: Count = 2000,
        noise_std: NonNegative = 1.0,
        draw: RandomState = 0,
    ) -> None:
        self.number = number
        self.name = f"friedman{number}"
        self.n_rows = n_rows
        self.noise_std = noise_std
        self.draw = draw
        check_parameters(self)

    def _make(self, datasets: Any, **options: Any) -> tuple[np.ndarray, ...]:
        make: Callable[..., tuple[np.ndarray, ...]] = getattr(
            datasets, f"make_friedman{self.number}"
        )
        return make(self.n_rows, noise=self.noise_std, **options)
