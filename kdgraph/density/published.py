"""Published versions of the kernel density forest and network (Dey et al. 2024).

The numbers of the paper come from two versions of its authors' code, which differ from each other
and from the printed equations. Each is a class for forests and one for networks, on the same graph
as :class:`~kdgraph.density.KernelDensityForest`:

- :class:`PaperForest`, :class:`PaperNetwork`: Eq. 4 to 15 and Table 2 as printed;
- :class:`ReferenceForest`, :class:`ReferenceNetwork`: the code of October 2023, which made the
  in-distribution columns of Figures 2 and 5 to 8;
- :class:`Figure1Forest`, :class:`Figure1Network`: the code of August 2023, which made Figure 1.

All hold rows out, evaluate the posterior at the nearest polytope (:class:`NearestPosterior`), and
blend it with the prior by f / (f + floor) at every density.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from kdgraph.base import Rows
from kdgraph.density.classifiers import (
    ForestParent,
    GraphClassifier,
    NetworkParent,
    blend_with_prior,
    conformal_log_floor,
)
from kdgraph.density.gaussians import (
    VARIANCE_LAMBDA,
    PolytopeGaussians,
    PolytopeMoments,
    VarianceRule,
)
from kdgraph.density.graph import (
    GraphLimits,
    KernelDensityGraph,
    PolytopeCounts,
    PolytopeDistance,
    QueryResult,
)
from kdgraph.density.posterior import PosteriorParameters, clipped_nll
from kdgraph.errors import ParameterError
from kdgraph.geometry import Locations, take_rows
from kdgraph.metrics import ece
from kdgraph.parameters import CalibrationMode, Count, OpenFraction, Positive

ExponentGrid = Callable[[float], np.ndarray]
"""Function of the best exponent so far that returns the exponents to try next, Float[k]."""
SearchObjective = Callable[[np.ndarray, Rows], float]
"""Function of probabilities (Float[m, K]) and rows that the search minimises."""

# The published grid moved several times. This is the one of the version that made the stored
# numbers of Figures 2 and 5 to 8, for forests and networks alike; the last version searches 1 to 2
# for networks, which is too narrow for tables of many classes: on satimage it leaves an ECE of .20
# where .025 is stored.
REFERENCE_GRIDS: tuple[ExponentGrid, ...] = (
    lambda _: np.arange(1.0, 20.0, 2.0),
    lambda k: k + np.arange(0, 2, 0.2),
)
"""Exponents that the version of October 2023 searched, in two passes."""


@dataclass(frozen=True)
class NearestPosterior:
    """Posterior of the nearest polytope, p_y = (n_ry/n_y)·P_y / Σ (Eq. 5, 7, 13).

    The log density is log G plus the logarithm of that sum Σ over classes.

    Attributes
    ----------
    exponent : float
        Exponent of the class masses.
    log_joint : Float[p, K]
        log((n_ry/n_y)·P_y) of each polytope and class.
    exponents : Float[0]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate: none.
    """

    exponent: float
    log_joint: np.ndarray
    exponents = np.empty(0)

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        log_joint = self.log_joint[np.maximum(query_result.polytope, 0)]
        log_total = np.logaddexp.reduce(log_joint, axis=1)
        return np.exp(log_joint - log_total[:, None]), query_result.log_density + log_total

    def describe(self) -> dict[str, float]:
        """Return the exponent for the record."""
        return {"exponent": self.exponent}

    @classmethod
    def from_masses(
        cls, exponent: float, masses: np.ndarray, prior: np.ndarray
    ) -> NearestPosterior:
        """Return the posterior from class masses n_ry of the polytopes (Eq. 11), Float[p, K].

        ``exponent``: that of the masses; ``prior``: Float[K].
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            log_joint = np.log(masses) - np.log(masses.sum(axis=0)) + np.log(prior)
        return cls(exponent, np.where(masses > 0, log_joint, -np.inf))


def search_nearest_posterior(
    graph: KernelDensityGraph,
    locations: Locations,
    held_out: Rows,
    prior: np.ndarray,
    exponent_grids: Sequence[ExponentGrid],
    objective: SearchObjective = clipped_nll,
) -> tuple[NearestPosterior, np.ndarray]:
    """Return the best posterior on held-out rows, and the log density at each, Float[m].

    The ``objective`` is minimised over the passes of ``exponent_grids``; of equally good exponents
    the first is used. ``locations``: of the held-out rows; ``prior``: Float[K].
    """
    # The nearest polytopes of the rows are found once. The class masses of all populated polytopes
    # at all exponents of a pass are in memory at once. argmin returns the first of equal scores.
    query_result, (counts, codes) = graph.query(locations, np.empty(0)), _populated(graph)
    candidates, scores, best = [], [], 0
    for exponent_grid in exponent_grids:
        exponents = exponent_grid(candidates[best].exponent if candidates else 0.0)
        masses, _ = counts.query(codes, exponents, with_nearest=False)
        for j, exponent in enumerate(exponents):
            candidate = NearestPosterior.from_masses(float(exponent), masses[:, :, j], prior)
            candidates.append(candidate)
            scores.append(objective(candidate(query_result, graph)[0], held_out))
        best = int(np.argmin(scores))
    return candidates[best], candidates[best](query_result, graph)[1]


def _populated(graph: KernelDensityGraph) -> tuple[PolytopeCounts, np.ndarray]:
    """Return the counts of a graph, and the codes of its populated polytopes, Int[p, …]."""
    assert isinstance(graph.counts, PolytopeCounts)
    return graph.counts, take_rows(graph.counts.codes, graph.polytopes.representatives)


def printed_variances(moments: PolytopeMoments) -> np.ndarray:
    """Return the variances of Eq. 10 as printed, Float[p, d], with λ divided by the size."""
    return moments.variance + VARIANCE_LAMBDA / moments.sizes[:, None]


def published_variances(moments: PolytopeMoments) -> np.ndarray:
    """Return the variances of Eq. 10 in the published implementation, Float[p, d].

    It adds λ to the square of every row, so that λ does not vanish as a polytope fills.
    """
    return moments.variance + VARIANCE_LAMBDA


def weighted_gaussians(
    graph: KernelDensityGraph, points: np.ndarray, exponent: float
) -> PolytopeGaussians:
    """Return the graph's Gaussians with variances over all training rows weighted by similarity.

    The variances are (Σ_i w_ri (x_i - μ_r)² + λ) / Σ_i w_ri with w = K^exponent; the means are
    those of the graph. ``points``: Float[n, d], training rows in the coordinates of the Gaussians.
    """
    # Σ w (x - μ)² = Σ w x² - 2 μ Σ w x + μ² Σ w, so that one pass over the index gives the sums of
    # w, w·x and w·x² of all polytopes. Coordinates are taken about the overall mean, which keeps
    # the cancellation small; what rounding leaves below 0 becomes 0.
    centre, d = points.mean(axis=0), points.shape[1]
    x = points - centre
    values = graph.polytopes.sum_by_polytope(np.column_stack([np.ones(len(x)), x, x**2]))
    counts, codes = _populated(graph)
    index = graph.partition.index(counts.codes, values, rows=graph.polytopes.representatives)
    sums = index.query(codes, np.array([exponent]))[0][:, :, 0]
    weight, first, second = sums[:, :1], sums[:, 1 : 1 + d], sums[:, 1 + d :]
    mean = graph.gaussians.means - centre
    squares = np.maximum(second - 2 * mean * first + mean**2 * weight, 0)
    return PolytopeGaussians(graph.gaussians.means, (squares + VARIANCE_LAMBDA) / weight)


def paper_log_floor(n: int) -> float:
    """Return log(b / log n) with b = exp(-1e-7) for n training rows (Eq. 6 and Table 2).

    This floor is so high that it exceeds in-distribution densities too: the prior has nearly all
    weight for most in-distribution rows, and the forest's accuracy is lost.
    """
    return -1e-7 - math.log(math.log(n))


def figure1_log_floor(n: int, d: int, multiplier: float = 1e9) -> float:
    """Return the floor of Figure 1, log(multiplier) - 10^√d - log10 n, for n rows of d features."""
    return math.log(multiplier) - 10 ** math.sqrt(d) - math.log10(n)


@dataclass(eq=False, repr=False)
class PublishedClassifier(GraphClassifier):
    """Base class of the published versions, which are calibrated on held-out rows.

    Parameters
    ----------
    alpha : float, default=0.002
        Expected fraction of in-distribution rows below a floor that is fitted.
    k : float or "auto", default="auto"
        Factor of log n in the exponent of Eq. 15, in the versions of the code the whole exponent.
        "auto" for the search or the value of the version.
    floor : float, "auto" or None, default=None
        Log density floor (Eq. 6): a number, None for that of the version, or "auto" for one that is
        fitted to held-out log densities, by ``alpha``.
    distance : {"geodesic", "euclidean", "scaled", "whitened"}, default="geodesic"
        Distance by which the nearest polytope is found.
    max_polytopes : int, float or None, default=None
        Merge neighbouring polytopes down to this number, or this fraction of the training rows.
    """

    _: KW_ONLY
    k: Positive | Literal["auto"] = "auto"
    alpha: OpenFraction = 0.002
    floor: float | Literal["auto"] | None = None
    distance: PolytopeDistance = "geodesic"
    max_polytopes: Count | OpenFraction | None = None

    def _calibration_mode(self, has_calibration_rows: bool, X: Any) -> CalibrationMode:
        if self.calibration != "held_out":
            raise ParameterError(
                f"{type(self).__name__} is calibrated on held-out rows, as in its publication, got"
                f" calibration={self.calibration!r}; use calibration='held_out', or"
                " KernelDensityForest"
            )
        return self.calibration

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        partition = self._partition()
        locations = partition.locate(train.X)
        self.graph_ = KernelDensityGraph(
            partition,
            locations,
            train.one_hot(len(self.prior_)),
            variance=self._variances,
            distance=self.distance,
            limits=GraphLimits(max_polytopes=self.max_polytopes),
        )
        n, d = locations.points.shape
        self._replace_gaussians(locations.points)
        self.posterior_, log_density = search_nearest_posterior(
            self.graph_,
            partition.locate(calibration.X),
            calibration,
            self.prior_,
            self._exponent_grids(n),
            self._objective,
        )
        if self.floor == "auto":
            self.log_floor_ = conformal_log_floor(log_density, self.alpha)
        else:
            self.log_floor_ = self._version_floor(n, d) if self.floor is None else self.floor

    _variances: ClassVar[VarianceRule] = staticmethod(published_variances)
    _objective: ClassVar[SearchObjective] = staticmethod(clipped_nll)

    def _exponent_grids(self, n: int) -> Sequence[ExponentGrid]:
        """Return the passes of the search for n training rows."""
        raise NotImplementedError

    def _version_floor(self, n: int, d: int) -> float:
        """Return the log density floor of the version for n training rows of d features."""
        raise NotImplementedError

    def _replace_gaussians(self, points: np.ndarray) -> None:
        """Replace the Gaussians of the graph, for training rows Float[n, d]."""

    def _blend(self, posterior: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        return blend_with_prior(posterior, self.prior_, log_density, self.log_floor_)


class PaperClassifier(PublishedClassifier):
    """Eq. 4 to 15 and Table 2 as printed: w = K^(k log n), k by held-out NLL, b = exp(-1e-7)."""

    _variances = staticmethod(printed_variances)

    def _exponent_grids(self, n: int) -> Sequence[ExponentGrid]:
        return [lambda _: PosteriorParameters(self.k).exponents(n)]

    def _version_floor(self, n: int, d: int) -> float:
        return paper_log_floor(n)


class ReferenceClassifier(PublishedClassifier):
    """The code of October 2023: w = K^k without log n, k by ECE, λ added for each sample.

    Its floor, log b = -1e100, has no effect: log densities reach it only at distances above 1e47.
    """

    def _exponent_grids(self, n: int) -> Sequence[ExponentGrid]:
        return REFERENCE_GRIDS if self.k == "auto" else [lambda _: np.array([self.k])]

    def _version_floor(self, n: int, d: int) -> float:
        return -1e100


class Figure1Classifier(PublishedClassifier):
    """The code of August 2023: variances over all rows weighted by w = K^p, without a search.

    The floor is log(10⁹) - 10^√d - log10 n, that figure's in-distribution setting.
    """

    def _exponent_grids(self, n: int) -> Sequence[ExponentGrid]:
        return [lambda _: np.array([self._exponent(n)])]

    def _exponent(self, n: int) -> float:
        return self._version_exponent(n) if self.k == "auto" else float(self.k)

    def _version_exponent(self, n: int) -> float:
        """Return the exponent of the version for n training rows."""
        raise NotImplementedError

    def _replace_gaussians(self, points: np.ndarray) -> None:
        coordinates = self.graph_.to_coordinates(points)
        self.graph_.gaussians = weighted_gaussians(
            self.graph_, coordinates, self._exponent(len(points))
        )

    def _version_floor(self, n: int, d: int) -> float:
        return figure1_log_floor(n, d)


def _binned_ece(proba: np.ndarray, rows: Rows, bins: int) -> float:
    return ece(rows.y, proba, bins=bins)


class PaperForest(ForestParent, PaperClassifier):
    """Kernel density forest by the printed equations; see :class:`PublishedClassifier`."""


@dataclass(eq=False, repr=False)
class PaperNetwork(NetworkParent, PaperClassifier):
    """Kernel density network by the printed equations; see :class:`PublishedClassifier`."""


class ReferenceForest(ForestParent, ReferenceClassifier):
    """Kernel density forest of the code of October 2023; see :class:`PublishedClassifier`."""

    _objective = staticmethod(partial(_binned_ece, bins=9))


@dataclass(eq=False, repr=False)
class ReferenceNetwork(NetworkParent, ReferenceClassifier):
    """Kernel density network of the code of October 2023; see :class:`PublishedClassifier`."""

    _objective = staticmethod(partial(_binned_ece, bins=19))


class Figure1Forest(ForestParent, Figure1Classifier):
    """Kernel density forest of the code of August 2023; see :class:`PublishedClassifier`.

    The exponent is 1 + ⌊log10(n) / 3⌋.
    """

    def _version_exponent(self, n: int) -> float:
        return 1.0 + math.log10(n) // 3


@dataclass(eq=False, repr=False)
class Figure1Network(NetworkParent, Figure1Classifier):
    """Kernel density network of the code of August 2023; see :class:`PublishedClassifier`.

    The exponent is log2(n).
    """

    def _version_exponent(self, n: int) -> float:
        return math.log2(n)
