"""Test rows that are moved out of the training distribution: by the loss of the dependence of their features, or by a shift."""

from __future__ import annotations

import numpy as np

from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, Positive, check_parameters


class ColumnPermuted:
    """Test rows whose columns are permuted, each by a permutation of its own: every marginal stays, and all dependence goes.

    Ours, for tables; of images the columns are pixels. Categories and missing values are permuted as numbers are. What looks at one feature
    at a time cannot tell these rows from test rows; a row may still happen to be one that the data could have.

    Parameters
    ----------
    n : rows; all test rows where there are fewer.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        drawn, rows = _test_rows(splits.test, self.n, rng)
        return [OodSet("permuted", rng.permuted(drawn.X, axis=0), facts={"rows": rows})]


class Shifted:
    """Test rows that are blown up and shifted: scale · (x - mean) + mean ± shift · std, feature by feature.

    Ours, for tables. Mean and standard deviation are those of the training rows. The sign is drawn once for each feature, so that all rows
    move together. A feature that is constant in training is not shifted, categories and missing values stay as they are, and pixels may
    leave [0, 1].

    Parameters
    ----------
    scale : what distances from the training mean are multiplied by.
    shift : in standard deviations of each feature. In d features it is shift · √d in units of the Mahalanobis distance, if they are
        independent.
    n : rows; all test rows where there are fewer.
    """

    def __init__(self, scale: Positive = 1.5, shift: NonNegative = 1.0, n: Count = 1000) -> None:
        self.scale = scale
        self.shift = shift
        self.n = n
        check_parameters(self)
        if scale == 1 and shift == 0:
            raise ParameterError("scale 1 and shift 0 leave test rows as they are, in distribution; raise one of them")

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set with rows like the training rows."""
        train = splits.train
        if train.is_categorical.all() and train.is_categorical.size:
            raise DataError(f"{train.name} has no numeric feature, and nothing else can be shifted; choose another ood")
        sign = np.where(rng.random(train.X.shape[1:]) < 0.5, -1.0, 1.0)
        mean, std = _moments(train.X)
        drawn, rows = _test_rows(splits.test, self.n, rng)
        X = drawn.X
        moved = (mean + self.scale * (X - mean) + self.shift * sign * std).astype(X.dtype)
        if train.is_categorical.any():
            moved[:, train.is_categorical] = X[:, train.is_categorical]
        params = {"scale": float(self.scale), "shift": float(self.shift)}
        return [OodSet("shifted", moved, params, facts={"rows": rows}, source_rows=drawn.source_rows)]


def _test_rows(test: Dataset, n: int, rng: np.random.Generator) -> tuple[Dataset, str]:
    """Rows drawn without replacement, and how many of how many."""
    chosen = rng.choice(len(test.y), min(n, len(test.y)), replace=False)
    return test.rows(chosen), f"made of {len(chosen):,} of {len(test.y):,} test rows"


def _moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each feature of Float[n, …] in float64, over the values that are known; 0 where there is none."""
    known = ~np.isnan(X)
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, X, 0.0).sum(axis=0, dtype=np.float64) / n
    return mean, np.sqrt((np.where(known, X - mean, 0.0) ** 2).sum(axis=0, dtype=np.float64) / n)
