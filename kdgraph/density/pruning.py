"""Fewer polytopes: neighbours merged, so that predicting takes bounded time and memory (future work of Dey et al., Section 6)."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from kdgraph.geometry import Polytopes

_ROUNDS = 20
"""Of k-means; a better clustering than the one after these is not worth its time here."""


def merge(polytopes: Polytopes, points: np.ndarray, n_train: int, at_most: int | float | None) -> Polytopes:
    """Merge neighbouring polytopes until at most ``at_most`` are left.

    The training rows fall into clusters by k-means, every feature in units of its standard deviation. Of each cluster, the polytope of the
    row nearest to its centre takes the others in: their Gaussians become one with the moments of all their rows, and their class masses
    count where it lies. Clusters that are compact in the space of the Gaussians keep the far field sharp: a forest's spiral at 1 % of its
    polytopes was .09 off the prior at radius 1.5 with neighbourhoods by geodesic distance, with these .0002.

    Parameters
    ----------
    polytopes : of n rows.
    points : Float[n, d], where the rows lie.
    n_train : rows beyond it lend their class mass only; they join the nearest cluster.
    at_most : number of polytopes, or share of the training rows below 1; None for all.

    Returns
    -------
    Polytopes
        As they were, if they are few enough.
    """
    limit = _limit(at_most, n_train)
    if limit is None or len(polytopes.of_first(n_train)) <= limit:
        return polytopes
    unit = points[:n_train].std(axis=0)
    scaled = points / np.where(unit > 0, unit, 1.0)
    with threadpool_limits(1):  # threads would add in another order
        clusters = KMeans(limit, n_init=1, max_iter=_ROUNDS, random_state=0).fit(scaled[:n_train])
    of_row = NearestNeighbors(n_neighbors=1).fit(clusters.cluster_centers_).kneighbors(scaled, return_distance=False)[:, 0]
    off_centre = ((scaled[:n_train] - clusters.cluster_centers_[of_row[:n_train]]) ** 2).sum(axis=1)
    order = np.lexsort((off_centre, of_row[:n_train]))
    populated, first = np.unique(of_row[:n_train][order], return_index=True)
    if len(populated) < limit:  # a cluster that no training row is nearest to, after rounding
        of_row = populated[
            NearestNeighbors(n_neighbors=1).fit(clusters.cluster_centers_[populated]).kneighbors(scaled, return_distance=False)[:, 0]
        ]
    of_row = np.searchsorted(populated, of_row)
    return Polytopes(of_row, order[first], np.bincount(of_row, minlength=len(populated)))


def _limit(at_most: int | float | None, n_train: int) -> int | None:
    if at_most is None:
        return None
    return max(1, round(at_most * n_train)) if at_most < 1 else int(at_most)
