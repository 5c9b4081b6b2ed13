"""Conformal prediction sets: classes that contain the label with a chosen probability.

:class:`ConformalClassifier` compares the score of each class of a row with the scores of the true
classes of calibration rows. :func:`nonconformity_scores` computes the scores LAC, APS and RAPS,
:func:`row_uniforms` the random numbers that break their ties.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.validation import check_per_row, is_dataframe
from kdgraph.calibration.groupwise import known_groups
from kdgraph.distributions.conformal import LEVEL_TOLERANCE
from kdgraph.parameters import Count, NonNegative, OpenFraction
from kdgraph.wording import display_group, display_label

ConformityScore = Literal["lac", "aps", "raps"]
"""Score of a class in a row, from the class probabilities; see :func:`nonconformity_scores`."""
Conditional = Literal["none", "class", "group"]
"""Rows that coverage is guaranteed for on average: all, those of each class, or of each group."""

_SCORE_TOLERANCE = 1e-9
"""Largest difference of scores that count as equal.

The scores of a row depend on the rows beside it by rounding, up to 1e-10, and the threshold is the
score of a calibration row. The tolerance can only enlarge a set, so that no guarantee is lost.
"""
_PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)
"""Candidates for the penalty of RAPS (Angelopoulos et al. 2021, Appendix E)."""


def nonconformity_scores(
    proba: np.ndarray,
    score: ConformityScore = "aps",
    u: np.ndarray | None = None,
    *,
    k_reg: int = 1,
    penalty: float = 0.0,
) -> np.ndarray:
    """Return the score of every class in every row, Float[n, K]; a lower score conforms better.

    Classes whose probabilities differ by less than rounding are ordered by position.

    Parameters
    ----------
    proba : Float[n, K]
        Class probabilities.
    score : {"lac", "aps", "raps"}, default="aps"
        "lac", least ambiguous set-valued classifier: one minus the probability of the class. "aps",
        adaptive prediction sets: the probability of all classes before it in the order of
        decreasing probability, plus u times its own. "raps", regularised APS: that, plus
        ``penalty`` for each rank beyond ``k_reg``.
    u : Float[n], default=None
        Number in [0, 1] of each row, for "aps" and "raps"; None: 1 in every row.
    k_reg : int, default=1
        Rank up to which "raps" has no penalty; the most probable class has rank 1.
    penalty : float, default=0.0
        Penalty λ of a rank.

    References
    ----------
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
    JASA 2019, for "lac". Romano, Sesia and Candès, "Classification with valid and adaptive
    coverage", NeurIPS 2020, Eq. 5 to 7, for "aps". Angelopoulos, Bates, Malik and Jordan,
    "Uncertainty sets for image classifiers using conformal prediction", ICLR 2021, Eq. 4, for
    "raps".

    Examples
    --------
    >>> proba = np.array([[0.25, 0.5, 0.25]])
    >>> nonconformity_scores(proba, "lac").tolist()
    [[0.75, 0.5, 0.75]]
    >>> nonconformity_scores(proba, "aps", np.array([0.5])).tolist()
    [[0.625, 0.25, 0.875]]
    >>> nonconformity_scores(proba, "raps", np.array([0.5]), k_reg=2, penalty=1.0).tolist()
    [[0.625, 0.25, 1.875]]
    """
    if score == "lac":
        return 1 - proba
    order = _by_probability(proba)
    sorted_proba = np.take_along_axis(proba, order, axis=1)
    own = sorted_proba if u is None else sorted_proba * u[:, None]
    sorted_scores = np.cumsum(sorted_proba, axis=1) - sorted_proba + own
    if score == "raps":
        rank = np.arange(1, proba.shape[1] + 1)
        sorted_scores += penalty * np.maximum(rank - k_reg, 0)
    scores = np.empty_like(sorted_scores)
    np.put_along_axis(scores, order, sorted_scores, axis=1)
    return scores


def _by_probability(proba: np.ndarray) -> np.ndarray:
    # Rounding must not exchange classes of equal probability, whose scores differ by it.
    return np.argsort(-np.round(proba, 9), axis=1, kind="stable")


def row_uniforms(X: Any, seed: int) -> np.ndarray:
    """Return a pseudo-random number in [0, 1) for each row, from its content, Float[n].

    The numbers are uniform over seeds. Equal rows have equal numbers, in any order and among any
    other rows. Original to kdgraph. Let h be the hash of the row with a secret key, drawn once.
    Given the key, the score of a row is a fixed function of the row and its label. So the scores of
    exchangeable rows are exchangeable, as with independent draws, and coverage over the draw of the
    key is what the papers prove.

    Parameters
    ----------
    X : Float[n, d], images Float[n, c, h, w] or DataFrame
        Rows. A data frame of numbers counts as the array of its values.
    seed : int
        Key of the hash.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [0.0, 1.0]])
    >>> u = row_uniforms(X, seed=0)
    >>> bool(u[0] == u[2] != u[1]), row_uniforms(X[1:], seed=0).tolist() == u[1:].tolist()
    (True, True)
    """
    if is_dataframe(X):
        from pandas.api.types import is_bool_dtype, is_numeric_dtype
        from pandas.util import hash_pandas_object

        if all(is_numeric_dtype(dtype) or is_bool_dtype(dtype) for dtype in X.dtypes):
            X = X.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            X = hash_pandas_object(X, index=False).to_numpy()[:, None]
    rows = np.asarray(X)
    if rows.dtype.kind != "u":
        # Zero has two signs, and NaN many bit patterns.
        rows = np.nan_to_num(rows.astype(np.float64) + 0.0, nan=np.inf, posinf=np.finfo(float).max)
    rows = np.ascontiguousarray(rows.reshape(len(rows), -1))
    # Slices of one buffer: an array for each row would take as long again as its hash.
    content, width = memoryview(rows.tobytes()), rows.shape[1] * rows.itemsize
    hash_row = partial(hashlib.blake2b, digest_size=8, key=int(seed).to_bytes(8, "little"))
    digests = b"".join(
        hash_row(content[start : start + width]).digest() for start in range(0, len(content), width)
    )
    return (np.frombuffer(digests, dtype="<u8") >> np.uint64(11)) * 2.0**-53


@dataclass(eq=False, repr=False)
class ConformalClassifier(PostHocClassifier):
    """Classifier that predicts a set of classes with guaranteed coverage.

    Calibration rows that nothing else has seen, not even a calibrator that is fitted as parent,
    give each class of a new row a conformal p-value: a small one means that the true classes of few
    calibration rows conformed as badly. The set contains all classes with a p-value above 1 -
    ``coverage``.

    Parameters
    ----------
    conformity_score : {"lac", "aps", "raps"}, default="aps"
        Score of a class, see :func:`nonconformity_scores`; named as in MAPIE. "lac" has the
        smallest sets on average; "aps" has large sets where the model is uncertain; "raps" has few
        very large ones among many classes.
    coverage : float in (0, 1), default=0.9
        Least probability that the set contains the label.
    conditional : {"none", "class", "group"}, default="none"
        Rows that the coverage holds for. "none": all rows on average. "class": the rows of each
        class. "group": the rows of each group; then ``fit``, for all calibration rows, and
        :meth:`predict_set` get ``groups``.
    randomized : bool, default=True
        Break ties of "aps" and "raps" by :func:`row_uniforms`, so that coverage is not larger than
        it has to be. False: every score includes the whole probability of its class.
    allow_empty : bool or None, default=None
        True: leave sets empty that contain no class. False: they get the most probable class, as in
        the code of Angelopoulos et al., which can only raise the coverage. None: True for "lac",
        whose sets are empty where no class is probable enough; False for "aps" and "raps", whose
        randomised sets are empty where one class is almost certain.
    k_reg : int or None, default=None
        Rank up to which "raps" has no penalty. None: the rank that is sufficient for ``coverage``
        among calibration rows set apart for it.
    penalty : float or None, default=None
        Penalty of a rank beyond it. None: the one of .001, .01, .1, .2 and .5 that has the smallest
        sets of these rows.
    tuning_size : float in (0, 1), default=0.2
        Fraction of the calibration rows that choose ``k_reg`` and ``penalty``; they take no part in
        the threshold. All rows do if both are given, or the score is not "raps".

    Attributes
    ----------
    cells_ : list
        Rows with a threshold of their own: positions of the classes, groups, or ``["all"]``.
    thresholds_ : Float[len(cells_)]
        Largest score of a class in the set; infinity, with a warning, if the cell has fewer than
        coverage / (1 - coverage) rows: every set then contains the class, or in the group all
        classes.
    n_rows_ : list of int
        Number of calibration rows of each cell.
    k_reg_, penalty_ : int, float
        Parameters of "raps", given or chosen.

    Notes
    -----
    If m calibration rows and the new row are exchangeable, the coverage is at least ``coverage``,
    and at most ``coverage + 1/(m + 1)`` if no scores are equal and sets may be empty (Vovk et al.
    2005, Chapters 2 and 4, for classes and groups as Mondrian predictors; Romano et al. 2020,
    Theorem 1). It is an average over calibration rows: the coverage of one fitted model on many new
    rows has a Beta(r, m + 1 - r) distribution with r = ⌈(m + 1) coverage⌉, a standard deviation of
    .01 at 900 rows and .9. Rows of another distribution have no guarantee, nor has the group of a
    row without one, or of one without calibration rows, which gets the threshold of all rows.

    With ``calibration="oob"`` or "cross_fit", and with sample weights, where the new row counts as
    one of mean weight, the coverage is approximate (Vovk, "Cross-conformal predictors", AMAI 2015;
    Tibshirani et al., NeurIPS 2019).

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", Springer 2005. The papers
    of the scores are those of :func:`nonconformity_scores`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(1000, noise=0.4, random_state=0)
    >>> forest = RandomForestClassifier(50, min_samples_leaf=10, random_state=0)
    >>> model = ConformalClassifier(forest, coverage=0.9, random_state=0).fit(X, y)
    >>> model.predict_set([[-1.0, 1.0], [0.0, 0.25]]).tolist()
    [[True, False], [True, True]]
    """

    _: KW_ONLY
    conformity_score: ConformityScore = "aps"
    coverage: OpenFraction = 0.9
    conditional: Conditional = "none"
    randomized: bool = True
    allow_empty: bool | None = None
    k_reg: Count | None = None
    penalty: NonNegative | None = None
    tuning_size: OpenFraction = 0.2

    repeats_proba: ClassVar = True
    """True: ``predict_proba`` is that of the parent."""

    @property
    def takes_groups(self) -> bool:
        """True if each group of rows has its own threshold."""
        return self.conditional == "group"

    def predict_set(self, X, groups=None) -> np.ndarray:
        """Return the set of classes of each row, Bool[n, K].

        ``groups`` are the group of each row, [n], for ``conditional="group"``.
        """
        X = self._validate_X(X)
        return self.predict_set_from_proba(X, self.estimator_.predict_proba(X), groups)

    def predict_set_from_proba(self, X, proba: np.ndarray, groups=None) -> np.ndarray:
        """Return :meth:`predict_set` of rows whose probabilities, Float[n, K], are known."""
        cells = self._cells_of(len(proba), groups)
        # The last threshold is that of all rows: position -1 of a row without a cell.
        thresholds = np.append(self.thresholds_, self._threshold(self._all_rows))
        members = self._scores(X, proba) <= thresholds[cells] + _SCORE_TOLERANCE
        allow_empty = (
            self.conformity_score == "lac" if self.allow_empty is None else self.allow_empty
        )
        if not allow_empty:
            empty = np.flatnonzero(~members.any(axis=1))
            members[empty, proba[empty].argmax(axis=1)] = True
        return members

    def p_values(self, X, groups=None) -> np.ndarray:
        """Return the conformal p-value of each class: small if it is unlikely to be the label.

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows as in ``fit``.
        groups : array of shape [n], default=None
            Group of each row, for ``conditional="group"``.

        Returns
        -------
        Float[n, K]
            (1 + number of calibration scores of the cell that are at least the score) / (m + 1).
            The p-value of the label is at most α with probability at most α, for any α.
        """
        X = self._validate_X(X)
        proba = self.estimator_.predict_proba(X)
        scores, p_values = self._scores(X, proba), np.empty(proba.shape)
        cells = np.broadcast_to(self._cells_of(len(proba), groups), proba.shape)
        for cell, (cell_scores, cumulated) in [*enumerate(self._by_cell), (-1, self._all_rows)]:
            mask = cells == cell
            position = np.searchsorted(cell_scores, scores[mask] - _SCORE_TOLERANCE, side="left")
            p_values[mask] = (1 + cumulated[-1] - cumulated[position]) / (1 + cumulated[-1])
        return p_values

    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Return the probabilities of the parent, Float[n, K]; ``groups`` are not used."""
        X = self._validate_X(X)
        return self.estimator_.predict_proba(X)

    def describe(self) -> dict[str, Any]:
        """Return the numbers of rows and the thresholds of the cells, and the chosen parameters."""
        display = display_label if self.conditional == "class" else display_group
        thresholds = dict(zip(map(display, self.cells_), self.thresholds_.tolist(), strict=True))
        rows = dict(zip(map(display, self.cells_), self.n_rows_, strict=True))
        raps = (
            {"k_reg": self.k_reg_, "penalty": self.penalty_}
            if self.conformity_score == "raps"
            else {}
        )
        return {"rows": rows, "thresholds": thresholds, **raps}

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        # A calibrator that is fitted here must not see the rows that calibrate the sets.
        return super()._fit_parent(parent, train, None, random_state)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        rng = check_random_state(self.random_state)
        self.tie_seed_ = int(rng.randint(np.iinfo(np.int32).max))
        if self.conditional == "group":
            missing = (
                "ConformalClassifier with conditional='group' needs the group of each row: groups,"
                " and groups_calibration where there are calibration rows"
            )
            known_groups(calibration, "ConformalClassifier", missing)
        proba = calibration.predict(self.estimator_)
        all_rows = np.arange(len(calibration))
        rows = (
            all_rows
            if self.conformity_score != "raps"
            else self._tune(calibration, proba, all_rows, rng)
        )
        y, weight = calibration.y[rows], calibration.weight[rows]
        group = None if calibration.group is None else calibration.group[rows]
        scores = self._scores(calibration[rows].X, proba[rows])[np.arange(len(rows)), y]
        if self.conditional == "class":
            self.cells_, cell_of_row = list(range(len(self.classes_))), y
        elif self.conditional == "group" and group is not None:
            self.cells_, cell_of_row = np.unique(group).tolist(), group
        else:
            self.cells_, cell_of_row = ["all"], np.full(len(rows), "all")
        self._all_rows = _sorted_scores(scores, weight)
        masks = [cell_of_row == cell for cell in self.cells_]
        self._by_cell = [_sorted_scores(scores[mask], weight[mask]) for mask in masks]
        self.n_rows_ = [int(mask.sum()) for mask in masks]
        self.thresholds_ = np.array([self._threshold(cell) for cell in self._by_cell])
        self._warn_of_small_cells()

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        return rows.predict(self.estimator_)

    def _scores(self, X: Any, proba: np.ndarray) -> np.ndarray:
        u = (
            row_uniforms(X, self.tie_seed_)
            if self.randomized and self.conformity_score != "lac"
            else None
        )
        if self.conformity_score != "raps":
            return nonconformity_scores(proba, self.conformity_score, u)
        return nonconformity_scores(proba, "raps", u, k_reg=self.k_reg_, penalty=self.penalty_)

    def _threshold(self, cell: tuple[np.ndarray, np.ndarray]) -> float:
        """Return the smallest score that is sufficient for the coverage, or infinity."""
        scores, cumulated = cell
        required = self.coverage * (cumulated[-1] + 1) * (1 - LEVEL_TOLERANCE)
        position = int(np.searchsorted(cumulated[1:], required, side="left"))
        return float(scores[position]) if position < len(scores) else np.inf

    def _cells_of(self, n_rows: int, groups: Any) -> np.ndarray:
        """Return positions in ``cells_`` that broadcast to [n, K]; -1: all rows."""
        if self.conditional == "class":
            return np.arange(len(self.classes_))[None, :]
        if self.conditional == "none":
            return np.zeros((n_rows, 1), dtype=int)
        cells = np.full((n_rows, 1), -1)
        if groups is not None:
            values = check_per_row("groups", groups, n_rows)
            for position, cell in enumerate(self.cells_):
                cells[values == cell] = position
        return cells

    def _tune(
        self, calibration: Rows, proba: np.ndarray, rows: np.ndarray, rng: np.random.RandomState
    ) -> np.ndarray:
        """Choose the parameters of RAPS, and return the rows that are left for the threshold.

        Angelopoulos et al. 2021, Appendix E: ``k_reg`` is the conformal quantile of the ranks of
        the labels, and the penalty has the smallest sets, on rows that do nothing else.
        """
        self.k_reg_ = proba.shape[1] if self.k_reg is None else self.k_reg
        self.penalty_ = 0.0 if self.penalty is None else self.penalty
        n_tuning = round(self.tuning_size * len(rows))
        if (self.k_reg is not None and self.penalty is not None) or not n_tuning:
            return rows
        rows = rng.permutation(rows)
        tuning, rest = rows[:n_tuning], np.sort(rows[n_tuning:])
        labels, X, p = calibration.y[tuning], calibration[tuning].X, proba[tuning]
        position, weight = np.arange(n_tuning), calibration.weight[tuning]
        if self.k_reg is None:
            ranks = 1.0 + (_by_probability(p) == labels[:, None]).argmax(axis=1)
            self.k_reg_ = int(min(self._threshold(_sorted_scores(ranks, weight)), p.shape[1]))
        if self.penalty is None:
            sizes = []
            for candidate in _PENALTIES:
                self.penalty_ = candidate
                scores = self._scores(X, p)
                threshold = self._threshold(_sorted_scores(scores[position, labels], weight))
                sizes.append(float((scores <= threshold + _SCORE_TOLERANCE).sum()))
            self.penalty_ = _PENALTIES[int(np.argmin(sizes))]
        return rest

    def _warn_of_small_cells(self) -> None:
        needed = math.ceil(self.coverage / (1 - self.coverage) * (1 - LEVEL_TOLERANCE))
        small = [
            (cell, n_rows)
            for cell, n_rows, threshold in zip(
                self.cells_, self.n_rows_, self.thresholds_.tolist(), strict=True
            )
            if threshold == np.inf
        ]
        if not small:
            return
        rule = f"coverage={self.coverage:g} needs {needed} calibration rows"
        if self.conditional == "none":
            message = f"{rule}, got {small[0][1]}: every set contains all classes"
        elif self.conditional == "class":
            names = _listed([(display_label(cell), n) for cell, n in small])
            message = f"{rule} of each class, got {names}: every set contains such a class"
        else:
            names = _listed([(display_group(cell), n) for cell, n in small])
            message = f"{rule} of each group, got {names}: their sets contain all classes"
        warnings.warn(f"{message}; lower coverage, or calibrate on more rows", stacklevel=4)


def _sorted_scores(scores: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores in increasing order, Float[m], and their cumulated weights, Float[m + 1]."""
    order = np.argsort(scores, kind="stable")
    return scores[order], np.concatenate([[0.0], np.cumsum(weight[order])])


def _listed(cells: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{n_rows} of '{name}'" for name, n_rows in cells)
