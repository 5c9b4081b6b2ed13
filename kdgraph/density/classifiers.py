"""Kernel density forests and kernel density networks (Dey et al. 2024, Sections 3.3 and 4).

:class:`KernelDensityForest` and :class:`KernelDensityNetwork` differ in their parents only:
:class:`ForestParent` and :class:`NetworkParent`. :class:`GraphClassifier` predicts by a graph and a
posterior, those of :mod:`kdgraph.density.published` as well, and :class:`KernelDensityClassifier`
fits them.

Below the density floor, class probabilities fall back to the class prior. The floor is the constant
that Dey et al. (2024) add to every class-conditional density (Eq. 6 and 7). It is handled in log
space, as a threshold of the log density: :func:`blend_with_prior`, the rules that choose a floor,
and :class:`DensityFloorClassifier`, the base class of all classifiers with a floor. The rules and
the clipped weight of the blend are original to kdgraph.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.frozen import (
    NoOutOfBagRows,
    is_bagged,
    last_step,
    unwrap_frozen,
    user_stacklevel,
    was_fitted_on,
)
from kdgraph.base.rows import OutOfBag, unseen_rows
from kdgraph.base.validation import iterate_blocks
from kdgraph.density.graph import GraphLimits, KernelDensityGraph, PolytopeDistance
from kdgraph.density.out_of_sample import (
    FoldRows,
    HeldOutRows,
    MassSource,
    OutOfBagRows,
    fit_graph,
    fold_graphs,
    search_rows,
)
from kdgraph.density.posterior import PosteriorParameters
from kdgraph.geometry import (
    NoPartitionError,
    Partition,
    check_has_partition,
    finite_space_of,
    partition_kind,
    partition_of,
)
from kdgraph.parameters import CalibrationMode, ClosedFraction, Count, OpenFraction, Positive


def blend_with_prior(
    posterior: np.ndarray,
    prior: np.ndarray,
    log_density: np.ndarray,
    log_floor: float,
    min_weight: float = 0.0,
    *,
    clipped: bool = False,
) -> np.ndarray:
    """Return w·posterior + (1 - w)·prior with w = f / (f + floor) (Eq. 6 and 7).

    With ``clipped``, w = min(1, f / floor): rows above the floor keep their posterior unchanged.

    With class-conditional densities f_y and floor b, Bayes' rule gives (f_y + b)·P_y / Σ_k (f_k +
    b)·P_k. With f = Σ_k f_k·P_k and p_y = f_y·P_y / f, that is (f·p_y + b·P_y) / (f + b). So the
    floor can be applied in this way to any posterior p.

    Parameters
    ----------
    posterior : Float[n, K]
        Posterior inside the training distribution.
    prior : Float[K]
        Class prior.
    log_density : Float[n]
        Log density of each row.
    log_floor : float
        Log density floor, in the same units.
    min_weight : float, default=0.0
        Minimum of w. If f underflows to 0, the class of the largest posterior then still has the
        largest probability among equal priors.
    clipped : bool, default=False
        Leave the posterior unchanged above the floor.

    Returns
    -------
    Float[n, K]
        Probabilities; rows sum to 1.

    Notes
    -----
    The clipped weight is original to kdgraph. Both weights are at most f / floor, so that the
    blend tends to the prior as f does to 0. With the weight of Eq. 6 every row moves towards the
    prior, and half of the way at the floor. On 30 tables and leave-one-out floors for .2 % of the
    rows, the clipped weight cost .0005 nats in distribution and nothing on the median table.

    References
    ----------
    Dey et al. (2024), Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference, Eq. 6, 7 and Proposition 2.

    Examples
    --------
    >>> posterior, prior = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0.5, 0.5])
    >>> blend_with_prior(posterior, prior, log_density=np.array([0.0, -100.0]), log_floor=-9.0)
    array([[0.89995064, 0.10004936],
           [0.5       , 0.5       ]])
    """
    with np.errstate(invalid="ignore"):
        above = log_density - log_floor
        weight = np.exp(np.minimum(above, 0.0)) if clipped else expit(above)
        weight = np.where(np.isneginf(log_density), 0.0, weight)
    weight = np.maximum(weight, min_weight)[:, None]
    return weight * posterior + (1.0 - weight) * prior


def conformal_log_floor(log_density: np.ndarray, alpha: float) -> float:
    """Return the floor with an expected fraction of at most max(α, 1/(m + 1)) of rows below it.

    Parameters
    ----------
    log_density : Float[m]
        Log densities of held-out rows. Infinite values are ignored.
    alpha : float
        Fraction of in-distribution rows below the floor.

    Returns
    -------
    float
        Log density floor, -inf if no log density is finite.

    Notes
    -----
    The floor is the ⌊(m + 1)·α⌋-th smallest log density. If m is too small for that rank, it is the
    smallest, lowered by half of its distance to the median. Without this step, 37 rows would have a
    floor that rejects 1/38 of in-distribution rows.

    Examples
    --------
    >>> log_density = -np.arange(1.0, 200.0)
    >>> conformal_log_floor(log_density, alpha=0.01), conformal_log_floor(log_density, alpha=0.001)
    (-198.0, -248.5)
    """
    ranked = np.sort(log_density[np.isfinite(log_density)])
    if not len(ranked):
        return -math.inf
    rank = math.floor((len(ranked) + 1) * alpha)
    if rank >= 1:
        return float(ranked[rank - 1])
    return extrapolate_below(ranked)


def extrapolate_below(log_density: np.ndarray) -> float:
    """Return the lowest of log densities, Float[m], less half of its distance to the median."""
    lowest = float(log_density.min())
    return lowest - 0.5 * (float(np.median(log_density)) - lowest)


def density_ood_score(log_density: np.ndarray, log_floor: float) -> np.ndarray:
    """Return log floor - log density, Float[n]; infinite where the density is 0, at any floor.

    Without a floor, which is then -inf, it is the negative log density.
    """
    zero = 0.0 if math.isinf(log_floor) else log_floor
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_density), math.inf, zero - log_density)


@contextmanager
def _suggest_gate() -> Iterator[None]:
    """Add the advice to use a density gate to errors about a missing partition."""
    try:
        yield
    except NoPartitionError as error:
        gate = f"DensityGate({error.name}(), partition=RandomForestClassifier())"
        raise TypeError(
            f"{error}; any classifier can be combined with a forest's partition: {gate}"
        ) from None


@dataclass(eq=False, repr=False)
class DensityFloorClassifier(PostHocClassifier):
    """Base class of classifiers with a density graph and a floor.

    These are the kernel density forest, the kernel density network and the density gate. A subclass
    fits ``graph_`` and ``log_floor_``, and implements ``_posterior_and_log_density`` and
    ``_blend``.

    Parameters
    ----------
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.

    Attributes
    ----------
    graph_ : KernelDensityGraph
        Graph of the populated polytopes.
    log_floor_ : float
        Log density floor, -inf if there is none.
    """

    _: KW_ONLY
    n_jobs: int | None = None

    def _partition_estimator(self) -> Any:
        """Return the estimator, not fitted yet, whose partition has the density."""
        return self._default_estimator()

    def _check_parent(self) -> Any:
        parent = super()._check_parent()
        with _suggest_gate():
            check_has_partition(self._partition_estimator())
        return parent

    def _partition_of(self, fitted: Any, **network_options: Any) -> Partition:
        """Return the partition of the fitted ``_partition_estimator()``."""
        with _suggest_gate():
            return partition_of(fitted, n_jobs=self.n_jobs, **network_options)

    def _requires_training_rows(self) -> bool:
        return True

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`predict_proba` (Float[n, K]) and :meth:`log_density` (Float[n]) together.

        ``X``: Float[n, d]; both come from one query of the graph.
        """
        blocks = iterate_blocks(self._validate_X(X))
        posteriors, log_densities = zip(
            *(self._posterior_and_log_density(block) for block in blocks), strict=True
        )
        log_density = np.concatenate(log_densities)
        return self._blend(np.concatenate(posteriors), log_density), log_density

    def _posterior_and_log_density(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return posteriors (Float[n, K]) and log densities (Float[n]) of one block of rows."""
        raise NotImplementedError

    def _blend(self, posterior: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return the posterior, blended with the prior below the floor, Float[n, K]."""
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, Float[n, K], of rows Float[n, d].

        They are finite and sum to 1 at any distance from the training data.
        """
        return self.proba_and_log_density(X)[0]

    def log_density(self, X) -> np.ndarray:
        """Return the log density f of the nearest polytope, Float[n], of rows Float[n, d].

        It is compared with the floor, and -inf if no polytope shares anything with the row.
        """
        return self.proba_and_log_density(X)[1]

    def ood_score(self, X) -> np.ndarray:
        """Return the OOD score, log floor - log density, Float[n], of rows Float[n, d].

        Higher is farther from the training data. Above 0 the density is below the floor, and the
        prior has a part in the probabilities.
        """
        return density_ood_score(self.log_density(X), self.log_floor_)

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`predict_proba`, Float[n, K], and :meth:`ood_score`, Float[n], together."""
        proba, log_density = self.proba_and_log_density(X)
        return proba, density_ood_score(log_density, self.log_floor_)

    def describe(self) -> dict[str, float | int | str]:
        """Return the fitted values that are recorded for a run: sizes, parameters and log floor."""
        polytopes = self.graph_.polytopes
        summary = {
            "n_polytopes": len(polytopes),
            "singleton_fraction": polytopes.singleton_fraction,
            "n_gaussians": len(self.graph_.gaussians.means),
            "distance": self.graph_.distance,
        }
        floor = {"log_floor": self.log_floor_} if math.isfinite(self.log_floor_) else {}
        return {**summary, **self._searched_parameters(), **floor}

    def _searched_parameters(self) -> dict[str, float]:
        """Return the values chosen by a search on held-out rows, by name."""
        return {}


@dataclass(eq=False, repr=False)
class GraphClassifier(DensityFloorClassifier):
    """Base class of classifiers that predict by a kernel density graph and a posterior.

    A subclass fits ``graph_``, ``posterior_`` and ``log_floor_``, and defines the parent. Where the
    density is below the floor, the posterior is blended with the prior (Dey et al. 2024, Eq. 6, 7).
    """

    estimator: Any = None

    def _distance_estimator(self) -> Any:
        return finite_space_of(self._default_estimator())

    def _partition_options(self) -> dict[str, Any]:
        return {}

    def _partition(self) -> Partition:
        return self._partition_of(self.estimator_, **self._partition_options())

    def _posterior_and_log_density(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        query_result = self.graph_.query(self.graph_.partition.locate(X), self.posterior_.exponents)
        return self.posterior_(query_result, self.graph_)

    def _searched_parameters(self) -> dict[str, float]:
        return self.posterior_.describe()


@dataclass(eq=False, repr=False)
class KernelDensityClassifier(GraphClassifier):
    """Base class of the kernel density forest and network (Dey et al. 2024, Eq. 4 to 15).

    A subclass defines the parent. The posterior is described at
    :class:`~kdgraph.density.KernelDensityForest`.

    Parameters
    ----------
    k : float or "auto", default="auto"
        Factor of log n in the exponent of Eq. 15. "auto" for a search, or an average over a grid,
        on rows that the parent was not fitted on.
    pseudo_count : float or "auto", default="auto"
        Pseudo-count a of the class fractions in the class masses. "auto" as for ``k``.
    parent_weight : float or "auto", default="auto"
        Weight v of the parent's probabilities beside the class masses. "auto" as for ``k``.
    parent_power : float or "auto", default="auto"
        Power β of the parent's probabilities, an inverse temperature. "auto" as for ``k``.
    alpha : float or None, default=0.002
        Expected fraction of in-distribution rows below the density floor (Eq. 6). None for no
        floor: the posterior holds at every density.
    min_weight : float, default=1e-9
        Minimum weight of the posterior, which keeps its argmax among equal priors.
    distance : {"scaled", "geodesic", "euclidean", "whitened"}, default="scaled"
        Distance by which the nearest polytope is found. "scaled": Euclidean distance to its mean,
        with every feature in units of the spacing between polytopes. "geodesic": Eq. 17.
        "euclidean": plain Euclidean distance. "whitened": as "scaled", along axes that respect
        correlations between features.
    calibration : {"auto", "oob", "cross_fit", "held_out"}, default="auto"
        Rows and outputs that choose the parameters and the floor. "oob": all rows, by the trees in
        which each is out of bag; the forest needs ``bootstrap=True``. "cross_fit": all rows, by
        parents that are fitted on the other folds. "held_out": rows that are held out, or passed to
        ``fit`` as ``X_calibration``. "auto": "oob" for the training rows of a forest with
        ``bootstrap=True``, also of a frozen one, if no calibration rows are passed, and "held_out"
        otherwise.
    cv : int, cross-validator or iterable, default=5
        Folds of "cross_fit".
    max_polytopes : int, float, "auto" or None, default="auto"
        "auto": merge Gaussians of neighbouring polytopes down to 65,536, and count the classes of a
        random sample of the rows where leaves are large or their NLL is about that of all, or of
        the most similar rows behind boosted trees, so that predictions take a time that does not
        grow with the training rows (:func:`~kdgraph.density.out_of_sample.fit_graph`). A number, or
        a fraction of the training rows: merge neighbouring polytopes down to it; where no row is
        held out, Gaussians are merged, and the classes of so many rows counted. None for no limit.

    Attributes
    ----------
    posterior_ : QueryPosterior
        Posterior inside the training distribution, with its parameters.
    """

    _: KW_ONLY
    k: Positive | Literal["auto"] = "auto"
    pseudo_count: Positive | Literal["auto"] = "auto"
    parent_weight: ClosedFraction | Literal["auto"] = "auto"
    parent_power: Positive | Literal["auto"] = "auto"
    alpha: OpenFraction | None = 0.002
    min_weight: ClosedFraction = 1e-9
    distance: PolytopeDistance = "scaled"
    calibration: CalibrationMode | Literal["auto"] = "auto"
    max_polytopes: Count | OpenFraction | Literal["auto"] | None = "auto"

    def _calibration_mode(self, has_calibration_rows: bool, X: Any) -> CalibrationMode:
        """Return the source of the outputs that calibrate, for "auto" by the parent.

        It is "oob" for the training rows of a bagged forest, otherwise "held_out".
        """
        if self.calibration != "auto":
            return self.calibration
        parent = self._default_estimator()
        if has_calibration_rows or not is_bagged(parent):
            return "held_out"
        # A frozen forest may be new to the rows; then some of them are held out.
        is_frozen = isinstance(parent, FrozenEstimator)
        return "held_out" if is_frozen and not was_fitted_on(parent, X) else "oob"

    def _add_unseen_outputs(self, rows: Rows, parent: Any, *, always: bool = False) -> Rows:
        try:
            return super()._add_unseen_outputs(rows, parent, always=always)
        except NoOutOfBagRows:
            if self.calibration != "auto":
                raise
            # Behind a sampler or a target encoder, no row is known to be out of bag in a tree.
            self.calibration_ = "cross_fit"
            warnings.warn(
                f"{type(self).__name__} cannot find out which of the {len(rows)} rows are out of"
                f" bag in {type(last_step(parent)).__name__}, and fits it on folds besides, as"
                " calibration='cross_fit' does",
                stacklevel=user_stacklevel(),
            )
            return super()._add_unseen_outputs(rows, parent, always=always)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        # The source has the rows that are predicted without themselves.
        partition, limit = self._partition(), self.max_polytopes
        source: MassSource
        if calibration.unseen is None:
            graph, source = HeldOutRows.with_graph(
                partition, train, calibration, len(self.prior_), self.distance, limit
            )
        elif isinstance(calibration.unseen.source, OutOfBag):
            parent_proba = calibration.predict(self.estimator_)
            graph, source = OutOfBagRows.with_graph(
                partition, train, calibration, parent_proba, self.distance, limit
            )
        else:
            parent_proba = calibration.predict(self.estimator_)
            graphs = self._fold_graphs(train, calibration)
            source = FoldRows(graphs, *search_rows(calibration, parent_proba))
            graph = self._graph_of(partition, train)
        parameters = PosteriorParameters(
            self.k, self.pseudo_count, self.parent_weight, self.parent_power
        )
        self.graph_, self.posterior_ = fit_graph(
            graph, source, self.prior_, parameters, raises=limit == "auto"
        )
        self.log_floor_ = (
            -math.inf
            if self.alpha is None
            else conformal_log_floor(source.floor_log_density(self.graph_), self.alpha)
        )

    def _fold_graphs(self, train: Rows, calibration: Rows) -> list[KernelDensityGraph]:
        """Return the graphs of the parents of the folds, from their source once they are made."""
        options = self._partition_options()
        key = (self.distance, self.max_polytopes, len(self.classes_), *options.items())
        return fold_graphs(
            lambda parent, rows: self._graph_of(self._partition_of(parent, **options), rows),
            train,
            unseen_rows(calibration).source,
            key,
        )

    def _graph_of(self, partition: Partition, rows: Rows) -> KernelDensityGraph:
        return KernelDensityGraph(
            partition,
            partition.locate(rows.X),
            rows.one_hot(len(self.classes_)),
            distance=self.distance,
            limits=GraphLimits.of(self.max_polytopes),
            leave_one_out=self.distance == "scaled",
        )

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        if rows.unseen is None:
            return self.predict_proba(rows.X)
        parent_proba, graph = rows.predict(self.estimator_), self.graph_
        source = (
            OutOfBagRows(graph.partition, rows, parent_proba)
            if isinstance(rows.unseen.source, OutOfBag)
            else FoldRows(self._fold_graphs(rows, rows), rows, parent_proba)
        )
        masses = source.masses_at(graph, self.posterior_.exponents)(slice(None))
        return self._blend(self.posterior_.mix(masses, parent_proba), source.log_density(graph))

    def _blend(self, posterior: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        return blend_with_prior(
            posterior, self.prior_, log_density, self.log_floor_, self.min_weight, clipped=True
        )


# The two parents are mixed into classifiers of different fits, whose parameters they do not repeat.
if TYPE_CHECKING:
    _OfClassifier = GraphClassifier
else:
    _OfClassifier = object


class ForestParent(_OfClassifier):
    """Parent of a kernel density forest: trees, by default the forest of Table 2."""

    def _default_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        return RandomForestClassifier(500, n_jobs=self.n_jobs)


@dataclass(eq=False, repr=False)
class NetworkParent(_OfClassifier):
    """Parent of a kernel density network: a network, by default that of Table 3.

    Parameters
    ----------
    output_bits : bool, default=True
        Count the bits of the output, p > 1/K, as one more layer.
    layers : {"all", "head"}, default="all"
        ReLU-like layers whose units make up the code. "head": those of the dense layers at the end
        of the network, or the last one before them if they have none.
    embedding : {"auto", "head", "last", "input"}, default="auto"
        Space of the Gaussians. "head": the input of these dense layers, which is that of the
        network if it is dense throughout. "last": the input of the last dense layer. "input": the
        input of the network. "auto": "head", but "last" if that has more than 1,024 values.
    """

    _: KW_ONLY
    output_bits: bool = True
    layers: Literal["head", "all"] = "all"
    embedding: Literal["auto", "head", "last", "input"] = "auto"
    required_partition: ClassVar = "network"

    def _default_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from kdgraph.parents.networks import MultilayerPerceptron

        return MultilayerPerceptron(n_jobs=self.n_jobs)

    def _check_parent(self) -> Any:
        parent = super()._check_parent()
        if partition_kind(parent) in ("forest", "boosted"):
            name = type(unwrap_frozen(parent)).__name__
            raise TypeError(
                f"{type(self).__name__} needs a network, got {name}, which consists of trees; use"
                " KernelDensityForest instead"
            )
        return parent

    def _partition_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("output_bits", "layers", "embedding")}


class KernelDensityForest(ForestParent, KernelDensityClassifier):
    """Forest whose probabilities are calibrated and fall back to the prior far from the data.

    Every polytope of the forest that training rows populate has a Gaussian. The posterior of a row
    is computed from the classes of rows that share leaves with it. The Gaussian of its nearest
    polytope measures the distance of the row to the data; below a density floor, which is fitted to
    rows that the density does not contain, the prior replaces the posterior.

    Behind a forest with bootstrap samples no row is held out: the forest is fitted on all rows, and
    the trees that were not fitted on a row, in which it is out of bag, calibrate it.

    Parameters
    ----------
    estimator : estimator, default=None
        A forest, a tree or boosted trees, or a pipeline that ends in them. Cloned and fitted;
        ``FrozenEstimator(fitted)`` is used without fitting. None for a random forest of 500 fully
        grown trees (Table 2).

    Notes
    -----
    The posterior and its fit are original to kdgraph; :mod:`kdgraph.density.published` has those of
    the paper, and :mod:`kdgraph.density.equations` each equation as array code. Let K be the
    fraction of trees in which two rows share a leaf (Eq. 14), and q the parent's probabilities. The
    posterior of one set of parameters is

        p_y(x) = v·q_y(x)^β/Σ_k q_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^(k log n) [y_i = y] + a·P_y)
        / (Σ_i K(x, x_i)^(k log n) + a)

    *Out of bag*, the sum is over all training rows, and a tree counts for the pair of x and x_i
    only if x_i is out of bag in it, and for two training rows only if both are: each pair has its
    own denominator. So no label has shaped a leaf in which it is counted. Every candidate (k, a, v,
    β) of a grid predicts each training row without it, and the posterior is the average of all
    candidates with weights proportional to exp(-Σ NLL). It is mixed with structured matrix scalings
    of q and of itself (Berta et al. 2025), and the mixture with isotonic maps of itself, one for
    each class. Their weights are averaged over grids in the same way, with cross-fitted maps.
    *By cross-fitting*, the sums are those of the parents of the folds. *On held-out rows*, the sum
    is over training and held-out rows, and (k, a, v) minimise the leave-one-out NLL of the held-out
    rows; β is 1 or the inverse temperature with which q alone minimises it.

    The probabilities are

        g_y(x) = w·p_y(x) + (1 - w)·P_y,   w = min(1, f(x) / floor)

    which is Eq. 6 and 7 with another weight (see :func:`kdgraph.density.blend_with_prior`). f is
    the Gaussian density of the polytope whose mean is nearest in units of the spacing between
    polytopes. The polytope that shares most leaves with a row is not used: it may lie far away
    along a long leaf, and a few such rows lower the floor until predictions in the OOD region are
    confident again. The floor is a conformal rank among densities that do not contain their row,
    so that an expected fraction of at most max(α, 1/(n + 1)) of in-distribution rows changes (see
    :class:`~kdgraph.density.DensityGate` for what this takes). Units of features cancel out, unless
    the rows show that a feature hardly varies in training, such as a border pixel. As the distance
    of x to the data grows, f → 0 and g → P (Proposition 2).

    Equal rows: a row whose twin is in bag is not new to the tree. That is right if new rows have
    such twins as often as training rows do, as in tables of few distinct values; copies of rows
    that were made to balance classes should be weights instead.

    References
    ----------
    Dey et al. (2024), Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference. Berta, Holzmüller, Jordan and Bach (2025), "Structured matrix scaling for
    multi-class calibration", arXiv:2511.03685.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> kdf = KernelDensityForest(RandomForestClassifier(50), random_state=0).fit(X, y)
    >>> kdf.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """


@dataclass(eq=False, repr=False)
class KernelDensityNetwork(NetworkParent, KernelDensityClassifier):
    """ReLU network whose probabilities are calibrated and fall back to the prior far from the data.

    It is a :class:`~kdgraph.density.KernelDensityForest` with the partition of a network instead of
    a forest. A polytope is the set of points at which the same units are on, and K is the fraction
    of activation paths on which two points agree (Eq. 16).

    Parameters
    ----------
    estimator : estimator, default=None
        A network of :mod:`kdgraph.parents.networks`, any estimator with ``predict_proba`` and a
        torch module as ``module_``, or a pipeline that ends in one. It is cloned and fitted;
        ``FrozenEstimator(fitted)`` is used without fitting. None for four layers of 1,000 units
        (Table 3).

    Notes
    -----
    A network has no out-of-bag rows, so that ``calibration="auto"`` is "held_out"; "cross_fit" with
    ``cv=3`` takes four fits of the network and holds no row out.

    Nearly all of the time of a fit is the training of the network. With 10,000 rows of four
    features, on one core of a CPU, an epoch of the network of Table 3 takes 2 to 2.6 s, of which
    early stopping does 11 to 50, and graph and posterior together take 1.2 s, at balanced classes
    as at two rows of one. An epoch of two layers of 100 units takes .05 s.

    References
    ----------
    Dey et al. (2024), Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference, Sections 4.4 and 5.2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> network = MultilayerPerceptron(hidden=(20, 20), max_epochs=20)
    >>> kdn = KernelDensityNetwork(network, random_state=0).fit(X, y)
    >>> kdn.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """
