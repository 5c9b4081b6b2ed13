"""What a calibrator knows of each class before it fits anything (Salamon et al., Eq. 1), and what it says where it cannot fit."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.parents.naming import called

_LIBRARY = str(Path(__file__).parents[2])
NEVER = "no calibration row is predicted as {}: the confidence there is that of all rows"
ONE_SIDED = "the calibration rows predicted as {} are all right or all wrong: the confidence there is their share of right ones"
BOUNDED = "the fit of {} runs to a bound: the confidence there is the share of right calibration rows"
NOT_THERE = "the fit of {} did not converge: the confidence there may be improved upon"


@dataclass(frozen=True)
class ClassShares:
    """Shares of right predictions, which stand where nothing else can be learnt.

    Attributes
    ----------
    precision : Float[K], the share of right predictions of each class (Salamon et al., Eq. 1, Conf1); where a class is never predicted,
        that of all rows.
    rows : Float[K], what the rows of each class weigh.
    empty : Bool[K], classes that no row is predicted as.
    one_sided : Bool[K], classes whose rows are all right or all wrong.
    """

    precision: np.ndarray
    rows: np.ndarray
    empty: np.ndarray
    one_sided: np.ndarray

    @classmethod
    def of(cls, group: np.ndarray, correct: np.ndarray, weight: np.ndarray, n_groups: int) -> ClassShares:
        """Of the rows' groups Int[n], whether they are right, Bool[n], and what they weigh, Float[n]. Salamon et al., Eq. 1."""
        rows = np.bincount(group, weight, minlength=n_groups)
        right, wrong = (np.bincount(group, weight * kind, minlength=n_groups) for kind in (correct, ~correct))
        empty = rows == 0
        precision = np.where(empty, np.average(correct, weights=weight), right / np.where(empty, 1, rows))
        return cls(precision, rows, empty, ~empty & ((right == 0) | (wrong == 0)))


def warn_of(labels: Iterable[Any], sentence: str) -> None:
    """Warn, where the call came from outside of this library, with a sentence that has a place ``{}`` for labels, if there are any."""
    names = [called(label) for label in labels]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        warnings.warn(sentence.format(", ".join(names[:5]) + more), stacklevel=_depth() + 1)


def _depth() -> int:
    """How many frames of this library are above the caller's."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame, depth = frame.f_back, depth + 1
    return depth - 1
