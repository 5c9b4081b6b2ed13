"""The kernel density graph's variants: ours, and the three forms of the paper's estimator that made
its published numbers.

Each is one function (partition, training rows, held-out rows, prior, options) → :class:`FittedVariant`; a
new one is an entry in ``VARIANTS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from kdgraph.base import Rows
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
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    FOREST_SETTINGS,
    ExponentGrid,
    NearestPosterior,
    PublishedSettings,
    QueryPosterior,
    SearchCriterion,
    SearchObjective,
    clipped_nll,
    search_nearest_posterior,
    search_query_posterior,
)
from kdgraph.geometry import Partition
from kdgraph.metrics import ece

VariantName = Literal["kdgraph", "paper", "reference", "figure1"]


@dataclass(frozen=True)
class KernelDensityOptions:
    """What a user can set; ``"auto"`` is searched on held-out rows, or is what the variant
    prescribes.
    """

    k: float | Literal["auto"] = "auto"
    pseudo_count: float | Literal["auto"] = "auto"
    vote_share: float | Literal["auto"] = "auto"
    vote_power: float | Literal["auto"] = "auto"
    criterion: SearchCriterion = "nll"
    distance: PolytopeDistance | None = None
    use_calibration_rows: bool = True
    max_polytopes: int | float | None = None
    published_settings: PublishedSettings = FOREST_SETTINGS


@dataclass(frozen=True)
class FittedVariant:
    """What a variant learns; ``log_floor`` is what it prescribes, None for a floor from
    ``held_out_log_density`` (Float[m]).
    """

    graph: KernelDensityGraph
    posterior: QueryPosterior | NearestPosterior
    held_out_log_density: np.ndarray
    log_floor: float | None = None


def _fit_kdgraph(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Masses around the query mixed with the parent's vote, by held-out NLL; variances shrunk to a
    pooled scale; a conformal floor.

    As of all variants: ``prior`` is Float[K], the class shares of the training rows.

    With ``use_calibration_rows`` the held-out rows lend their class masses, for the forest has not bent
    its leaves to their labels. They carry no Gaussians, so the floor is still judged on rows that
    the density has not seen.
    """
    n, place = len(train), partition.locate(train.X) + partition.locate(held_out.X)
    populating = slice(None) if options.use_calibration_rows else slice(n)
    labels = np.concatenate([train.one_hot(len(prior)), held_out.one_hot(len(prior))])[populating]
    graph = KernelDensityGraph(
        partition,
        place[populating],
        labels,
        shrunk_variances,
        n_train=n,
        distance=options.distance or "scaled",
        max_polytopes=options.max_polytopes,
        held_out=place[n:].points,
    )
    posterior, log_density = search_query_posterior(
        graph,
        place[n:],
        held_out,
        prior,
        own_similarity=graph.representative_similarity(slice(n, None))
        if options.use_calibration_rows
        else None,
        exponents=(EXPONENT_FACTOR_GRID if options.k == "auto" else np.array([options.k]))
        * math.log(n),
        pseudo_count=options.pseudo_count,
        vote_share=options.vote_share,
        vote_power=options.vote_power,
        criterion=options.criterion,
    )
    return FittedVariant(graph, posterior, log_density)


def _fit_paper(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
) -> FittedVariant:
    """Eq. 4 to 15 and Table 2 as printed: w = K^(k log n) with k searched, variances by Eq. 10, b =
    exp(-1e-7).

    Parameters as of :func:`_fit_kdgraph`.
    """
    exponents = (EXPONENT_FACTOR_GRID if options.k == "auto" else np.array([options.k])) * math.log(
        len(train)
    )
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
    """The published implementation of October 2023: w = K^k without log n, k by ECE, λ added per
    sample, log b = -1e100.

    It made the in-distribution columns of Figures 2 and 5 to 8. Its floor cannot act: no log
    density is that small nearer than 1e47. Parameters as of :func:`_fit_kdgraph`.
    """
    theirs = options.published_settings
    stages: Sequence[ExponentGrid] = (
        theirs.exponent_grids if options.k == "auto" else [lambda _: np.array([options.k])]
    )
    return FittedVariant(
        *_fit_nearest_posterior(
            partition,
            train,
            held_out,
            prior,
            options,
            published_variances,
            stages,
            _ece_objective(theirs.n_bins),
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
    """The version of August 2023 that made Figure 1: variances over all rows weighted by w = K^p,
    no search; p is 1 + ⌊log10(n)/3⌋ for forests and log2(n) for networks.

    Its floor is log(10⁹) - 10^√d - log10 n, that figure's in-distribution setting. Parameters as of
    :func:`_fit_kdgraph`.
    """
    exponent = (
        options.published_settings.figure1_exponent(len(train))
        if options.k == "auto"
        else float(options.k)
    )
    place = partition.locate(train.X)
    settings = {"distance": options.distance or "geodesic", "max_polytopes": options.max_polytopes}
    graph = KernelDensityGraph(
        partition, place, train.one_hot(len(prior)), published_variances, **settings
    )
    graph.gaussians = weighted_gaussians(graph, graph.whiten(place.points), exponent)
    posterior, log_density = search_nearest_posterior(
        graph, partition.locate(held_out.X), held_out, prior, [lambda _: np.array([exponent])]
    )
    return FittedVariant(
        graph, posterior, log_density, figure1_log_floor(len(train), place.points.shape[1])
    )


VARIANTS: dict[
    str, Callable[[Partition, Rows, Rows, np.ndarray, KernelDensityOptions], FittedVariant]
] = {
    "kdgraph": _fit_kdgraph,
    "paper": _fit_paper,
    "reference": _fit_reference,
    "figure1": _fit_figure1,
}


def weighted_gaussians(
    graph: KernelDensityGraph, points: np.ndarray, exponent: float
) -> PolytopeGaussians:
    """The same means; variances (Σ_i w_ri (x_i - μ_r)² + λ) / Σ_i w_ri over the training rows
    ``points``, Float[n, d], with w = K^exponent.

    Expanded into sums of w, w·x and w·x² about the overall mean, so that the index gives them in
    one pass.
    """
    centre, d = points.mean(axis=0), points.shape[1]
    x = points - centre
    sums = graph.weighted_sums(
        graph.polytopes.sum_by_polytope(np.column_stack([np.ones(len(x)), x, x**2])), exponent
    )
    weight, first, second = sums[:, :1], sums[:, 1 : 1 + d], sums[:, 1 + d :]
    mean = graph.gaussians.means - centre
    squares = np.maximum(second - 2 * mean * first + mean**2 * weight, 0)
    return PolytopeGaussians(graph.gaussians.means, (squares + VARIANCE_LAMBDA) / weight)


def _fit_nearest_posterior(
    partition: Partition,
    train: Rows,
    held_out: Rows,
    prior: np.ndarray,
    options: KernelDensityOptions,
    variance: VarianceRule,
    stages: Sequence[ExponentGrid],
    objective: SearchObjective,
) -> tuple[KernelDensityGraph, NearestPosterior, np.ndarray]:
    settings = {"distance": options.distance or "geodesic", "max_polytopes": options.max_polytopes}
    graph = KernelDensityGraph(
        partition, partition.locate(train.X), train.one_hot(len(prior)), variance, **settings
    )
    return graph, *search_nearest_posterior(
        graph, partition.locate(held_out.X), held_out, prior, stages, objective
    )


def _ece_objective(bins: int) -> SearchObjective:
    return partial(_binned_ece, bins=bins)


def _binned_ece(proba: np.ndarray, rows: Rows, bins: int) -> float:
    return ece(rows.y, proba, bins=bins)
