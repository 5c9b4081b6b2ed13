"""Polytopes: the distinct codes among some rows (Dey et al., Sections 4.3 and 4.4: K(r, s) = 1 where r = s, Eq. 14 and 16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Polytopes:
    """Which rows share a polytope (K(r, s) = 1, i.e. equal codes), numbered by first appearance; or which share one after merging.

    Attributes
    ----------
    of_row : Int[n], the polytope of each row.
    row : Int[p], the row that stands for each polytope: its first one, unless polytopes were merged.
    size : Int[p], rows in each polytope.
    """

    of_row: np.ndarray
    row: np.ndarray
    size: np.ndarray

    def __len__(self) -> int:
        return len(self.size)

    def of_first(self, n: int) -> Polytopes:
        """The polytopes of the first ``n`` rows alone; they keep their numbers."""
        of_row = self.of_row[:n]
        size = np.bincount(of_row)
        return Polytopes(of_row, self.row[: len(size)], size)

    @property
    def singleton_share(self) -> float:
        """The share of polytopes that hold one row."""
        return float(np.mean(self.size == 1))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Float[p, …]: sum of ``values`` (Float[n, …]) over the rows of each polytope, in row order."""
        total = np.zeros((len(self), *values.shape[1:]))
        np.add.at(total, self.of_row, values)
        return total


def polytopes_of(codes: np.ndarray) -> Polytopes:
    """Group equal rows of ``codes`` (Int[n, T]).

    Rows are compared by a 64-bit hash, and equal hashes are then verified code by code: sorting whole rows takes 16 times as long.
    """
    multipliers = np.random.default_rng(0).integers(1, 2**63, size=codes.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for t in range(codes.shape[1]):
        hashes += codes[:, t].astype(np.uint64) * multipliers[t]
    groups = _by_first_appearance(*np.unique(hashes, return_index=True, return_inverse=True)[1:])
    leader = groups.row[groups.of_row]
    followers = np.flatnonzero(leader != np.arange(len(codes)))
    if not np.array_equal(take_rows(codes, followers), take_rows(codes, leader[followers])):  # a hash collision
        groups = _by_first_appearance(*np.unique(codes, axis=0, return_index=True, return_inverse=True)[1:])
    return groups


def take_rows(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``codes[rows]``, column by column in memory as :meth:`ForestPartition.encode` gives them."""
    return codes.T[:, rows].T


def _by_first_appearance(first_row: np.ndarray, group: np.ndarray) -> Polytopes:
    order = np.argsort(first_row)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    of_row = number[group.ravel()]
    return Polytopes(of_row, first_row[order], np.bincount(of_row))
