"""Folds of calibration rows for whoever judges the confidence in a prediction on rows that it was not fitted on."""

from __future__ import annotations

import numpy as np

N_FOLDS = 5


def can_be_judged(correct: np.ndarray) -> bool:
    """Whether two rows at least are right and two wrong, Bool[n]: whoever is fitted on the other folds then sees some of both. Ours."""
    return min(int(correct.sum()), int((~correct).sum())) >= 2


def folds_of(predicted: np.ndarray, correct: np.ndarray, n_folds: int, rng: np.random.RandomState) -> np.ndarray:
    """Int[n]: the fold of each row, at random; rows of one predicted class that are all right, or all wrong, are dealt out evenly. Ours.

    Unlike scikit-learn's ``StratifiedKFold`` it takes classes of fewer rows than folds, which are what pooling is for.

    Parameters
    ----------
    predicted : Int[n].
    correct : Bool[n].
    n_folds : from 2.
    rng : draws them.

    Examples
    --------
    >>> fold = folds_of(np.zeros(10, dtype=int), np.arange(10) < 5, 5, np.random.RandomState(0))
    >>> sorted(fold[:5].tolist()), sorted(fold[5:].tolist())
    ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    """
    order = rng.permutation(len(predicted))
    order = order[np.lexsort((correct[order], predicted[order]))]
    fold = np.empty(len(predicted), dtype=np.intp)
    fold[order] = np.arange(len(predicted)) % n_folds
    return fold
