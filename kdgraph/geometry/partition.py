"""Partitions of a feature space into polytopes (Dey et al. 2024, Section 3.2).

A partition assigns a code to each row. Rows with equal codes lie in the same polytope: the geodesic
similarity K(r, s) of two codes is 1 where r = s (Eq. 14 and 16). This module defines what every
partition offers, whatever the kind of parent that it comes from: the protocols
:class:`Partition` and :class:`PolytopeIndex`, the rows located on a partition
(:class:`Locations`), the distinct polytopes among them (:class:`Polytopes`), and
:func:`map_blocks`, which distributes blocks of queries over workers. :func:`pack_bits` and
:func:`count_ones` are sets as bits. All of these are original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend
from numba import types
from numba.extending import intrinsic

# Tasks for each worker if workers share no memory. Each task carries the whole index, so that there
# are few of them, but enough to balance the load.
_TASKS_PER_WORKER = 4


@dataclass(frozen=True)
class Locations:
    """Positions of rows on a partition.

    Attributes
    ----------
    points : Float[n, d]
        Coordinates in the embedding space of the partition.
    codes : Int[n, …]
        Codes of the polytopes that contain the rows.
    proba : Float[n, K] or None, default=None
        Class probabilities of the parent, if they come with the codes at no cost. None if they are
        computed from the codes alone.

    Examples
    --------
    >>> locations = Locations(points=np.array([[0.1], [0.9]]), codes=np.array([[0], [1]]))
    >>> len(locations), locations[1:].codes.tolist()
    (2, [[1]])
    >>> len(locations + locations[:1])
    3
    """

    points: np.ndarray
    codes: np.ndarray
    proba: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index) -> Locations:
        return Locations(
            self.points[index], self.codes[index], None if self.proba is None else self.proba[index]
        )

    def __add__(self, other: Locations) -> Locations:
        """Return the rows of both, those of ``self`` first."""
        proba = (
            None
            if self.proba is None or other.proba is None
            else np.concatenate([self.proba, other.proba])
        )
        return Locations(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.codes, other.codes]),
            proba,
        )


@dataclass(frozen=True)
class Polytopes:
    """Assignment of rows to polytopes.

    Rows with equal codes, K(r, s) = 1, share a polytope. Polytopes are numbered by first
    appearance. After merging, rows with different codes may share one too.

    Attributes
    ----------
    polytope_of_row : Int[n]
        Number of the polytope of each row.
    representatives : Int[p]
        Index of the row that represents each polytope: its first row, unless polytopes were merged.
    sizes : Int[p]
        Number of rows in each polytope.

    Examples
    --------
    >>> polytopes = polytopes_of(np.array([[0, 2], [1, 2], [0, 2]]))
    >>> polytopes.polytope_of_row.tolist(), polytopes.sizes.tolist()
    ([0, 1, 0], [2, 1])
    >>> polytopes.sum_by_polytope(np.array([1.0, 2.0, 3.0])).tolist()
    [4.0, 2.0]
    """

    polytope_of_row: np.ndarray
    representatives: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def head(self, n: int) -> Polytopes:
        """Return the polytopes of the first ``n`` rows; they keep their numbers."""
        polytope_of_row = self.polytope_of_row[:n]
        sizes = np.bincount(polytope_of_row)
        return Polytopes(polytope_of_row, self.representatives[: len(sizes)], sizes)

    @property
    def singleton_fraction(self) -> float:
        """Fraction of polytopes that contain exactly one row."""
        return float(np.mean(self.sizes == 1))

    def sum_by_polytope(self, values: np.ndarray) -> np.ndarray:
        """Return sums of ``values``, Float[n, …], over the rows of each polytope, Float[p, …].

        They are added in row order.
        """
        total = np.zeros((len(self), *values.shape[1:]))
        np.add.at(total, self.polytope_of_row, values)
        return total


def polytopes_of(codes: np.ndarray) -> Polytopes:
    """Group equal rows of ``codes``, numbered by first appearance.

    Parameters
    ----------
    codes : Int[n, T]
        Codes of a partition.

    Examples
    --------
    >>> polytopes_of(np.array([[0, 2], [1, 2], [0, 2]])).representatives.tolist()
    [0, 1]
    """
    # Rows are compared by a 64-bit hash, and rows with equal hashes are then verified code by code:
    # sorting whole rows takes 16 times as long. Odd multipliers make each term of the hash
    # invertible modulo 2^64. The seed is fixed and the numbering follows first appearance, so that
    # the result is a function of the codes alone.
    multipliers = np.random.default_rng(0).integers(
        1, 2**63, size=codes.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    hashes = np.zeros(len(codes), dtype=np.uint64)
    for t in range(codes.shape[1]):
        hashes += codes[:, t].astype(np.uint64) * multipliers[t]
    polytopes = _number_by_first_appearance(
        *np.unique(hashes, return_index=True, return_inverse=True)[1:]
    )
    representative = polytopes.representatives[polytopes.polytope_of_row]
    other_rows = np.flatnonzero(representative != np.arange(len(codes)))
    has_collision = not np.array_equal(
        take_rows(codes, other_rows), take_rows(codes, representative[other_rows])
    )
    if has_collision:
        polytopes = _number_by_first_appearance(
            *np.unique(codes, axis=0, return_index=True, return_inverse=True)[1:]
        )
    return polytopes


def take_rows(codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return ``codes[rows]``, of shape [m, …], contiguous by column as ``encode`` returns codes.

    Examples
    --------
    >>> take_rows(np.array([[0, 2], [1, 2], [0, 3]]), np.array([2, 0])).tolist()
    [[0, 3], [0, 2]]
    """
    return codes.T[:, rows].T


def _number_by_first_appearance(first_row: np.ndarray, group: np.ndarray) -> Polytopes:
    """Renumber the groups that ``np.unique`` returns in the order of their first rows."""
    order = np.argsort(first_row)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    polytope_of_row = number[group.ravel()]
    return Polytopes(polytope_of_row, first_row[order], np.bincount(polytope_of_row))


class PolytopeIndex(Protocol):
    """Index of polytopes that computes class masses around queries and their nearest polytopes."""

    def query(self, codes: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the class masses around queries and their nearest polytopes.

        For codes Int[m, …] and ``exponents`` Float[k], the masses, Float[m, K, k], are Σ_s K(r,
        s)^exponent · (class weights of s) for each query r (Eq. 15). The nearest polytope is
        Int[m], -1 if the query shares nothing with any.
        """
        ...


class Partition(Protocol):
    """Partition of a feature space into polytopes.

    Codes have no meaning outside of the partition that made them. ``X`` is whatever the parent
    accepts: an array or a data frame.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from kdgraph.geometry import partition_of
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> partition = partition_of(DecisionTreeClassifier().fit(X, [0, 0, 1, 1]))
    >>> codes = partition.encode(X)
    >>> partition.similarity(codes[:1], codes).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """

    def embed(self, X: Any) -> np.ndarray:
        """Return the points, Float[n, d], between which distances in a polytope are measured."""
        ...

    def encode(self, X: Any) -> np.ndarray:
        """Return the code of each row's polytope, Int[n, …]."""
        ...

    def locate(self, X: Any, *, with_proba: bool = True) -> Locations:
        """Return points and codes together.

        Without ``with_proba`` nothing is predicted that only :meth:`parent_proba` needs.
        """
        ...

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the geodesic similarity K, Float[m, n], of all pairs of codes."""
        ...

    def paired_similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return K, Float[n], of each code in ``a`` and the code at the same position in ``b``."""
        ...

    def parent_proba(self, locations: Locations) -> np.ndarray:
        """Return the class probabilities of the parent, Float[n, K]."""
        ...

    def index(
        self,
        codes: np.ndarray,
        class_weights: np.ndarray,
        *,
        rows: np.ndarray | None = None,
        n_anchors: int | None = None,
    ) -> PolytopeIndex:
        """Return an index of polytopes.

        Parameters
        ----------
        codes : Int[n, …]
            Codes of rows.
        class_weights : Float[p, K]
            Class masses of the polytopes.
        rows : Int[p], default=None
            Rows of ``codes`` that represent the polytopes. None for all rows.
        n_anchors : int, default=None
            Only the first ``n_anchors`` polytopes can be the nearest one. None for all.
        """
        ...


def shares_memory() -> bool:
    """Return True if the workers of joblib are threads of this process, as they are by default.

    Inside ``joblib.parallel_config(backend=…)`` they may be other processes or a cluster.
    """
    backend, _ = get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


def map_blocks(
    compute: Callable[[Any], Any],
    rows: np.ndarray | Locations,
    blocks: Sequence[Any],
    n_jobs: int | None,
) -> Iterator[tuple[Any, Any]]:
    """Yield each block with ``compute(rows[block])``, in order.

    ``compute`` is a function of some rows alone, of an array [n, …] or Locations, and is pickled if
    workers share no memory. Blocks are slices or integer arrays. Inside
    ``joblib.parallel_config(backend=…)``, for instance on a cluster of Dask or Ray, the workers are
    those of that backend, otherwise ``n_jobs`` threads.
    """
    if shares_memory():
        results = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
            delayed(compute)(rows[block]) for block in blocks
        )
        yield from zip(blocks, results, strict=True)
        return
    # Every task sends ``compute`` with its index to a worker, so that blocks are grouped into a
    # few tasks. Each group takes every n_tasks-th block: neighbouring blocks cost alike, and their
    # cost may grow along the rows.
    n_tasks = min(len(blocks), _TASKS_PER_WORKER * effective_n_jobs(n_jobs))
    groups = [blocks[start::n_tasks] for start in range(n_tasks)]
    group_results = Parallel(n_jobs=n_jobs, prefer="threads")(
        delayed(_compute_parts)(compute, [rows[block] for block in group]) for group in groups
    )
    for group, results in zip(groups, group_results, strict=True):
        yield from zip(group, results, strict=True)


def _compute_parts(compute: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    return [compute(part) for part in parts]


def pack_bits(layers: Sequence[np.ndarray]) -> np.ndarray:
    """Pack bits, Bool[n, units] for each layer, into codes, UInt64[n, W].

    Low bits come first, and each layer starts at a new word.

    >>> pack_bits([np.array([[True, True, False]]), np.array([[False, True]])])
    array([[3, 2]], dtype=uint64)
    """
    words = []
    for bits in layers:
        octets = np.packbits(bits, axis=1, bitorder="little")
        padding = -octets.shape[1] % 8
        words.append(np.pad(octets, ((0, 0), (0, padding))).view("<u8"))
    return np.concatenate(words, axis=1)


def _ctpop(_, word):
    """Return the signature and code generator of LLVM's population count."""
    return types.int64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(
        arguments[0]
    )


# The number of ones in a UInt64. ``llvm.ctpop`` becomes one instruction for eight words where the
# processor has AVX-512's VPOPCNTDQ: 0.06 ns a word. Without it LLVM counts by shifts and table
# look-ups, with the same result, in a few times the time. NumPy's ``bitwise_count`` is not
# available in compiled code.
count_ones: Any = intrinsic(_ctpop)
