"""Variants of the kernel density graph.

"kdgraph" is the estimator of this package. "paper", "reference" and "figure1" are three forms of
the estimator of Dey et al. (2024) that produced its published numbers. Each variant is one function
(partition, training rows, held-out rows, prior, options) → :class:`FittedVariant` in ``VARIANTS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from kdgraph.base import Rows
from kdgraph.density.averaging import AveragedPosterior
from kdgraph.density.floor import figure1_log_floor, paper_log_floor
from kdgraph.density.gaussians import (
    VARIANCE_LAMBDA,
    PolytopeGaussians,
    VarianceRule,
    printed_variances,
    published_variances,
    shrunk_variances,
)
from kdgraph.density.graph import KernelDensityGraph, PolytopeDistance
from kdgraph.density.limits import GraphLimits, MaxPolytopes, raise_lenders
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    FOREST_SETTINGS,
    REFERENCE_GRIDS,
    ExponentGrid,
    NearestPosterior,
    PublishedSettings,
    QueryPosterior,
    SearchCriterion,
    SearchObjective,
    clipped_nll,
    masses_without_own,
    mean_nll,
    search_nearest_posterior,
    search_query_posterior,
)
from kdgraph.geometry import Locations, Partition
from kdgraph.metrics import ece

# Held-out rows by which the number of rows whose classes are counted is judged. The standard error
# of a difference of two mean NLL is then about .0005 nats.
_MAX_JUDGED_ROWS = 5_000

VariantName = Literal["kdgraph", "paper", "reference", "figure1"]


@dataclass(frozen=True)
class KernelDensityOptions:
    """Options of a variant that a user can set.

    Attributes
    ----------
    k, pseudo_count, vote_share, vote_power : float or "auto", default="auto"
        Parameters of the posterior. "auto" for a search on held-out rows, or for the value that
        the variant prescribes.
    criterion : {"nll", "ece"}, default="nll"
        Criterion of the search.
    scaling_share, isotonic_share : float or "auto", default="auto"
        Shares of matrix scalings and of isotonic maps in the posterior, where no row is held out.
        "auto" for the average over a grid.
    distance : str or None, default=None
        Distance to the nearest polytope. None for the distance that the variant prescribes.
    use_calibration_rows : bool, default=True
        Add the class masses of the held-out rows ("kdgraph" only).
    max_polytopes : int, float, "auto" or None, default="auto"
        Maximum number of polytopes, see :class:`~kdgraph.density.limits.GraphLimits`.
    published_settings : PublishedSettings, default=FOREST_SETTINGS
        Settings of "reference" and "figure1" for the parent's family.
    """

    k: float | Literal["auto"] = "auto"
    pseudo_count: float | Literal["auto"] = "auto"
    vote_share: float | Literal["auto"] = "auto"
    vote_power: float | Literal["auto"] = "auto"
    criterion: SearchCriterion = "nll"
    scaling_share: float | Literal["auto"] = "auto"
    isotonic_share: float | Literal["auto"] = "auto"
    distance: PolytopeDistance | None = None
    use_calibration_rows: bool = True
    max_polytopes: MaxPolytopes = "auto"
    published_settings: PublishedSettings = FOREST_SETTINGS

    def search_options(self) -> dict[str, Any]:
        """Return the options of the search besides the exponents, by name."""
        names = ("pseudo_count", "vote_share", "vote_power", "criterion")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class FittedVariant:
    """Result of the fit of a variant.

    Attributes
    ----------
    graph : KernelDensityGraph
        The graph.
    posterior : QueryPosterior, AveragedPosterior or NearestPosterior
        Posterior inside the training distribution.
    held_out_log_density : Float[m]
        Log densities of the held-out rows.
    log_floor : float or None, default=None
        Floor that the variant prescribes. None for a floor fitted to ``held_out_log_density``.
    """

    graph: KernelDensityGraph
    posterior: QueryPosterior | AveragedPosterior | NearestPosterior
    held_out_log_density: np.ndarray
    log_floor: float | None = None


def _fit_kdgraph(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit the variant of this package.

    The posterior is that of the class masses around the query, mixed with the parent's vote, with
    parameters of least held-out NLL. Variances are shrunk towards a pooled scale, and the floor is
    conformal. ``prior``: Float[K], class fractions of the training rows, as for all variants.
    """
    # With ``use_calibration_rows`` the held-out rows add their class masses, which are unbiased:
    # the forest's leaves do not fit their labels. Held-out rows have no Gaussians, so that the
    # floor is still fitted to rows that the density does not depend on.
    n, locations = len(train), partition.locate(train.X) + partition.locate(held_out.X)
    populating = slice(None) if options.use_calibration_rows else slice(n)
    labels = np.concatenate([train.one_hot(len(prior)), held_out.one_hot(len(prior))])[populating]
    graph = KernelDensityGraph(
        partition,
        locations[populating],
        labels,
        shrunk_variances,
        n_train=n,
        distance=options.distance or "scaled",
        limits=GraphLimits.of(options.max_polytopes),
        held_out=locations[n:].points,
    )
    vote, own_weight = partition.vote(locations[n:]), options.use_calibration_rows

    def masses_of(
        graph: KernelDensityGraph, exponents: np.ndarray, chunk: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return class masses around held-out rows, without their own, and log densities."""
        positions = range(n, n + len(held_out))[chunk]
        rows = slice(positions.start, positions.stop, positions.step)
        own = graph.own_similarity(rows) if own_weight else None
        return masses_without_own(
            graph, locations[n:][chunk], held_out[chunk], exponents, own, len(prior)
        )

    exponents, log_density = exponents_to_try(options, n), np.empty(len(held_out))

    def search(graph: KernelDensityGraph) -> QueryPosterior:
        """Return the posterior, and fill in the log densities of the held-out rows."""

        def masses_at(chunk: slice) -> np.ndarray:
            masses, log_density[chunk] = masses_of(graph, exponents, chunk)
            return masses

        return search_query_posterior(
            masses_at, vote, held_out, prior, exponents=exponents, **options.search_options()
        )

    def nll(graph: KernelDensityGraph, posterior: QueryPosterior) -> float:
        some = slice(None, None, max(1, len(held_out) // _MAX_JUDGED_ROWS))
        masses, _ = masses_of(graph, posterior.exponents, some)
        return mean_nll(posterior.mix(masses, vote[some]), held_out[some])

    if options.max_polytopes == "auto":
        graph, posterior = raise_lenders(
            graph,
            len(labels),
            search=search,
            nll=nll,
            with_lenders=lambda lenders: graph.with_lenders(lenders, locations[populating], labels),
        )
    else:
        posterior = search(graph)
    return FittedVariant(graph, posterior, log_density)


def exponents_to_try(options: KernelDensityOptions, n_train: int) -> np.ndarray:
    """Return the exponents k log n of Eq. 15 to try for n training rows, Float[k]."""
    factors = EXPONENT_FACTOR_GRID if options.k == "auto" else np.array([options.k])
    return factors * math.log(n_train)


def _fit_paper(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit Eq. 4 to 15 and Table 2 as printed.

    w = K^(k log n) with k searched, variances by Eq. 10, b = exp(-1e-7).
    """
    exponents = exponents_to_try(options, len(train))
    objective = clipped_nll if options.criterion == "nll" else _ece_objective(15)
    fitted = _fit_nearest_posterior(
        partition,
        train,
        held_out,
        prior,
        options,
        printed_variances,
        [lambda _: exponents],
        objective,
    )
    return FittedVariant(*fitted, log_floor=paper_log_floor(len(train)))


def _fit_reference(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit the published implementation of October 2023.

    w = K^k without log n, k by ECE, λ added for each sample, log b = -1e100. It produced the
    in-distribution columns of Figures 2 and 5 to 8.
    """
    # The floor has no effect: log densities reach -1e100 only at distances above 1e47.
    settings = options.published_settings
    exponent_grids: Sequence[ExponentGrid] = (
        REFERENCE_GRIDS if options.k == "auto" else [lambda _: np.array([options.k])]
    )
    return FittedVariant(
        *_fit_nearest_posterior(
            partition,
            train,
            held_out,
            prior,
            options,
            published_variances,
            exponent_grids,
            _ece_objective(settings.n_bins),
        ),
        log_floor=-1e100,
    )


def _fit_figure1(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Fit the version of August 2023 that produced Figure 1.

    Variances are over all rows weighted by w = K^p, without a search; p is 1 + ⌊log10(n)/3⌋ for
    forests and log2(n) for networks. The floor is log(10⁹) - 10^√d - log10 n, that figure's
    in-distribution setting.
    """
    exponent = (
        options.published_settings.figure1_exponent(len(train))
        if options.k == "auto"
        else float(options.k)
    )
    locations = partition.locate(train.X)
    graph = _geodesic_graph(partition, locations, train, prior, options, published_variances)
    graph.gaussians = weighted_gaussians(graph, graph.to_coordinates(locations.points), exponent)
    posterior, log_density = search_nearest_posterior(
        graph, partition.locate(held_out.X), held_out, prior, [lambda _: np.array([exponent])]
    )
    return FittedVariant(
        graph, posterior, log_density, figure1_log_floor(len(train), locations.points.shape[1])
    )


VARIANTS: dict[
    str, Callable[[Partition, Rows, Rows, np.ndarray, KernelDensityOptions], FittedVariant]
] = {
    "kdgraph": _fit_kdgraph,
    "paper": _fit_paper,
    "reference": _fit_reference,
    "figure1": _fit_figure1,
}
"""Fit function of each variant."""


def weighted_gaussians(
    graph: KernelDensityGraph, points: np.ndarray, exponent: float
) -> PolytopeGaussians:
    """Return the graph's Gaussians with variances over all training rows weighted by similarity.

    The variances are (Σ_i w_ri (x_i - μ_r)² + λ) / Σ_i w_ri with w = K^exponent; the means are
    those of the graph.

    Parameters
    ----------
    graph : KernelDensityGraph
        The graph.
    points : Float[n, d]
        Training rows in the coordinates of the Gaussians.
    exponent : float
        Power of the similarity.

    Returns
    -------
    PolytopeGaussians
        Gaussians of the version of August 2023 ("figure1").
    """
    # Σ w (x - μ)² = Σ w x² - 2 μ Σ w x + μ² Σ w, so that one pass over the index gives the sums of
    # w, w·x and w·x² of all polytopes. Coordinates are taken about the overall mean, which keeps
    # the cancellation small; what rounding leaves below 0 becomes 0.
    centre, d = points.mean(axis=0), points.shape[1]
    x = points - centre
    sums = graph.weighted_sums(
        graph.polytopes.sum_by_polytope(np.column_stack([np.ones(len(x)), x, x**2])), exponent
    )
    weight, first, second = sums[:, :1], sums[:, 1 : 1 + d], sums[:, 1 + d :]
    mean = graph.gaussians.means - centre
    squares = np.maximum(second - 2 * mean * first + mean**2 * weight, 0)
    return PolytopeGaussians(graph.gaussians.means, (squares + VARIANCE_LAMBDA) / weight)


def _geodesic_graph(
    partition: Partition,
    locations: Locations,
    train: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
    variance: VarianceRule,
) -> KernelDensityGraph:
    """Return the graph of the published variants, whose default distance is geodesic."""
    return KernelDensityGraph(
        partition,
        locations,
        train.one_hot(len(prior)),
        variance,
        distance=options.distance or "geodesic",
        limits=GraphLimits(
            max_polytopes=None if options.max_polytopes == "auto" else options.max_polytopes
        ),
    )


def _fit_nearest_posterior(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
    variance: VarianceRule,
    exponent_grids: Sequence[ExponentGrid],
    objective: SearchObjective,
) -> tuple[KernelDensityGraph, NearestPosterior, np.ndarray]:
    """Return graph, posterior and held-out log densities of a variant with nearest polytopes."""
    graph = _geodesic_graph(partition, partition.locate(train.X), train, prior, options, variance)
    return graph, *search_nearest_posterior(
        graph, partition.locate(held_out.X), held_out, prior, exponent_grids, objective
    )


def _ece_objective(bins: int) -> SearchObjective:
    """Return the expected calibration error in ``bins`` bins as an objective."""
    return partial(_binned_ece, bins=bins)


def _binned_ece(proba: np.ndarray, rows: Rows, bins: int) -> float:
    """Return the expected calibration error."""
    return ece(rows.y, proba, bins=bins)
