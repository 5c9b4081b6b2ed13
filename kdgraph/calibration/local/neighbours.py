"""Kernel averages over calibration rows in the same bin of confidence (Luo et al. 2022, Eq. 6).

Original to kdgraph around the equations of Luo et al.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kdgraph.features import FeatureMap
from kdgraph.geometry import Partition, partition_kind, partition_of
from kdgraph.metrics.reliability_bins import bin_edges, bin_of
from kdgraph.smoothing import LocalMeans, local_means, local_means_by_distance
from kdgraph.smoothing.kernel_means import DistanceFunction

LocalKernel = Literal["laplacian", "gaussian", "geodesic", "group"]
"""laplacian, gaussian: of distances in a feature map (:data:`kdgraph.smoothing.Kernel`). geodesic:
K^(1/γ), of the geodesic similarity K of the parent's own partition (Dey et al., Eq. 14 and 16; as a
kernel for LoRe original to kdgraph). group: 1 for rows of one group, 0 for others (Luo et al.,
Section 4).
"""
NO_GROUP = -1
"""Position of a group that is not among the calibration rows."""


@dataclass(frozen=True)
class Places:
    """Query rows of local calibration.

    Attributes
    ----------
    seen : Float[m, d] features, or codes of the parent's partition; Float[m, 0] for the kernel of
    groups.
    confidence : Float[m], of the parent.
    group : Int[m], positions among the groups of the calibration rows, or :data:`NO_GROUP`.
    own : Float[m], or Float[m, K], output of the parent, which is used without a calibration row.
    """

    seen: np.ndarray
    confidence: np.ndarray
    group: np.ndarray
    own: np.ndarray


@dataclass(frozen=True)
class Neighbours:
    """Calibration rows of local calibration (Luo et al., Eq. 6).

    Attributes
    ----------
    kernel : which rows are near.
    seen : Float[n, m] features, or codes of the parent's partition; Float[n, 0] for the kernel of
    groups.
    values : Float[n], or Float[n, K], what is averaged.
    confidence : Float[n], of the parent.
    weight : Float[n] of the rows.
    edges : Float[b + 1], of the bins of confidence.
    group : Int[n], positions among the known groups; all alike where the kernel is none of groups.
    n_groups : how many there are.
    """

    kernel: LocalKernel
    seen: np.ndarray
    values: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray
    edges: np.ndarray
    group: np.ndarray
    n_groups: int = 1

    def with_bins(self, bins: int) -> Neighbours:
        """Return the same rows in another number of bins of equal width.

        Notes
        -----
        Original to kdgraph.
        """
        return replace(self, edges=bin_edges(self.confidence, bins, "uniform"))

    def kernel_average(
        self,
        at: Places,
        bandwidths: Sequence[float],
        sight: Sight,
        *,
        leave_one_out: bool = False,
        n_jobs: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
        """Return the averages around m places at b bandwidths, with fallbacks.

        The results are the mean, Float[b, m] or Float[b, m, K]; n_eff, Float[b, m]; and the number
        of fallbacks at the last bandwidth. A place without a near row gets the mean of its bin
        (``bin``); if the bin is empty, the output of the parent (``confidence``). Its n_eff is 0.
        """
        averages = self.means(
            at, bandwidths, sight=sight, leave_one_out=leave_one_out, n_jobs=n_jobs
        )
        alone = np.isnan(averages.n_eff)
        in_bin = self.bin_means(at.confidence, leave_one_out=leave_one_out)
        empty = np.isnan(in_bin.reshape(len(in_bin), -1)).any(axis=1)
        fallback = np.where(_expand(empty, in_bin), at.own, in_bin)
        counts = {
            "bin": int((alone[-1] & ~empty).sum()),
            "confidence": int((alone[-1] & empty).sum()),
        }
        return (
            np.where(_expand(alone, averages.mean), fallback, averages.mean),
            np.where(alone, 0.0, averages.n_eff),
            counts,
        )

    def means(
        self,
        at: Places,
        bandwidths: Sequence[float],
        *,
        sight: Sight,
        leave_one_out: bool = False,
        n_jobs: int | None = None,
    ) -> LocalMeans:
        """Return the averages around m places at b bandwidths (Luo et al., Eq. 6).

        They are NaN where there is no row.
        """
        options: dict[str, Any] = {
            "within_at": self._cell(at.confidence, at.group),
            "within": self._cell(self.confidence, self.group),
            "weight": self.weight,
            "leave_one_out": leave_one_out,
        }
        if self.kernel == "laplacian" or self.kernel == "gaussian":
            return local_means(
                at.seen,
                self.seen,
                self.values,
                bandwidths,
                kernel=self.kernel,
                n_jobs=n_jobs,
                **options,
            )
        distance = (
            self._geodesic(at.seen, sight.partition)
            if self.kernel == "geodesic"
            else _zero_distance
        )
        return local_means_by_distance(
            distance, len(at.confidence), len(self.values), self.values, bandwidths, **options
        )

    def bin_means(self, confidence: np.ndarray, *, leave_one_out: bool = False) -> np.ndarray:
        """Return the mean over the bin of each confidence, Float[m] or Float[m, K].

        It is NaN where there are no rows.

        Notes
        -----
        Original to kdgraph.
        """
        # Sums by bin take O(n + m); the kernel averages of smoothing would take O(n m).
        index, rows = bin_of(self.confidence, self.edges), bin_of(confidence, self.edges)
        values = self.values.reshape(len(self.values), -1)
        total = np.bincount(index, self.weight, minlength=len(self.edges) - 1)[rows]
        summed = np.stack(
            [
                np.bincount(index, self.weight * column, minlength=len(self.edges) - 1)[rows]
                for column in values.T
            ],
            axis=1,
        )
        if leave_one_out:
            total, summed = total - self.weight, summed - self.weight[:, None] * values
        alone = total <= 0
        found = np.where(alone[:, None], np.nan, summed / np.where(alone, 1, total)[:, None])
        return found.reshape(len(rows), *self.values.shape[1:])

    def _cell(self, confidence: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return one integer for each pair of bin and group, Int[m]."""
        return bin_of(confidence, self.edges) * (self.n_groups + 1) + group + 1

    def _geodesic(self, seen: np.ndarray, partition: Partition) -> DistanceFunction:
        """Return the function -log K of the positions of places and rows."""

        def distance(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
            with np.errstate(divide="ignore"):
                return -np.log(np.minimum(partition.similarity(seen[places], self.seen[rows]), 1.0))

        return distance


def _expand(flags: Any, values: np.ndarray) -> np.ndarray:
    """Append axes to flags, so that they broadcast against values."""
    return flags.reshape(*flags.shape, *[1] * (values.ndim - flags.ndim))


def _zero_distance(places: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return distances of 0; only the cells of bin and group separate rows."""
    return np.zeros((len(places), len(rows)))


@dataclass(frozen=True)
class Sight:
    """View of rows through a fitted parent.

    Attributes
    ----------
    kernel : which rows are near.
    parent : the fitted parent.
    map_ : the fitted feature map; None where the kernel has no use for one.
    """

    kernel: LocalKernel
    parent: Any
    map_: FeatureMap | None = None

    def __call__(self, X: Any) -> np.ndarray:
        """Return features [n, m] or codes [n, …] of rows (Luo et al., Section 3.2).

        The kernel of groups has no features.
        """
        if self.kernel == "geodesic":
            return self.partition.encode(X)
        return np.zeros((len(X), 0)) if self.map_ is None else self.map_.transform(self.parent, X)

    @cached_property
    def partition(self) -> Partition:
        """Partition of the parent; of a network without the bits of its output.

        These bits would separate all rows with different predictions. Original to kdgraph for LoRe.
        """
        reading = {"output_bits": False} if partition_kind(self.parent) == "network" else {}
        return partition_of(self.parent, **reading)
