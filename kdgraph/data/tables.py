"""Real tables that scikit-learn ships, so no network is needed."""

from __future__ import annotations

from typing import Literal

from kdgraph.data.dataset import Dataset
from kdgraph.parameters import check_parameters


class SklearnTable:
    """A classification table of scikit-learn, as it is shipped: raw features, integer classes, its own feature names.

    Parameters
    ----------
    loader : digits (1797 rows, 64 features, 10 classes), breast_cancer (569, 30, 2), wine (178, 13, 3) or iris (150, 4, 3).

    >>> SklearnTable("iris").load().X.shape
    (150, 4)
    """

    def __init__(self, loader: Literal["digits", "breast_cancer", "wine", "iris"]) -> None:
        self.loader = loader
        check_parameters(self)

    @property
    def name(self) -> str:
        """The loader's name."""
        return self.loader

    def load(self) -> Dataset:
        """The whole table."""
        from sklearn import datasets  # here, not above: a command line that only lists configurations must not wait for scikit-learn

        bunch = getattr(datasets, f"load_{self.loader}")()
        return Dataset.from_labels(self.name, bunch.data, bunch.target, tuple(str(name) for name in bunch.feature_names))
