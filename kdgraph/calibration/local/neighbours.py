"""Kernel averages over calibration rows in the same bin of confidence (Luo et al. 2022, Eq. 6).

:class:`FeatureView` computes the features in which the kernel measures distances,
:class:`QueryRows` are the rows of a prediction, and :class:`Neighbours` are the calibration rows
that are averaged around them. The cells of bins and groups, and the fallbacks for empty
neighbourhoods, are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from kdgraph.features import FeatureMap
from kdgraph.geometry import Partition, partition_kind, partition_of
from kdgraph.metrics.reliability_bins import Strategy, bin_edges, bin_of
from kdgraph.smoothing import LocalMeans, local_means, local_means_by_distance

LocalKernel = Literal["laplacian", "gaussian", "geodesic", "group"]
"""Kernel of local calibration.

- laplacian, gaussian: functions of distances in a feature map (:data:`kdgraph.smoothing.Kernel`).
- geodesic: K^(1/γ), where K is the geodesic similarity of the parent's own partition (Dey et al.,
  Eq. 14 and 16; as a kernel for LoRe original to kdgraph).
- group: 1 for rows of the same group, 0 for others (Luo et al., Section 4).
"""
NO_GROUP = -1
"""Position of a group that has no calibration row."""


@dataclass(frozen=True)
class QueryRows:
    """Rows around which calibration rows are averaged.

    ``features`` are Float[m, d], or codes of the parent's partition. ``group`` are positions among
    the groups of the calibration rows, or :data:`NO_GROUP`. ``parent_output``, [m] or [m, K], is
    used if the bin has no calibration row.
    """

    features: np.ndarray
    confidence: np.ndarray
    group: np.ndarray
    parent_output: np.ndarray


@dataclass(frozen=True)
class Neighbours:
    """Calibration rows whose values, [n] or [n, K], are averaged (Luo et al., Eq. 6).

    ``features`` are as in :class:`QueryRows`, ``edges`` those of the bins of confidence, Float[b +
    1], and ``group`` are positions, Int[n], all equal unless the kernel is "group".
    """

    kernel: LocalKernel
    features: np.ndarray
    values: np.ndarray
    confidence: np.ndarray
    weight: np.ndarray
    edges: np.ndarray
    group: np.ndarray
    n_groups: int = 1

    def with_bins(self, bins: int, strategy: Strategy = "uniform") -> Neighbours:
        """Return the same rows in another number of bins, of equal width or of equal mass.

        Bins of equal mass have equal numbers of these rows, whatever their weights.
        """
        return replace(self, edges=bin_edges(self.confidence, bins, strategy))

    def kernel_average(
        self,
        query: QueryRows,
        bandwidths: Sequence[float],
        view: FeatureView,
        *,
        leave_one_out: bool = False,
        n_jobs: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
        """Return the averages around m query rows at b bandwidths, with fallbacks.

        They are the averages, [b, m] or [b, m, K]; the effective numbers of neighbours, Float[b,
        m], 0 without any; and the number of query rows at the last bandwidth that have the mean of
        their bin ("bin"), and, where the bin is empty, the output of the parent ("confidence"),
        because they have no neighbour. With ``leave_one_out`` the query rows are the calibration
        rows, and none is its own neighbour.
        """
        averages = self.means(
            query, bandwidths, view=view, leave_one_out=leave_one_out, n_jobs=n_jobs
        )
        # A mean is undefined where no row shares the cell, or where all distances are infinite.
        isolated = np.isnan(averages.n_eff)
        bin_mean = self.bin_means(query.confidence, leave_one_out=leave_one_out)
        in_empty_bin = np.isnan(bin_mean.reshape(len(bin_mean), -1)).any(axis=1)
        fallback = np.where(_expand(in_empty_bin, bin_mean), query.parent_output, bin_mean)
        counts = {
            "bin": int((isolated[-1] & ~in_empty_bin).sum()),
            "confidence": int((isolated[-1] & in_empty_bin).sum()),
        }
        return (
            np.where(_expand(isolated, averages.mean), fallback, averages.mean),
            np.where(isolated, 0.0, averages.n_eff),
            counts,
        )

    def means(
        self,
        query: QueryRows,
        bandwidths: Sequence[float],
        *,
        view: FeatureView,
        leave_one_out: bool = False,
        n_jobs: int | None = None,
    ) -> LocalMeans:
        """Return the averages around m query rows (Luo et al., Eq. 6); NaN without neighbour."""
        # Only rows of one cell, a pair of bin and group, are averaged. The kernel "group" is
        # constant within a cell, so its distances are 0.
        options: dict[str, Any] = {
            "within_at": self._cells(query.confidence, query.group),
            "within": self._cells(self.confidence, self.group),
            "weight": self.weight,
            "leave_one_out": leave_one_out,
        }
        if self.kernel in ("laplacian", "gaussian"):
            return local_means(
                query.features,
                self.features,
                self.values,
                bandwidths,
                kernel=self.kernel,
                n_jobs=n_jobs,
                **options,
            )

        def distance(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
            if self.kernel == "group":
                return np.zeros((len(queries), len(rows)))
            # The Laplacian kernel exp(-distance/γ) of this distance, -log K, is K^(1/γ).
            codes = query.features[queries], self.features[rows]
            with np.errstate(divide="ignore"):
                return -np.log(np.minimum(view.partition.similarity(*codes), 1.0))

        return local_means_by_distance(
            distance, len(query.confidence), len(self.values), self.values, bandwidths, **options
        )

    def bin_means(self, confidence: np.ndarray, *, leave_one_out: bool = False) -> np.ndarray:
        """Return the mean value over the bin of each confidence, [m] or [m, K], or NaN."""
        # Sums by bin take O(n + m); the kernel averages of smoothing would take O(n m).
        own_bin, query_bin = bin_of(self.confidence, self.edges), bin_of(confidence, self.edges)
        n_bins = len(self.edges) - 1
        values = self.values.reshape(len(self.values), -1)
        total = np.bincount(own_bin, self.weight, minlength=n_bins)[query_bin]
        weighted_sum = np.stack(
            [
                np.bincount(own_bin, self.weight * column, minlength=n_bins)[query_bin]
                for column in values.T
            ],
            axis=1,
        )
        if leave_one_out:
            total, weighted_sum = total - self.weight, weighted_sum - self.weight[:, None] * values
        is_empty = total <= 0
        mean = np.where(
            is_empty[:, None], np.nan, weighted_sum / np.where(is_empty, 1, total)[:, None]
        )
        return mean.reshape(len(query_bin), *self.values.shape[1:])

    def _cells(self, confidence: np.ndarray, group: np.ndarray) -> np.ndarray:
        # Groups count from NO_GROUP = -1, so a bin has n_groups + 1 cells. No calibration row is in
        # the cell of NO_GROUP, so a query row of an unknown group has no neighbour.
        return bin_of(confidence, self.edges) * (self.n_groups + 1) + group + 1


def _expand(flags: Any, values: np.ndarray) -> np.ndarray:
    # Axes are appended, so that flags broadcast against values.
    return flags.reshape(*flags.shape, *[1] * (values.ndim - flags.ndim))


@dataclass(frozen=True)
class FeatureView:
    """View of rows through a fitted parent: features, or codes of its partition for "geodesic"."""

    kernel: LocalKernel
    parent: Any
    map_: FeatureMap | None = None

    def __call__(self, X: Any) -> np.ndarray:
        if self.kernel == "geodesic":
            return self.partition.encode(X)
        return np.zeros((len(X), 0)) if self.map_ is None else self.map_.transform(self.parent, X)

    @cached_property
    def partition(self) -> Partition:
        """Partition of the parent; for a network without the bits of its output.

        Rows with different predictions would differ in these bits. Original to kdgraph for LoRe.
        """
        options = {"output_bits": False} if partition_kind(self.parent) == "network" else {}
        return partition_of(self.parent, **options)
