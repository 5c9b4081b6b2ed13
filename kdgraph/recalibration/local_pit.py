"""The choice of a setting by rows that score each of several, of which the worse ones drop out
early; ours.

Local recalibration: the distribution of PIT values near a row, in any space (Torres et al. 2024,
Algorithm 1).
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
from kdgraph.distributions.row_pit_maps import Stack, ranked
from kdgraph.errors import ParameterError
from kdgraph.parameters import Count, NonNegative, Positive
from kdgraph.recalibration.base import PostHocRegressor, Space, Units, Where, pits_of
from kdgraph.recalibration.local_linear import without_slopes
from kdgraph.smoothing.neighbours import Near, NearKernel, Nearness, NeighbourSearch, Scale

_ROUND = 1000
_OUT = 3.0
"""Standard errors behind the best at which a setting drops out: of 20 settings that are as good,
fewer than one in 30 does.
"""


@dataclass(frozen=True)
class Race:
    """What a race has found.

    Attributes
    ----------
    mean : setting → mean score: of the best over all rows that were looked at; of another that,
        plus its mean difference to the best over the rows on which both were scored.
    error : setting → standard error of that difference; 0 of the best.
    n_rows : how many rows were looked at.
    """

    mean: dict[int, float]
    error: dict[int, float]
    n_rows: int

    @property
    def best(self) -> int:
        """The setting of the least mean score; of equal ones the largest."""
        return min(self.mean, key=lambda setting: (self.mean[setting], -setting))

    @property
    def largest_as_good(self) -> int:
        """The largest setting that is at most one standard error behind the best."""
        with np.errstate(
            invalid="ignore"
        ):  # where all means are infinite, all settings are as good
            return max(
                setting
                for setting in self.mean
                if not np.subtract(self.mean[setting], self.mean[self.best]) > self.error[setting]
            )


def race(
    settings: list[int], scores: Callable[[list[int], slice], np.ndarray], n: int, most: float
) -> Race:
    """Score settings on rows, 1,000 at a time, and let those drop out that are 3 standard errors
    behind the best by paired differences.

    Parameters
    ----------
    settings : what there is to choose from; also what a row costs with each of them.
    scores : Float[s, r] of s settings and of consecutive rows, in random order; smaller is better.
        Infinite ones, as of distributions without a mean, are worse than all others, and as good as
        each other; so is NaN.
    n : how many rows there are.
    most : what all rows together may cost: no round begins that would take more, but the first.

    References
    ----------
    Maron and Moore, "Hoeffding races", NeurIPS 1993; Breiman, Friedman, Olshen and Stone,
    "Classification and regression trees", 1984, section 3.4.3, for the rule of one standard error.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=3000)  # the same for all settings
    >>> found = race([1, 2, 3], lambda some, rows: np.array([[abs(k - 2.0)] for k in some]) + noise[rows], 3000, np.inf)
    >>> found.best, found.n_rows, round(found.mean[3] - found.mean[2], 3)
    (2, 1000, 1.0)
    """
    running, seen, spent = sorted(settings), 0, 0.0
    table = np.empty((len(running), 0))
    known: dict[int, np.ndarray] = {}
    while seen < n and (
        not seen or (len(running) > 1 and spent + sum(running) * min(_ROUND, n - seen) <= most)
    ):
        rows = slice(seen, min(seen + _ROUND, n))
        table = np.concatenate(
            [
                table,
                np.nan_to_num(scores(running, rows), nan=np.inf, posinf=np.inf, neginf=-np.inf),
            ],
            axis=1,
        )
        seen, spent = rows.stop, spent + sum(running) * (rows.stop - seen)
        known |= dict(zip(running, table, strict=True))
        leader = int(table.mean(axis=1).argmin())
        behind = _differences(table, table[leader])
        stays = behind.mean(axis=1) <= _OUT * _standard_error(behind)
        stays[leader] = True
        running, table = (
            [setting for setting, stay in zip(running, stays, strict=True) if stay],
            table[stays],
        )
    best = known[running[int(table.mean(axis=1).argmin())]]
    differences = {
        setting: _differences(known[setting], best[: len(known[setting])])
        for setting in sorted(known)
    }
    mean = {
        setting: float(best.mean() + difference.mean())
        for setting, difference in differences.items()
    }
    return Race(
        mean,
        {
            setting: float(_standard_error(difference))
            for setting, difference in differences.items()
        },
        seen,
    )


def _differences(scores: np.ndarray, best: np.ndarray) -> np.ndarray:
    """``scores - best``, and 0 where both are infinite."""
    with np.errstate(invalid="ignore"):
        difference = scores - best
    return np.where(np.isnan(difference), 0.0, difference)


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of means over the last axis; 0 of infinite differences, whose mean is infinite without a
    doubt.
    """
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(values.std(axis=-1) / np.sqrt(max(values.shape[-1] - 1, 1)))


SMALLEST_K, LARGEST_K = 25, 20_000
"""Of the numbers of neighbours that calibration rows choose from; each is √2 times the one
before.
"""
MOST_NEIGHBOURS = 1 << 26
"""That are looked at for the choice of k, beyond the first 1,000 rows: some seconds."""
ASKED = 1000
"""Calibration rows that say how many neighbours count, for the record, and how far away these
are.
"""
ASKED_TWICE = 200
"""Calibration rows whose neighbours are looked for by the exact search too, where the other one is
not.
"""
FAR = 2.0
"""So many times as far from their neighbours as any calibration row that was asked are rows that
lie outside.
"""
FEWEST = 25
"""Calibration rows that can say how far is far: of q rows and a new one of the same kind, the new
one is farthest with probability 1/(q + 1).
"""


@dataclass(eq=False, repr=False)
class LocalPit(PostHocRegressor):
    """Recalibrate a regressor's predictive distributions by the PIT values of the calibration rows
    near to each row.

    Parameters
    ----------
    estimator : any regressor with ``predict_dist``; cloned and fitted, unless frozen.
    where, layer, units, forest : the space in which rows are near; see
    :class:`~kdgraph.recalibration.base.Space`.
    k : how many neighbours; "crps": as many as give the least CRPS on calibration rows, each left
    out of its own neighbourhood.
    radius : neighbours are the rows at most so far away, in the units of the space, instead of k.
    kernel, scale : how much they count; see :class:`~kdgraph.smoothing.neighbours.Nearness`.
    k_min : nearest rows that count where there is none in the radius.
    eps : each of k neighbours is at most 1 + eps times as far as the true one; of many features,
    and in a radius, the search is exact.
    degree : 0, their PIT values as they are, as in the paper; 1, without the slopes of their
        location and spread across the neighbourhood
        (:func:`~kdgraph.recalibration.local_linear.without_slopes`).
    n_choose : calibration rows, drawn at random, on which k is chosen; fewer where they would take
    too long (see Notes).
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, the rows that choose, and the parent where it has no
        seed of its own.

    Attributes
    ----------
    estimator_ : the fitted parent.
    space_, at_ : the space, and the calibration rows in it: Float[n, d], or sparse.
    pits_ : Float[n], their PIT values; ``n_clipped_`` as of
    :class:`~kdgraph.recalibration.GlobalPit`.
    k_ : how many neighbours; None with a radius.
    crps_by_k_, n_chose_ : k → mean CRPS, where k was chosen, and on how many rows.
    n_eff_ : Float[q], effective numbers of neighbours of the calibration rows that were asked,
    increasing.
    reach_ : how far away the k-th neighbour is (with a radius, the nearest row), at most, of these
        rows; None of a forest's leaves, where nothing is further away than 1, and of fewer than 25
        rows. Rows more than twice as far from theirs lie outside, which ``predict_dist`` tells with
        a warning.
    recall_ : mean share of a row's k true neighbours that the search finds, over some of these
        rows; None where it is exact.

    Notes
    -----
    F_new(y | x) = R_x(F(y | x)), R_x the weighted empirical distribution function of the
    neighbours' PIT values: the weighted sample of Algorithm 1 itself, kept as it is. Drawing from
    it, as the paper does, adds noise: with 1,000 draws a third of the mean squared error of its
    first experiment. With a constant kernel and all rows as neighbours this is
    :class:`~kdgraph.recalibration.GlobalPit`.

    Of the numbers of neighbours that are at most one standard error behind the best, by differences
    row by row, the largest is taken: it makes the smoother map. Numbers that are clearly worse drop
    out early (:func:`~kdgraph.recalibration.local_pit.race`), and there are fewer rows where they
    would look at more than 67 million neighbours, so that of 10,000 rows some thousand are asked.

    References
    ----------
    Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, "Model-free local recalibration of neural
    networks", 2024, Section 3.

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

    where: Where = "input"
    layer: str | None = None
    units: Units = "sd"
    forest: Any = None
    k: Count | Literal["crps"] = "crps"
    radius: Positive | None = None
    kernel: NearKernel = "epanechnikov"
    scale: Scale = "last"
    k_min: Count = 10
    eps: NonNegative = 0.0
    degree: Literal[0, 1] = 0
    n_choose: Count = 10_000

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record; ``n_eff`` is a median over calibration rows,
        ``n_eff_05`` their 5 % quantile.

        With an approximate search ``recall``, the mean share of true neighbours that it finds.
        """
        low, middle = np.quantile(self.n_eff_, [0.05, 0.5])
        found: dict[str, Any] = self.about_pits_ | {"n_eff": float(middle), "n_eff_05": float(low)}
        if self.k_ is not None:
            found["k"] = self.k_
        if self.recall_ is not None:
            found["recall"] = self.recall_
        return found | (
            {"n_chose": self.n_chose_, "crps_by_k": dict(self.crps_by_k_)}
            if self.crps_by_k_
            else {}
        )

    def _requires_training_rows(self) -> bool:
        """A forest of its own, whose leaves are the space, is fitted on them."""
        return self.where == "geodesic"

    def _distance_estimator(self) -> Any:
        return None if self.where == "output" else self.estimator

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.degree and self.where == "geodesic":
            raise ParameterError(
                "degree=1 needs coordinates, and where=geodesic has none; use degree=0"
            )
        base = self._base(calibration.X)
        self.space_ = Space(self.where, self.units, self.layer, self.forest, self.random_state)
        self.at_ = self.space_.fit(self.estimator_, train, calibration, base)
        pits = pits_of(base, calibration.y, self.random_state)
        self.pits_, self.n_clipped_, self.about_pits_ = pits.values, pits.n_clipped, pits.describe()
        self.scale_ = base.score_scale()
        self.scores_ = self.scale_.of(self.pits_) if self.degree else np.empty(0)
        search, n = NeighbourSearch(self.at_, eps=self.eps), len(self.pits_)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        own = np.random.default_rng(seed).permutation(n)[: self.n_choose]
        found = (
            self._race(search, base, calibration.y, own)
            if self.radius is None and self.k == "crps"
            else None
        )
        self.crps_by_k_, self.n_chose_ = ({}, 0) if found is None else (found.mean, found.n_rows)
        self.k_ = self._chosen(n) if found is None else found.largest_as_good
        self.n_eff_, self.reach_ = self._around_own(search, own[:ASKED])
        approximate = self.radius is None and self.eps > 0 and search.backend == "tree"
        self.recall_ = self._recall(search, own[:ASKED_TWICE]) if approximate else None

    def _after(self, base: Distribution, X: Any) -> Distribution:
        at, search = (
            self.space_.of(self.estimator_, X, base),
            NeighbourSearch(self.at_, eps=self.eps),
        )
        near, stack, empty, far, table = (
            self._nearness(),
            Stack(len(base)),
            0,
            0,
            ranked(self.pits_),
        )
        for rows in near.blocks(search, at):
            found = near.around(search, at[rows])
            empty += int(found.empty.sum()) if self.radius is not None else 0
            far += (
                int((self._apart(found, at[rows]) > FAR * self.reach_).sum()) if self.reach_ else 0
            )
            stack.add(self._map(found, at[rows], table))
        if empty:
            warnings.warn(
                f"{empty} of {len(base)} rows have no calibration row within"
                f" radius={self.radius:g}: the {self.k_min} nearest are taken",
                stacklevel=3,
            )
        if far:
            warnings.warn(
                f"{far} of {len(base)} rows are more than twice as far from their neighbours as any"
                " calibration row: what is said there is what holds at the edge of the calibration"
                " rows",
                stacklevel=3,
            )
        return Recalibrated(base, stack.whole())

    def _chosen(self, n: int) -> int | None:
        if self.radius is not None:
            return None
        k = n if self.k == "crps" else self.k
        if k > n:
            warnings.warn(
                f"k={k} neighbours were asked for, and there are {n} calibration rows: all are"
                " taken",
                stacklevel=4,
            )
        return min(k, n)

    def _around_own(
        self, search: NeighbourSearch, own: np.ndarray
    ) -> tuple[np.ndarray, float | None]:
        """Float[q] and the reach, of calibration rows, each left out of its own neighbourhood."""
        near, n_eff = self._of_others(len(search)), []
        reach = 0.0 if self.where != "geodesic" and len(own) >= FEWEST else None
        for rows in near.blocks(search, own):
            at = self.at_[own[rows]]
            found = near.around(search, at, own[rows])
            n_eff.append(found.n_eff)
            if reach is not None:
                reach = max(reach, float(self._apart(found, at).max()))
        return np.sort(np.concatenate(n_eff)), reach

    def _apart(self, near: Near, at: np.ndarray) -> np.ndarray:
        """Float[m], how far the k-th neighbour, with a radius the nearest row, is from each place;
        ours. Rows come by distance.
        """
        return np.linalg.norm(self.at_[near.rows[:, -1 if self.radius is None else 0]] - at, axis=1)

    def _recall(self, search: NeighbourSearch, own: np.ndarray) -> float:
        """As ``recall_``; what is as near as the last true neighbour is as good."""
        near, exact, shares = self._of_others(len(search)), NeighbourSearch(self.at_), []
        for rows in near.blocks(search, own):
            (found, _), (true, _) = (
                near.others(each, self.at_[own[rows]], own[rows]) for each in (search, exact)
            )
            shares.append((found <= true[:, -1:]).mean(axis=1))
        return float(np.concatenate(shares).mean())

    def _of_others(self, n: int) -> Nearness:
        """:meth:`_nearness`, where one of the n rows is left out."""
        return (
            self._nearness()
            if self.k_ is None
            else Nearness(min(self.k_, max(n - 1, 1)), None, self.kernel, self.scale)
        )

    def _nearness(self) -> Nearness:
        return Nearness(self.k_, self.radius, self.kernel, self.scale, self.k_min)

    def _map(self, near: Near, at: Any, table: tuple[np.ndarray, np.ndarray]) -> RowEcdf:
        if not self.degree:
            return RankedEcdf.of_ranks(*table, near.rows, near.weight)
        return ScoredEcdf.of(
            without_slopes(self.scores_, self.at_, near.rows, near.weight, at),
            near.weight,
            self.scale_,
        )

    def _race(
        self, search: NeighbourSearch, base: Distribution, y: np.ndarray, own: np.ndarray
    ) -> Race | None:
        """CRPS of calibration rows by their k nearest others, for each k; none where there are too
        few rows to choose.
        """
        candidates, table = _candidates(len(search) - 1), ranked(self.pits_)
        if not candidates:
            return None

        def scores(some: list[int], rows: slice) -> np.ndarray:
            of, found = own[rows], np.empty((len(some), len(own[rows])))
            for few in Nearness(k=some[-1]).blocks(search, of):
                at = self.at_[of[few]]
                for i, near in enumerate(self._of_each(some, search, at, of[few])):
                    found[i, few] = Recalibrated(base[of[few]], self._map(near, at, table)).crps(
                        y[of[few]]
                    )
            return found

        return race(candidates, scores, len(own), MOST_NEIGHBOURS)

    def _of_each(
        self, candidates: list[int], search: NeighbourSearch, at: Any, own: np.ndarray
    ) -> Iterator[Near]:
        """What is near for each k, from one search."""
        most = Nearness(candidates[-1], None, self.kernel, self.scale).others(search, at, own)
        yield from (
            Nearness(k, None, self.kernel, self.scale).of_neighbours(*most) for k in candidates
        )


def _candidates(n: int) -> list[int]:
    """From :data:`SMALLEST_K` to n, or to :data:`LARGEST_K`."""
    found = [round(SMALLEST_K * 2 ** (step / 2)) for step in range(40)]
    return [k for k in found if k <= min(n, LARGEST_K)]
