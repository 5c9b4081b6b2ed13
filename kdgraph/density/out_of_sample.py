"""Rows that are each predicted without themselves, which fit a kernel density graph.

Parameters and floor of a graph need rows that it was not fitted on. There are three sources of
them, each with the graph whose class masses it can take without a row:

- :class:`HeldOutRows`: rows that the parent was not fitted on. They count as well, so that each is
  predicted without its own class;
- :class:`OutOfBagRows`: the rows that a bagged forest was fitted on. A training row counts only in
  the trees that it is out of bag in, and two training rows are compared in the trees that both are
  out of bag in (:class:`~kdgraph.geometry.leaf_index.OutOfBagIndex`). So neither label has shaped
  a leaf that the pair is compared in;
- :class:`FoldRows`: the rows behind any other parent. Each fold is predicted by the graph of a
  parent that was fitted on the other folds.

:func:`fit_graph` fits the posterior to any of them. Original to kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from kdgraph.base import Rows
from kdgraph.base.rows import unseen_rows
from kdgraph.density.graph import (
    GraphLimits,
    KernelDensityGraph,
    MaxPolytopes,
    OutOfBagCounts,
    PolytopeCounts,
    PolytopeDistance,
    draw_rows,
)
from kdgraph.density.posterior import PosteriorParameters, QueryPosterior, fit_posterior, mean_nll
from kdgraph.geometry import Locations, Partition, forest_partition_of, polytopes_of

# Training rows that choose the parameters, every s-th one, and held-out rows by which the number of
# counted rows is judged. The standard error of their mean NLL is then below .01 nats, and that of
# differences between candidates about .0005.
_MAX_SEARCH_ROWS = 5_000
MAX_CLASS_ROWS = 32_768
"""Number of counted rows up to which an "auto" limit is raised where that pays."""
MAX_NLL_LOSS = 0.001
"""Nats of mean NLL that rows which are not counted may cost, as twice as many rows, of which an
"auto" limit is raised to those that lower it by more, or as those that a limit is lowered by.
"""
MIN_LOWERED_ROWS, LEAST_CLASS_ROWS = 16_384, 2_048
"""Numbers of counted rows from and down to which an "auto" limit is lowered. With fewer rows a fit
would take longer by half for a prediction that is faster by a tenth.
"""


class MassSource(Protocol):
    """Rows (m of them) that are each predicted without themselves."""

    rows: Rows
    parent_proba: np.ndarray
    """Float[m, K], of a parent that was not fitted on each row."""
    n_train: int
    """Number of training rows n of Eq. 15."""
    n_countable: int
    """Number of rows whose classes can be counted."""
    averages: bool
    """True if the posterior is an average over the grid of its parameters."""

    def masses_at(
        self, graph: KernelDensityGraph, exponents: np.ndarray
    ) -> Callable[[slice], np.ndarray]:
        """Return a function of a slice of the rows that returns class masses, Float[c, K, k]."""
        ...

    def with_class_rows(
        self, graph: KernelDensityGraph, class_rows: np.ndarray
    ) -> KernelDensityGraph:
        """Return the graph that counts the classes of other rows, Int[l], increasing."""
        ...

    def floor_log_density(self, graph: KernelDensityGraph) -> np.ndarray:
        """Return log densities without each row, Float[r], to which the floor is fitted."""
        ...


def fit_graph(
    graph: KernelDensityGraph,
    source: MassSource,
    prior: np.ndarray,
    parameters: PosteriorParameters,
    *,
    raises: bool,
) -> tuple[KernelDensityGraph, QueryPosterior]:
    """Fit the posterior, and choose the number of rows whose classes are counted.

    ``graph`` has the counted rows of :func:`~kdgraph.density.graph.choose_class_rows`; with
    ``raises`` more or fewer of them may be counted. They are doubled, up to :data:`MAX_CLASS_ROWS`,
    while that lowers the NLL by more than :data:`MAX_NLL_LOSS`, and otherwise halved, down to
    :data:`LEAST_CLASS_ROWS`, while all that are left out cost no more than that. More rows are
    tried with the same parameters of the posterior, fewer with parameters that are fitted to them.

    How many rows the error needs depends on the table: on simulated ones 2,048 or 4,096 cost .001
    of NLL, but on electricity prices with 31,718 rows half of the rows cost .003.
    """
    judged = slice(None, None, max(1, len(source.rows) // _MAX_SEARCH_ROWS))
    fit = partial(
        fit_posterior,
        parent_proba=source.parent_proba,
        rows=source.rows,
        prior=prior,
        parameters=parameters,
        n_rows=source.n_train,
        average=source.averages,
    )
    posterior = fit(partial(source.masses_at, graph))
    if not raises or graph.counts is None or graph.distance == "geodesic":
        return graph, posterior
    class_rows = graph.counts.class_rows
    n_first = source.n_countable if class_rows is None else len(class_rows)

    def count(n: int) -> KernelDensityGraph:
        return source.with_class_rows(graph, draw_rows(source.n_countable, n))

    def nll(graph: KernelDensityGraph, posterior: QueryPosterior) -> float:
        masses = source.masses_at(graph, posterior.exponents)(judged)
        return mean_nll(posterior.mix(masses, source.parent_proba[judged]), source.rows[judged])

    # The posterior is fitted again only where it pays, because the fit takes most of the time.
    n, most, found = n_first, min(source.n_countable, MAX_CLASS_ROWS), graph
    while n < most:
        n = min(2 * n, most)
        larger = count(n)
        if nll(larger, posterior) >= nll(found, posterior) - MAX_NLL_LOSS:
            break
        found, posterior = larger, fit(partial(source.masses_at, larger))
    can_lower = found is graph and MIN_LOWERED_ROWS <= n_first <= MAX_CLASS_ROWS
    if not can_lower or forest_partition_of(graph.partition) is None:
        return found, posterior
    allowed, n = nll(graph, posterior) + MAX_NLL_LOSS, n_first // 2
    while n >= LEAST_CLASS_ROWS and (smaller := count(n)) is not graph:
        other = fit(partial(source.masses_at, smaller))
        if nll(smaller, other) > allowed:
            break
        found, posterior, n = smaller, other, n // 2
    return found, posterior


class HeldOutRows(MassSource):
    """Held-out rows, which are predicted without their own class.

    They add their class masses to those of the training rows, because the parent's leaves do not
    fit their labels. They have no Gaussians, so that the floor is fitted to rows that the density
    does not depend on.

    ``locations`` are those of the n training rows and of the m held-out rows after them, and
    ``labels``, Float[n + m, K], their weights in the columns of their classes.
    """

    averages = False

    def __init__(self, partition: Partition, locations: Locations, labels: np.ndarray, rows: Rows):
        self.rows, self._labels, self._codes = rows, labels, locations.codes
        self.n_countable, self.n_train = len(labels), len(labels) - len(rows)
        self._own_locations = locations[self.n_train :]
        self.parent_proba = partition.parent_proba(self._own_locations)

    @classmethod
    def with_graph(
        cls,
        partition: Partition,
        train: Rows,
        held_out: Rows,
        n_classes: int,
        distance: PolytopeDistance,
        max_polytopes: MaxPolytopes,
    ) -> tuple[KernelDensityGraph, HeldOutRows]:
        """Return the graph of all rows, and the held-out rows that fit it."""
        locations = partition.locate(train.X) + partition.locate(held_out.X)
        labels = np.concatenate([rows.one_hot(n_classes) for rows in (train, held_out)])
        graph = KernelDensityGraph(
            partition,
            locations,
            labels,
            n_train=len(train),
            distance=distance,
            limits=GraphLimits.of(max_polytopes),
            held_out=locations[len(train) :].points,
        )
        return graph, cls(partition, locations, labels, held_out)

    def masses_at(
        self, graph: KernelDensityGraph, exponents: np.ndarray
    ) -> Callable[[slice], np.ndarray]:
        counts = graph.counts
        assert isinstance(counts, PolytopeCounts)

        def masses(chunk: slice) -> np.ndarray:
            positions = range(self.n_train, self.n_countable)[chunk]
            own_rows = slice(positions.start, positions.stop, positions.step)
            own = counts.own_similarity(own_rows)[:, None] ** exponents
            found, _ = counts.query(self._codes[own_rows], exponents, with_nearest=False)
            # Rounding may leave a negative mass where a row's own mass is all of it.
            return np.maximum(found - self._labels[own_rows, :, None] * own[:, None, :], 0)

        return masses

    def with_class_rows(
        self, graph: KernelDensityGraph, class_rows: np.ndarray
    ) -> KernelDensityGraph:
        polytopes = polytopes_of(self._codes)
        return graph.with_counts(
            PolytopeCounts(
                graph.partition,
                self._codes,
                self._labels,
                polytopes,
                0,
                class_rows,
                approximates=True,
            )
        )

    def floor_log_density(self, graph: KernelDensityGraph) -> np.ndarray:
        """Return log densities at the held-out rows, Float[m]."""
        return graph.query(self._own_locations, np.empty(0)).log_density


class OutOfBagRows(MassSource):
    """Rows of a bagged forest, which are predicted by the trees that they are out of bag in.

    ``rows`` are m of those that the forest was fitted on, with out-of-bag outputs, of which
    ``parent_proba``, Float[m, K], are the probabilities, and ``codes``, Int[m, T], their leaves.
    """

    averages = True

    def __init__(
        self,
        partition: Partition,
        rows: Rows,
        parent_proba: np.ndarray,
        codes: np.ndarray | None = None,
    ):
        unseen = unseen_rows(rows)
        self.rows, self.parent_proba = rows, parent_proba
        self._positions, self._is_out = unseen.positions, unseen.source.is_out
        self.n_train = self.n_countable = len(self._is_out)
        self._codes = partition.encode(rows.X) if codes is None else codes
        self._count: Callable[[np.ndarray | None], OutOfBagCounts] | None = None

    @classmethod
    def with_graph(
        cls,
        partition: Partition,
        train: Rows,
        calibration: Rows,
        parent_proba: np.ndarray,
        distance: PolytopeDistance,
        max_polytopes: MaxPolytopes,
    ) -> tuple[KernelDensityGraph, OutOfBagRows]:
        """Return the graph of all rows, and those of the calibration rows that fit it.

        ``parent_proba``: Float[c, K], of the calibration rows.
        """
        locations, unseen = partition.locate(train.X), unseen_rows(calibration)
        limits, is_out = GraphLimits.of(max_polytopes, by_row=True), unseen.source.is_out
        graph = KernelDensityGraph(
            partition,
            locations,
            distance=distance,
            limits=limits,
            leave_one_out=True,
        )
        some, some_proba = search_rows(calibration, parent_proba)
        codes = locations.codes[unseen_rows(some).positions]
        rows = cls(partition, some, some_proba, codes)
        rows._count = partial(
            OutOfBagCounts,
            partition,
            locations.codes,
            train,
            is_out,
            parent_proba.shape[1],
            graph.polytopes.polytope_of_row,
        )
        class_rows = limits.choose_class_rows(partition, locations.codes, is_out)
        return graph.with_counts(rows._count(class_rows)), rows

    def masses_at(
        self, graph: KernelDensityGraph, exponents: np.ndarray
    ) -> Callable[[slice], np.ndarray]:
        counts = graph.counts
        assert isinstance(counts, OutOfBagCounts)

        def masses(chunk: slice) -> np.ndarray:
            rows, codes = self._positions[chunk], self._codes[chunk]
            return counts.query_training(codes, self._is_out[rows], rows, exponents)

        return masses

    def with_class_rows(
        self, graph: KernelDensityGraph, class_rows: np.ndarray
    ) -> KernelDensityGraph:
        assert self._count is not None
        return graph.with_counts(self._count(class_rows))

    def floor_log_density(self, graph: KernelDensityGraph) -> np.ndarray:
        """Return log densities of training rows, each without itself, Float[r]."""
        return graph.floor_log_density

    def log_density(self, graph: KernelDensityGraph) -> np.ndarray:
        """Return the log densities of the rows, each without itself, Float[m]."""
        return graph.left_out_log_density(self._positions)


class FoldRows(MassSource):
    """Rows that are predicted by the graphs of the parents of their folds.

    The graphs are those of :func:`fold_graphs`; ``parent_proba``, Float[m, K], are the outputs of
    the parents of the folds for m rows.
    """

    averages = True

    def __init__(self, graphs: Sequence[KernelDensityGraph], rows: Rows, parent_proba: np.ndarray):
        unseen = unseen_rows(rows)
        self.rows, self.parent_proba, self._graphs = rows, parent_proba, graphs
        self._fold = unseen.source.fold[unseen.positions]
        self.n_train = self.n_countable = len(unseen.source.fold)
        self._log_density = np.empty(len(rows))

    def masses_at(
        self, graph: KernelDensityGraph, exponents: np.ndarray
    ) -> Callable[[slice], np.ndarray]:
        # The factor k of the exponent k·log n is shared, not the exponent: a fold has fewer rows.
        factors = exponents / math.log(self.n_train)
        masses = np.empty((*self.parent_proba.shape, len(exponents)))
        for f, of_fold in enumerate(self._graphs):
            members = np.flatnonzero(self._fold == f)
            if not len(members):
                continue
            log_n = math.log(len(of_fold.polytopes.polytope_of_row))
            locations = of_fold.partition.locate(self.rows[members].X)
            result = of_fold.query(locations, factors * log_n)
            masses[members] = result.masses
            self._log_density[members] = result.log_density + of_fold.log_unit_volume
        return lambda chunk: masses[chunk]

    def with_class_rows(
        self, graph: KernelDensityGraph, class_rows: np.ndarray
    ) -> KernelDensityGraph:
        """Return the graph unchanged: masses are those of the graphs of the folds."""
        return graph

    def floor_log_density(self, graph: KernelDensityGraph) -> np.ndarray:
        """Return the log densities of the rows after :meth:`masses_at`, Float[m]."""
        # Parents of two folds may embed rows in different units, so that log densities are compared
        # per unit of the spacing of their graph.
        return self._log_density - graph.log_unit_volume

    log_density = floor_log_density


def search_rows(rows: Rows, parent_proba: np.ndarray) -> tuple[Rows, np.ndarray]:
    """Return every s-th of many rows, with their probabilities Float[m, K], for the fit."""
    step = max(1, len(rows) // _MAX_SEARCH_ROWS)
    return rows[::step], parent_proba[::step]


def fold_graphs(
    make_graph: Callable[[Any, Rows], KernelDensityGraph], train: Rows, source: Any, key: Hashable
) -> list[KernelDensityGraph]:
    """Return the graph of the parent of each fold, of the rows outside of the fold.

    ``source``, the :class:`~kdgraph.base.rows.CrossFittedOutputs`, keeps the graphs, so
    that several fits with equal options (``key``) share them.
    """
    if ("graphs", key) not in source.memo:
        source.memo["graphs", key] = [
            make_graph(parent, train[source.fold != f])
            for f, parent in enumerate(source.fold_estimators)
        ]
    return source.memo["graphs", key]
