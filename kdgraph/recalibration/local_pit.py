"""Local recalibration: a map of PIT values for each row, from its neighbours.

:class:`LocalPit` is Algorithm 1 of Torres et al. (2024) in any feature space, with an optional
local-linear correction. The number of neighbours is chosen on calibration rows by
:func:`successive_elimination`, which drops poor settings early.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from kdgraph.base import Rows
from kdgraph.distributions import Distribution, RankedEcdf, Recalibrated, RowEcdf, ScoredEcdf
from kdgraph.distributions.row_pit_maps import RowBuffer, rank_pits
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive
from kdgraph.recalibration.base import (
    NeighbourRegressor,
    compute_pits,
    hash_rows,
    uniform_numbers,
)
from kdgraph.recalibration.local_linear import local_linear_scores
from kdgraph.smoothing.neighbour_weights import (
    NeighbourKernel,
    NeighbourWeighting,
    Scale,
    WeightedNeighbours,
)
from kdgraph.smoothing.neighbours import NeighbourSearch, draw_reference_rows

_ROUND_ROWS = 1000
"""Rows that are scored in one round of the elimination."""
_ELIMINATION_ERRORS = 3.0
"""Standard errors behind the best at which a setting is eliminated: among 20 equally good settings,
fewer than one in 30 is.
"""


@dataclass(frozen=True)
class EliminationResult:
    """Mean score of each setting, the error of its difference from the best, and the rows scored.

    The mean of the best setting is that over all scored rows. That of another is the best one's
    mean plus the mean difference between the two, over the rows on which both were scored;
    ``error`` is the standard error of this difference, 0 for the best.
    """

    mean: dict[int, float]
    error: dict[int, float]
    n_rows: int

    @property
    def best(self) -> int:
        """Setting with the smallest mean score; the largest of equally good ones."""
        return min(self.mean, key=lambda setting: (self.mean[setting], -setting))

    @property
    def largest_within_one_error(self) -> int:
        """Largest setting that is at most one standard error behind the best."""
        # If all means are infinite, differences are NaN, and all settings are equally good.
        with np.errstate(invalid="ignore"):
            return max(
                setting
                for setting in self.mean
                if not np.subtract(self.mean[setting], self.mean[self.best]) > self.error[setting]
            )


def successive_elimination(
    settings: list[int], scores: Callable[[list[int], slice], np.ndarray], n: int, budget: float
) -> EliminationResult:
    """Return the mean scores of settings, of which poor ones are scored on few of n rows.

    Rows are scored 1,000 at a time. After each round, settings are eliminated that are 3 standard
    errors behind the best by paired differences (Maron and Moore, "Hoeffding races", NeurIPS 1993).
    A setting is also the cost of scoring one row with it; a round that would exceed the budget does
    not start, except for the first. ``scores`` is a function of s settings and a slice of r
    consecutive rows, in random order, that returns Float[s, r]; smaller scores are better. Infinite
    scores (of distributions without a mean) and NaN are worse than all others and equal to each
    other.
    """
    # The score of a row depends much more on the row than on the setting, so settings are compared
    # by paired differences: their standard errors are far smaller than those of means. An
    # eliminated setting keeps the scores of the rows that it was scored on; its mean is later
    # estimated from the paired difference to the winner over these rows. All settings are scored on
    # the same first rows, so the first len(history[setting]) scores always correspond.
    running, n_scored, cost = sorted(settings), 0, 0.0
    table = np.empty((len(running), 0))
    history: dict[int, np.ndarray] = {}

    def can_continue() -> bool:
        if n_scored == 0:
            return True
        round_cost = sum(running) * min(_ROUND_ROWS, n - n_scored)
        return len(running) > 1 and cost + round_cost <= budget

    while n_scored < n and can_continue():
        rows = slice(n_scored, min(n_scored + _ROUND_ROWS, n))
        new_scores = np.nan_to_num(scores(running, rows), nan=np.inf, posinf=np.inf, neginf=-np.inf)
        table = np.concatenate([table, new_scores], axis=1)
        cost += sum(running) * (rows.stop - n_scored)
        n_scored = rows.stop
        history |= dict(zip(running, table, strict=True))
        leader = int(table.mean(axis=1).argmin())
        behind = _paired_differences(table, table[leader])
        stays = behind.mean(axis=1) <= _ELIMINATION_ERRORS * _standard_error(behind)
        stays[leader] = True
        running = [setting for setting, stay in zip(running, stays, strict=True) if stay]
        table = table[stays]
    best = history[running[int(table.mean(axis=1).argmin())]]
    differences = {
        setting: _paired_differences(history[setting], best[: len(history[setting])])
        for setting in sorted(history)
    }
    return EliminationResult(
        {setting: float(best.mean() + behind.mean()) for setting, behind in differences.items()},
        {setting: float(_standard_error(behind)) for setting, behind in differences.items()},
        n_scored,
    )


def _paired_differences(scores: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return ``scores - best``, and 0 where both are infinite."""
    with np.errstate(invalid="ignore"):
        difference = scores - best
    return np.where(np.isnan(difference), 0.0, difference)


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Return the standard error of means over the last axis."""
    # It is 0 for infinite differences, whose mean is certainly infinite.
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(values.std(axis=-1) / np.sqrt(max(values.shape[-1] - 1, 1)))


_MIN_K, _MAX_K = 25, 20_000
"""Smallest and largest candidate for the number of neighbours; each is √2 times the last."""
_SELECTION_BUDGET = 1 << 26
"""Number of neighbours that are visited to choose k, beyond the first 1,000 rows: some seconds."""
_N_DIAGNOSTIC_ROWS = 1000
"""Calibration rows whose effective number of neighbours and distances are recorded."""
_N_RECALL_ROWS = 200
"""Calibration rows on which an approximate search is compared with the exact one."""
_MAX_RELATIVE_DISTANCE = 2.0
"""Rows are outside the calibration rows if they are this many times as far from their neighbours as
any diagnostic row.
"""
_MIN_DIAGNOSTIC_ROWS = 25
"""Smallest number of calibration rows that define which rows are outside.

Of q rows and a new row of the same distribution, the new row is farthest with probability
1/(q + 1).
"""


@dataclass(eq=False, repr=False)
class LocalPit(NeighbourRegressor):
    """Recalibrator by the PIT values of the calibration rows near to each row.

    Parameters
    ----------
    k : int or "crps", default="crps"
        Number of neighbours. "crps": the number with the smallest CRPS on calibration rows, each
        left out of its own neighbourhood.
    radius : float, default=None
        Largest distance of a neighbour, in the units of the space; it replaces k.
    kernel, scale : str, default="epanechnikov", "last"
        Weights of the neighbours, see
        :class:`~kdgraph.smoothing.neighbour_weights.NeighbourWeighting`.
    k_min : int, default=10
        Number of nearest rows that are used if none is within the radius.
    eps : float, default=0
        Each of k neighbours is at most 1 + eps times as far away as the true one of its rank. 0:
        the search is exact. With a radius, and for leaves of a forest, it has to be 0.
    local_linear : bool, default=False
        False: PIT values of the neighbours, as in the paper. True: with a local-linear correction,
        which removes the slopes of their location and spread across the neighbourhood
        (:func:`~kdgraph.recalibration.local_linear.local_linear_scores`).
    draws : int, default=None
        Number of PIT values that are drawn for each row from those of its neighbours, by weight and
        with replacement; the distribution of the row is then the unweighted sample of as many
        outcomes, as in Section 4.2 of the paper, which has 1,000. None: the distribution itself.
        Draws come after the choice of k, which is by the distribution itself.
    n_selection_rows : int, default=10000
        Number of calibration rows, drawn at random, on which k is chosen. Fewer are used if they
        would take too long (see Notes).
    max_reference_rows : int or None, default=None
        Largest number of calibration rows that can be neighbours. If there are more, so many are
        drawn at random, and all else is as if these were all calibration rows (see Notes). None:
        all rows.

    Attributes
    ----------
    space_, coordinates_ : FeatureSpace, Float[n, d] or sparse matrix
        The fitted space, and the calibration rows in it.
    pits_, n_clipped_ : Float[n], int
        PIT values of the calibration rows, see :class:`~kdgraph.recalibration.GlobalPit`.
    k_ : int or None
        Number of neighbours; None with a radius.
    crps_by_k_, n_selection_rows_ : dict of int to float, int
        Mean CRPS of each k, if k was chosen, and the number of rows on which it was.
    n_eff_ : Float[q]
        Effective numbers of neighbours of some calibration rows, increasing.
    reach_ : float or None
        Largest distance, over these rows, of the k-th neighbour (with a radius, of the nearest
        row); None for leaves of a forest and for fewer than 25 rows. ``predict_dist`` warns about
        rows that are more than twice as far from their neighbours.
    recall_ : float or None
        Mean fraction of the true neighbours of a row that the search finds; None if it is exact.

    Notes
    -----
    F_new(y | x) = R_x(F(y | x)), where R_x is the weighted empirical distribution function of the
    neighbours' PIT values. This is the weighted sample of Algorithm 1 itself. Draws from it
    (``draws``) add noise: with 1,000 draws, a third of the mean squared error of the paper's first
    experiment. The draws of a row depend on its values and on the seed alone.

    Among the numbers of neighbours that are at most one standard error behind the best, by paired
    differences, the largest is chosen, because it has the smoother map (the rule of Breiman et al.
    1984). Clearly worse numbers are eliminated early. Fewer rows are used if they would visit more
    than 67 million neighbours; with 10,000 rows that leaves some thousand.

    The time of a prediction grows with the number of calibration rows. ``max_reference_rows`` costs
    most where the map does the work of the parent: behind a line that misses a square, the CRPS
    with 50,000 of 213,000 rows was 3 to 4 % larger.

    References
    ----------
    Torres et al., "Model-free local recalibration of neural networks", 2024, Section 3.

    Examples
    --------
    >>> from kdgraph.parents import GaussianLinear
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(3000, 1))
    >>> y = X[:, 0] ** 2 + 0.1 * rng.normal(size=3000)  # no line fits
    >>> model = LocalPit(GaussianLinear(), k=100, random_state=0).fit(X, y)
    >>> model.estimator_.predict([[0.0], [1.5]]).round(1), model.predict([[0.0], [1.5]]).round(1)
    (array([1.4, 1.3]), array([0. , 2.3]))
    """

    k: Count | Literal["crps"] = "crps"
    radius: Positive | None = None
    kernel: NeighbourKernel = "epanechnikov"
    scale: Scale = "last"
    k_min: Count = 10
    eps: NonNegative = 0.0
    local_linear: bool = False
    draws: Count | None = None
    n_selection_rows: Count = 10_000
    max_reference_rows: Count | None = None

    def describe(self) -> dict[str, Any]:
        """Return the fitted summary for the record.

        ``n_eff`` is the median over calibration rows, and ``n_eff_05`` the 5 % quantile.
        """
        low, median = np.quantile(self.n_eff_, [0.05, 0.5])
        summary: dict[str, Any] = self.pit_summary_ | {
            "n_eff": float(median),
            "n_eff_05": float(low),
        }
        if self.k_ is not None:
            summary["k"] = self.k_
        if self.recall_ is not None:
            summary["recall"] = self.recall_
        if self.crps_by_k_:
            summary |= {
                "n_selection_rows": self.n_selection_rows_,
                "crps_by_k": dict(self.crps_by_k_),
            }
        return summary

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.local_linear and self.feature_space == "geodesic":
            raise ParameterError(
                "local_linear=true needs coordinates, and feature_space=geodesic has none;"
                " use local_linear=false"
            )
        self._check_eps()
        calibration = calibration[
            draw_reference_rows(len(calibration), self.max_reference_rows, self.random_state)
        ]
        base = self._calibration_distribution(calibration)
        self.space_ = self._unfitted_space()
        self.coordinates_ = self.space_.fit(self.estimator_, train, calibration, base)
        pits = compute_pits(base, calibration.y, self.random_state)
        self.pits_, self.n_clipped_, self.pit_summary_ = (
            pits.values,
            pits.n_clipped,
            pits.describe(),
        )
        self.scale_ = base.score_scale()
        self.scores_ = self.scale_.to_scores(self.pits_) if self.local_linear else np.empty(0)
        # The rows that choose k are the first of one random order; the first of these are the
        # diagnostic rows, too.
        search, n = NeighbourSearch(self.coordinates_, eps=self.eps), len(self.pits_)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        selection_ids = np.random.default_rng(seed).permutation(n)[: self.n_selection_rows]
        result = (
            self._score_candidates(search, base, calibration.y, selection_ids)
            if self.radius is None and self.k == "crps"
            else None
        )
        if result is None:
            self.crps_by_k_, self.n_selection_rows_, self.k_ = {}, 0, self._fixed_k(n)
        else:
            self.crps_by_k_, self.n_selection_rows_ = result.mean, result.n_rows
            self.k_ = result.largest_within_one_error
        self.n_eff_, self.reach_ = self._diagnose(search, selection_ids[:_N_DIAGNOSTIC_ROWS])
        self.recall_ = (
            self._recall(search, selection_ids[:_N_RECALL_ROWS]) if self.eps > 0 else None
        )
        if self.draws is not None:
            seeds = check_random_state(self.random_state)
            self.draw_seed_ = int(seeds.randint(np.iinfo(np.int32).max))

    def _check_eps(self) -> None:
        if self.eps > 0 and self.radius is not None:
            raise ParameterError(
                f"eps={self.eps:g} is for a number of neighbours, and those within"
                f" radius={self.radius:g} are found exactly; use eps=0"
            )
        if self.eps > 0 and self.feature_space == "geodesic":
            raise ParameterError(
                f"eps={self.eps:g} is for Euclidean distances, and feature_space=geodesic has none;"
                " use eps=0"
            )

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        coordinates = self.space_.coordinates(self.estimator_, X, base)
        search = NeighbourSearch(self.coordinates_, eps=self.eps)
        weighting, buffer, ranked_pits = (
            self._weighting(),
            RowBuffer(len(base)),
            rank_pits(self.pits_),
        )
        # One pass finds the neighbours of a block of rows, counts what the warnings need, and adds
        # the PIT maps of the rows; the maps of all rows share the table of ranked PIT values.
        hashes = np.empty(0, np.uint64) if self.draws is None else hash_rows(X)
        n_empty = n_outside = 0
        for rows in weighting.query_blocks(search, coordinates):
            neighbours = weighting.find_neighbours(search, coordinates[rows])
            if self.radius is not None:
                n_empty += int(neighbours.empty.sum())
            if self.reach_:
                distance = self._neighbour_distance(neighbours, coordinates[rows])
                n_outside += int((distance > _MAX_RELATIVE_DISTANCE * self.reach_).sum())
            pit_map = self._pit_map(neighbours, coordinates[rows], ranked_pits)
            if self.draws is not None:
                uniform = uniform_numbers(hashes[rows], self.draws, self.draw_seed_)
                pit_map = pit_map.sample(uniform)
            buffer.append(pit_map)
        if n_empty:
            warnings.warn(
                f"{n_empty} of {len(base)} rows have no calibration row within"
                f" radius={self.radius:g}: the {self.k_min} nearest are taken",
                stacklevel=3,
            )
        if n_outside:
            warnings.warn(
                f"{n_outside} of {len(base)} rows are more than twice as far from their neighbours"
                " as any calibration row: their distributions are those at the edge of the"
                " calibration rows",
                stacklevel=3,
            )
        return Recalibrated(base, buffer.result())

    def _fixed_k(self, n: int) -> int | None:
        """Return the number of neighbours among n rows if it is not chosen; None with a radius."""
        if self.radius is not None:
            return None
        k = n if self.k == "crps" else self.k
        if k > n:
            warnings.warn(
                f"k={k} is more than the {n} calibration rows; all of them are used as neighbours",
                stacklevel=4,
            )
        return min(k, n)

    def _diagnose(
        self, search: NeighbourSearch, rows: np.ndarray
    ) -> tuple[np.ndarray, float | None]:
        """Return ``n_eff_`` and ``reach_`` of calibration rows, each left out of its neighbours."""
        weighting, n_eff = self._leave_one_out_weighting(len(search)), []
        has_reach = self.feature_space != "geodesic" and len(rows) >= _MIN_DIAGNOSTIC_ROWS
        reach = 0.0 if has_reach else None
        for block in weighting.query_blocks(search, rows):
            coordinates = self.coordinates_[rows[block]]
            neighbours = weighting.find_neighbours(search, coordinates, rows[block])
            n_eff.append(neighbours.n_eff)
            if reach is not None:
                reach = max(reach, float(self._neighbour_distance(neighbours, coordinates).max()))
        return np.sort(np.concatenate(n_eff)), reach

    def _neighbour_distance(
        self, neighbours: WeightedNeighbours, coordinates: np.ndarray
    ) -> np.ndarray:
        """Return the distance of the k-th neighbour (with a radius, the nearest row), Float[m]."""
        # Neighbours are in the order of their distance.
        column = -1 if self.radius is None else 0
        neighbour_coordinates = self.coordinates_[neighbours.rows[:, column]]
        return np.linalg.norm(neighbour_coordinates - coordinates, axis=1)

    def _recall(self, search: NeighbourSearch, rows: np.ndarray) -> float:
        """Return ``recall_``; a row as near as the last true neighbour counts as found."""
        weighting, exact_search = (
            self._leave_one_out_weighting(len(search)),
            NeighbourSearch(self.coordinates_),
        )
        recalls = []
        for block in weighting.query_blocks(search, rows):
            coordinates = self.coordinates_[rows[block]]
            distance, _ = weighting.nearest_rows(search, coordinates, rows[block])
            true_distance, _ = weighting.nearest_rows(exact_search, coordinates, rows[block])
            recalls.append((distance <= true_distance[:, -1:]).mean(axis=1))
        return float(np.concatenate(recalls).mean())

    def _leave_one_out_weighting(self, n: int) -> NeighbourWeighting:
        """Return :meth:`_weighting` for searches that leave one of the n rows out."""
        return (
            self._weighting()
            if self.k_ is None
            else NeighbourWeighting(min(self.k_, max(n - 1, 1)), None, self.kernel, self.scale)
        )

    def _weighting(self) -> NeighbourWeighting:
        return NeighbourWeighting(self.k_, self.radius, self.kernel, self.scale, self.k_min)

    def _pit_map(
        self,
        neighbours: WeightedNeighbours,
        coordinates: Any,
        ranked_pits: tuple[np.ndarray, np.ndarray],
    ) -> RowEcdf:
        """Return the map of each row, corrected by local-linear regression if required."""
        if not self.local_linear:
            return RankedEcdf.from_ranks(*ranked_pits, neighbours.rows, neighbours.weight)
        scores = local_linear_scores(
            self.scores_, self.coordinates_, neighbours.rows, neighbours.weight, coordinates
        )
        return ScoredEcdf.from_scores(scores, neighbours.weight, self.scale_)

    def _score_candidates(
        self, search: NeighbourSearch, base: Distribution, y: np.ndarray, selection_ids: np.ndarray
    ) -> EliminationResult | None:
        """Return the CRPS of left-out calibration rows for each k; None for too few rows."""
        candidates, ranked_pits = _candidate_ks(len(search) - 1), rank_pits(self.pits_)
        if not candidates:
            return None

        # The neighbours of the largest k are searched once; those of smaller k are the first of
        # them.
        def scores(ks: list[int], rows: slice) -> np.ndarray:
            block = selection_ids[rows]
            crps = np.empty((len(ks), len(block)))
            for part in NeighbourWeighting(k=ks[-1]).query_blocks(search, block):
                ids = block[part]
                coordinates = self.coordinates_[ids]
                by_k = self._neighbours_by_k(ks, search, coordinates, ids)
                for i, neighbours in enumerate(by_k):
                    pit_map = self._pit_map(neighbours, coordinates, ranked_pits)
                    crps[i, part] = Recalibrated(base[ids], pit_map).crps(y[ids])
            return crps

        return successive_elimination(candidates, scores, len(selection_ids), _SELECTION_BUDGET)

    def _neighbours_by_k(
        self, ks: list[int], search: NeighbourSearch, coordinates: Any, ids: np.ndarray
    ) -> Iterator[WeightedNeighbours]:
        nearest = NeighbourWeighting(ks[-1], None, self.kernel, self.scale).nearest_rows(
            search, coordinates, ids
        )
        for k in ks:
            yield NeighbourWeighting(k, None, self.kernel, self.scale).weight_neighbours(*nearest)


def _candidate_ks(n: int) -> list[int]:
    candidates = [round(_MIN_K * 2 ** (step / 2)) for step in range(40)]
    return [k for k in candidates if k <= min(n, _MAX_K)]
