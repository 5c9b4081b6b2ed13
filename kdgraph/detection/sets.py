"""Detectors that judge a row by the rows it comes with, as TOOD (Algorithm 1) does: their contract, and how sets are drawn for them."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np

from kdgraph.detection.base import PostHocDetector
from kdgraph.parameters import Count, Range
from kdgraph.parents import take

Level = Literal["instance", "set"]
"""instance: a score for each row, which depends on the set that it is in. set: one score for a set, the mean over its rows."""

SetSize = Annotated[int, Range(2)]
"""Rows that can be compared."""


@dataclass(eq=False, repr=False)
class SetDetector(PostHocDetector):
    """A detector whose score belongs to rows in a set, all of them from one distribution: it asks whether the set is out of distribution.

    That is another task than a detector of single rows has, which is not told which rows belong together; the two kinds of numbers do not
    compare, and of a row by itself a set detector says nothing. Who wants to evaluate one draws sets:
    ``ood_score_of_sets(X, rng)`` draws ``repeats`` sets of ``set_size_`` rows from X and gives one number for each unit (a row in a set, or
    a set), so not one for each row of X. Having this method is how a detector says that it is one of these. ``score_samples``,
    ``decision_function``, ``predict`` and ``ood_score`` take X as one set.

    The threshold is that of sets of the same size, drawn from the held-out rows.

    A subclass implements ``_represent(X)``, what the score needs to know of each row, an array or data frame with a row for each, and
    ``_score_together(represented)``, Float[m] of rows in one set, higher for what is more normal.

    Parameters
    ----------
    level : "instance" or "set", see :data:`Level`.
    set_size, repeats : rows of a set, and how many sets the evaluation draws.
    **others : those of :class:`PostHocDetector`.

    Attributes
    ----------
    set_size_ : rows of a set: ``set_size``, or all held-out rows where there are fewer.
    """

    _: KW_ONLY
    level: Level = "instance"
    set_size: SetSize = 100
    repeats: Count = 10

    def ood_score_of_sets(self, X, rng: np.random.Generator) -> np.ndarray:
        """Float[units]: how far out of distribution sets are that are drawn from X, each without replacement; above 0 is out.

        Units are ``repeats × set_size_`` rows, set by set, at ``level="instance"``, and ``repeats`` sets at ``level="set"``. An X of no
        more than ``set_size_`` rows is one set, as it is.
        """
        return self.offset_ - self._scores_of_draws(self._checked(X), self.repeats, rng)

    def describe(self) -> dict[str, Any]:
        """What was learnt, and what its scores are of, for the record."""
        return {**super().describe(), "level": self.level, "set_size": self.set_size_, "repeats": self.repeats}

    def _represent(self, X: Any) -> Any:
        raise NotImplementedError

    def _score_together(self, represented: Any) -> np.ndarray:
        raise NotImplementedError

    def _score(self, X: Any) -> np.ndarray:
        """Of X as one set; at ``level="set"`` all of its rows have its score."""
        score = self._of_one_set(self._represent(X))
        return score if self.level == "instance" else np.repeat(score, len(X))

    def _held_out_scores(self, X: Any, rng: np.random.RandomState) -> np.ndarray:
        """Enough sets that a quantile of their own scores can be ``target_fpr``."""
        self.set_size_ = min(self.set_size, len(X))
        if self.set_size_ < self.set_size:
            name, size = type(self).__name__, self.set_size
            warnings.warn(f"{len(X)} held-out rows are fewer than set_size={size}: {name} scores sets of {len(X)}", stacklevel=3)
        draws = max(self.repeats, math.ceil(1 / self.target_fpr))
        return self._scores_of_draws(X, draws, np.random.default_rng(rng.randint(np.iinfo(np.int32).max)))

    def _scores_of_draws(self, X: Any, repeats: int, rng: np.random.Generator) -> np.ndarray:
        """Float[units]; of the rows of X only those that are drawn are represented."""
        sets = drawn_sets(len(X), self.set_size_, repeats, rng)
        used, places = np.unique(sets, return_inverse=True)
        represented = self._represent(take(X, used))
        return np.concatenate([self._of_one_set(take(represented, rows)) for rows in places.reshape(sets.shape)])

    def _of_one_set(self, represented: Any) -> np.ndarray:
        """Float[m] or, at ``level="set"``, Float[1]."""
        if len(represented) < 2:
            raise ValueError(f"{type(self).__name__} compares the rows of a set and needs at least two, got n_samples = {len(represented)}")
        score = self._score_together(represented)
        return score if self.level == "instance" else score.mean(keepdims=True)


def drawn_sets(n: int, size: int, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """Int[repeats, size]: row numbers below n, none twice in one set. Where n ≤ size there is one set, Int[1, n]: all rows."""
    if n <= size:
        return np.arange(n)[None]
    return np.stack([rng.choice(n, size, replace=False) for _ in range(repeats)])
