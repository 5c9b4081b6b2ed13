"""Kernel density graphs that no row is held out for.

The parent is fitted on all rows, all rows populate the polytopes, and the parameters of the
posterior are chosen on outputs that were computed without each row:

- :func:`fit_out_of_bag`, behind a bagged forest. A training row lends its class only in the trees
  that it is out of bag in, and the training rows of the search are compared in the trees that both
  are out of bag in (:class:`~kdgraph.geometry.out_of_bag.OutOfBagIndex`). So neither label has
  shaped a leaf that the pair is compared in.
- :func:`fit_cross_fitted`, behind any other parent: each fold is evaluated by the graph of a parent
  that was fitted on the other folds.

The density floor comes from the log density of each row without the row itself. Original to
kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from kdgraph.base import Rows
from kdgraph.base.out_of_sample import UnseenRows, unseen_rows
from kdgraph.density.averaging import EXPONENT_STEP, AveragedPosterior, average_posteriors
from kdgraph.density.gaussians import shrunk_variances
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.density.limits import NO_LIMITS, GraphLimits, raise_lenders
from kdgraph.density.posterior import QueryPosterior, mean_nll, search_query_posterior
from kdgraph.density.variants import FittedVariant, KernelDensityOptions, exponents_to_try
from kdgraph.geometry import Locations, Partition
from kdgraph.geometry.kinds import forest_partition_of
from kdgraph.geometry.out_of_bag import IN_BAG, OutOfBagIndex
from kdgraph.geometry.partition import take_rows

# Rows that choose the parameters, every s-th one. The standard error of their mean NLL is then
# below .01 nats, and that of differences between candidates far less.
_MAX_SEARCH_ROWS = 5_000


class OutOfBagGraph(KernelDensityGraph):
    """Kernel density graph of a bagged forest whose rows lend their classes out of bag.

    Polytopes and Gaussians are those of :class:`~kdgraph.density.graph.KernelDensityGraph`. Class
    masses are sums over rows, by :class:`~kdgraph.geometry.out_of_bag.OutOfBagIndex`.

    Parameters
    ----------
    partition : Partition
        Partition of the forest, also behind transformers.
    locations : Locations
        Positions of the n rows that the forest was fitted on.
    rows : Rows
        These rows, with classes and weights.
    is_out : Bool[n, T]
        True where a row is out of bag in a tree.
    n_classes : int
        Number of classes K.
    limits : GraphLimits, default=NO_LIMITS
        Maximum numbers of Gaussians and of rows that lend their classes.
    **options
        Options of :class:`~kdgraph.density.graph.KernelDensityGraph`.

    Attributes
    ----------
    lenders : Int[l]
        Positions of the rows that lend their classes, increasing.
    """

    def __init__(
        self,
        partition: Partition,
        locations: Locations,
        rows: Rows,
        is_out: np.ndarray,
        n_classes: int,
        *,
        limits: GraphLimits = NO_LIMITS,
        **options: Any,
    ):
        super().__init__(partition, locations, None, shrunk_variances, limits=limits, **options)
        self._n_classes = n_classes
        lenders = limits.choose_lenders(partition, locations.codes, is_out)
        self._count_rows(
            np.arange(len(rows)) if lenders is None else lenders, locations, rows, is_out
        )

    def _count_rows(
        self, lenders: np.ndarray, locations: Locations, rows: Rows, is_out: np.ndarray
    ) -> None:
        """Count the classes of the lenders."""
        self.lenders, lending = lenders, rows[lenders]
        self._classes, self._weights = lending.y, lending.weight
        # Only leaves that a lender is out of bag in are needed from here on.
        self._codes = np.where(is_out[lenders], take_rows(locations.codes, lenders), IN_BAG)

    def with_other_lenders(
        self, lenders: np.ndarray, locations: Locations, rows: Rows, is_out: np.ndarray
    ) -> OutOfBagGraph:
        """Return the graph with other rows that lend their classes.

        Parameters
        ----------
        lenders : Int[l]
            Positions of the rows, increasing.
        locations, rows, is_out
            The rows of this graph.
        """
        graph = copy(self)  # without the index, as in a pickle
        graph._count_rows(lenders, locations, rows, is_out)
        return graph

    def _make_index(self) -> OutOfBagIndex:
        forest = forest_partition_of(self.partition)
        if forest is None:
            raise TypeError("an out-of-bag graph needs the partition of a forest")
        return OutOfBagIndex(
            self._codes,
            self._classes,
            self._weights,
            self._n_classes,
            forest.leaf_starts,
            n_jobs=forest.n_jobs,
        )

    def query_codes(
        self, codes: np.ndarray, exponents: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return class masses (Float[n, K, k]) around new codes, and their nearest polytopes.

        There are no nearest polytopes unless the distance is "geodesic".
        """
        index = self._index
        assert isinstance(index, OutOfBagIndex)
        masses, lender = index.query(codes, exponents, with_nearest=self.distance == "geodesic")
        # The index lists lenders; the nearest polytope is that of the nearest lender.
        polytope = self.polytopes.polytope_of_row[self.lenders[np.maximum(lender, 0)]]
        return masses, np.where(lender >= 0, polytope, -1)

    def query_training(
        self, codes: np.ndarray, is_out: np.ndarray, rows: np.ndarray, exponents: np.ndarray
    ) -> np.ndarray:
        """Return the class masses around training rows, without their own.

        Parameters
        ----------
        codes : Int[m, T]
            Codes of the rows.
        is_out : Bool[n, T]
            True where a training row is out of bag in a tree.
        rows : Int[m]
            Positions of the rows among all training rows.
        exponents : Float[k]
            Powers of the similarity.

        Returns
        -------
        Float[m, K, k]
            Class masses.
        """
        index = self._index
        assert isinstance(index, OutOfBagIndex)
        number = np.minimum(np.searchsorted(self.lenders, rows), len(self.lenders) - 1)
        number[self.lenders[number] != rows] = -1
        return index.query_training(np.where(is_out[rows], codes, IN_BAG), number, exponents)


def choose_posterior(
    masses_at: Callable[[np.ndarray], Callable[[slice], np.ndarray]],
    vote: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    exponents: np.ndarray,
    options: KernelDensityOptions,
) -> QueryPosterior | AveragedPosterior:
    """Return the average of posteriors over the grid, or for another criterion the best of them.

    Parameters
    ----------
    masses_at : callable
        Function of exponents that returns a function of a slice of the rows, which returns the
        class masses Float[c, K, k], without the mass of each row itself.
    vote : Float[m, K]
        Class probabilities of the parent, which was not fitted on the rows.
    rows : Rows
        The rows, m of them.
    prior : Float[K]
        Class prior.
    exponents : Float[k]
        Exponents to try.
    options : KernelDensityOptions
        Options of the variant.
    """
    search_options = options.search_options()
    if options.criterion != "nll":
        return search_query_posterior(
            masses_at(exponents), vote, rows, prior, exponents=exponents, **search_options
        )
    exponents = exponents[::EXPONENT_STEP]
    del search_options["criterion"]
    return average_posteriors(
        masses_at(exponents),
        vote,
        rows,
        prior,
        exponents=exponents,
        scaling_share=options.scaling_share,
        isotonic_share=options.isotonic_share,
        random_state=0,
        **search_options,
    )


def fit_out_of_bag(
    partition: Partition,
    train: Rows,
    calibration: Rows,
    vote: np.ndarray,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit graph, posterior and densities behind a bagged forest, on all of its rows.

    Parameters
    ----------
    partition : Partition
        Partition of the forest.
    train : Rows
        All n rows that the forest was fitted on.
    calibration : Rows
        Those of them that choose the parameters, with out-of-bag outputs.
    vote : Float[m, K]
        Out-of-bag votes of the calibration rows.
    prior : Float[K]
        Class fractions.
    options : KernelDensityOptions
        Options of the variant.

    Returns
    -------
    FittedVariant
        Graph, posterior, and leave-one-out log densities for the floor.
    """
    locations, unseen = partition.locate(train.X), unseen_rows(calibration)
    graph = OutOfBagGraph(
        partition,
        locations,
        train,
        unseen.source.is_out,
        len(prior),
        distance=options.distance or "scaled",
        limits=GraphLimits.of(options.max_polytopes, by_row=True),
        leave_one_out=True,
    )
    step = max(1, len(calibration) // _MAX_SEARCH_ROWS)
    rows, positions, is_out = calibration[::step], unseen.positions[::step], unseen.source.is_out
    codes, votes = locations.codes[positions], vote[::step]

    def masses_of(graph: OutOfBagGraph, exponents: np.ndarray, chunk: slice) -> np.ndarray:
        return graph.query_training(codes[chunk], is_out, positions[chunk], exponents)

    def search(graph: OutOfBagGraph) -> QueryPosterior | AveragedPosterior:
        exponents = exponents_to_try(options, len(train))
        return choose_posterior(
            lambda exponents: partial(masses_of, graph, exponents),
            votes,
            rows,
            prior,
            exponents,
            options,
        )

    def nll(graph: OutOfBagGraph, posterior: QueryPosterior | AveragedPosterior) -> float:
        masses = masses_of(graph, posterior.exponents, slice(None))
        return mean_nll(posterior.mix(masses, votes), rows)

    if options.max_polytopes == "auto":
        graph, posterior = raise_lenders(
            graph,
            len(train),
            search=search,
            nll=nll,
            with_lenders=lambda lenders: graph.with_other_lenders(
                lenders, locations, train, is_out
            ),
        )
    else:
        posterior = search(graph)
    return FittedVariant(graph, posterior, graph.floor_log_density)


def out_of_bag_posterior(
    graph: OutOfBagGraph,
    posterior: QueryPosterior | AveragedPosterior,
    rows: Rows,
    vote: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior and log density of training rows, computed without each row.

    Parameters
    ----------
    graph : OutOfBagGraph
        Graph of the training rows.
    posterior : QueryPosterior
        Posterior.
    rows : Rows
        Some of the training rows, with out-of-bag outputs.
    vote : Float[m, K]
        Their out-of-bag votes.

    Returns
    -------
    posterior : Float[m, K]
        Class probabilities inside the training distribution.
    log_density : Float[m]
        Log densities.
    """
    unseen = unseen_rows(rows)
    positions, codes = unseen.positions, graph.partition.encode(rows.X)
    masses = graph.query_training(codes, unseen.source.is_out, positions, posterior.exponents)
    return posterior.mix(masses, vote), graph.left_out_log_density(positions)


class FoldGraphs:
    """Graphs of the parents of a cross-validation, each of the rows outside of its fold.

    Parameters
    ----------
    partition_of_fold : callable
        Function of the parent of a fold that returns its partition.
    train : Rows
        All n rows.
    unseen : UnseenRows
        Rows with the parents of all folds as source of their outputs.
    n_classes : int
        Number of classes K.
    options : KernelDensityOptions
        Options of the variant.
    key : hashable
        Options of the partition. Graphs are kept with the parents of the folds, so that several
        fits with equal options share them.
    """

    def __init__(
        self,
        partition_of_fold: Callable[[Any], Partition],
        train: Rows,
        unseen: UnseenRows,
        n_classes: int,
        options: KernelDensityOptions,
        key: Hashable = None,
    ):
        self._fold = unseen.source.fold
        self._n_classes = n_classes
        memo_key = ("graphs", options.distance, options.max_polytopes, n_classes, key)
        if memo_key not in unseen.source.memo:
            unseen.source.memo[memo_key] = [
                _graph_of(partition_of_fold(parent), train[self._fold != f], n_classes, options)
                for f, parent in enumerate(unseen.source.fold_estimators)
            ]
        self._graphs: list[KernelDensityGraph] = unseen.source.memo[memo_key]

    def query(self, rows: Rows, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return class masses and log densities of rows by the graphs of their folds.

        Parameters
        ----------
        rows : Rows
            Some of the rows, m of them.
        factors : Float[k]
            Factors of log n in the exponent; n is the number of rows of each graph.

        Returns
        -------
        masses : Float[m, K, k]
            Class masses.
        log_density : Float[m]
            Log densities, per unit of the spacing of each graph.
        """
        fold = self._fold[unseen_rows(rows).positions]
        masses = np.empty((len(rows), self._n_classes, len(factors)))
        log_density = np.empty(len(rows))
        for f, graph in enumerate(self._graphs):
            members = np.flatnonzero(fold == f)
            if not len(members):
                continue
            n_rows = len(graph.polytopes.polytope_of_row)
            result = graph.query(
                graph.partition.locate(rows[members].X), factors * math.log(n_rows)
            )
            masses[members] = result.masses
            log_density[members] = result.log_density + graph.log_unit_volume
        return masses, log_density


def _graph_of(
    partition: Partition, rows: Rows, n_classes: int, options: KernelDensityOptions
) -> KernelDensityGraph:
    """Return the graph of all ``rows``."""
    distance = options.distance or "scaled"
    return KernelDensityGraph(
        partition,
        partition.locate(rows.X),
        rows.one_hot(n_classes),
        shrunk_variances,
        distance=distance,
        limits=GraphLimits.of(options.max_polytopes),
        leave_one_out=distance == "scaled",
    )


def fit_cross_fitted(
    partition: Partition,
    folds: FoldGraphs,
    train: Rows,
    calibration: Rows,
    vote: np.ndarray,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit graph, posterior and densities with parameters chosen by cross-fitting.

    Parameters
    ----------
    partition : Partition
        Partition of the parent that was fitted on all rows.
    folds : FoldGraphs
        Graphs of the parents of the folds.
    train : Rows
        All n rows.
    calibration : Rows
        Those of them that choose the parameters, with outputs of the parents of their folds.
    vote : Float[m, K]
        These outputs.
    prior : Float[K]
        Class fractions.
    options : KernelDensityOptions
        Options of the variant.

    Returns
    -------
    FittedVariant
        Graph, posterior, and log densities for the floor.
    """
    # The parameters are chosen on all folds together, so they are one set for all parents. The
    # factor k of the exponent k·log n is shared, not the exponent: a fold has fewer rows.
    step = max(1, len(calibration) // _MAX_SEARCH_ROWS)
    rows, log_n = calibration[::step], math.log(len(train))
    log_density = np.empty(len(rows))

    def masses_at(exponents: np.ndarray) -> Callable[[slice], np.ndarray]:
        masses, log_density[:] = folds.query(rows, exponents / log_n)
        return lambda chunk: masses[chunk]

    posterior = choose_posterior(
        masses_at,
        vote[::step],
        rows,
        prior,
        exponents_to_try(options, len(train)),
        options,
    )
    graph = _graph_of(partition, train, len(prior), options)
    # Parents of two folds may embed rows in different units, so that log densities are compared per
    # unit of the spacing of their graph.
    return FittedVariant(graph, posterior, log_density - graph.log_unit_volume)


def cross_fitted_posterior(
    graph: KernelDensityGraph,
    folds: FoldGraphs,
    posterior: QueryPosterior | AveragedPosterior,
    rows: Rows,
    vote: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior and log density of training rows by the graphs of their folds.

    Parameters
    ----------
    graph : KernelDensityGraph
        Graph of all rows, whose unit the log densities get.
    folds : FoldGraphs
        Graphs of the parents of the folds.
    posterior : QueryPosterior
        Posterior.
    rows : Rows
        Some of the training rows, with outputs of the parents of their folds.
    vote : Float[m, K]
        These outputs.

    Returns
    -------
    posterior : Float[m, K]
        Class probabilities inside the training distribution.
    log_density : Float[m]
        Log densities.
    """
    factors = posterior.exponents / math.log(len(graph.polytopes.polytope_of_row))
    masses, log_density = folds.query(rows, factors)
    return posterior.mix(masses, vote), log_density - graph.log_unit_volume
