"""Real tables that scikit-learn ships, so no network is needed."""

from __future__ import annotations

from typing import Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.parameters import check_parameters

REGRESSION = {"diabetes"}
"""Loaders whose target is a number."""


class SklearnTable:
    """A table of scikit-learn, as it is shipped: its features, classes and names; of diabetes the features as they were measured.

    Parameters
    ----------
    loader : digits (1797 rows, 64 features, 10 classes), breast_cancer (569, 30, 2), wine (178, 13, 3), iris (150, 4, 3), or, for
        regression, diabetes (442, 10).

    >>> SklearnTable("iris").load().X.shape
    (150, 4)
    """

    def __init__(self, loader: Literal["digits", "breast_cancer", "wine", "iris", "diabetes"]) -> None:
        self.loader = loader
        check_parameters(self)

    @property
    def name(self) -> str:
        """The loader's name; of diabetes a longer one, since a table of OpenML with classes is called so."""
        return "diabetes_progression" if self.loader == "diabetes" else self.loader

    def load(self) -> Dataset:
        """The whole table."""
        from sklearn import datasets  # here, not above: a command line that only lists configurations must not wait for scikit-learn

        options = {"scaled": False} if self.loader == "diabetes" else {}
        bunch = getattr(datasets, f"load_{self.loader}")(**options)
        names = tuple(str(name) for name in bunch.feature_names)
        if self.loader in REGRESSION:
            return Dataset(self.name, np.ascontiguousarray(bunch.data), bunch.target, np.empty(0), names, "regression")
        return Dataset.from_labels(self.name, bunch.data, bunch.target, names)
