"""What kernel density forests and networks (Dey et al., Sections 3.3 and 4) share: everything but
the partition.

The kernel density forest.

The kernel density network.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from kdgraph.base import Rows
from kdgraph.base.frozen import unwrap_frozen
from kdgraph.density.floor import (
    DensityFloorClassifier,
    blend_with_prior,
    conformal_log_floor,
    paper_log_floor,
)
from kdgraph.density.graph import PolytopeDistance, iterate_blocks
from kdgraph.density.posterior import (
    FOREST_SETTINGS,
    NETWORK_SETTINGS,
    PublishedSettings,
    SearchCriterion,
)
from kdgraph.density.variants import VARIANTS, KernelDensityOptions, VariantName
from kdgraph.geometry import Partition, partition_kind
from kdgraph.parameters import Count, OpenFraction, Positive, Share


@dataclass(eq=False, repr=False)
class KernelDensityClassifier(DensityFloorClassifier):
    """A parent whose probabilities are calibrated inside the training distribution and fall back to
    the class prior far outside it.

    Dey et al. (2024), Eq. 4 to 15.

    Parameters and attributes are explained in :class:`~kdgraph.density.KernelDensityForest`; a
    subclass says how its parent is read.
    """

    estimator: Any = None
    _: KW_ONLY
    variant: VariantName = "kdgraph"
    k: Positive | Literal["auto"] = "auto"
    pseudo_count: Positive | Literal["auto"] = "auto"
    vote_share: Share | Literal["auto"] = "auto"
    vote_power: Positive | Literal["auto"] = "auto"
    criterion: SearchCriterion = "nll"
    floor: float | Literal["auto", "paper"] | None = None
    distance: PolytopeDistance | None = None
    use_calibration_rows: bool = True
    max_polytopes: Count | OpenFraction | None = None

    published_settings: ClassVar[PublishedSettings] = FOREST_SETTINGS

    def _distance_estimator(self) -> Any:
        return self._default_estimator()

    def _partition(self) -> Partition:
        return self._partition_of(self.estimator_)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        own = {
            field.name: getattr(self, field.name)
            for field in fields(KernelDensityOptions)
            if field.name != "published_settings"
        }
        fitted = VARIANTS[self.variant](
            self._partition(),
            train,
            calibration,
            self.prior_,
            KernelDensityOptions(**own, published_settings=self.published_settings),
        )
        self.graph_, self.posterior_ = fitted.graph, fitted.posterior
        floor = fitted.log_floor if self.floor is None else self.floor
        if floor == "paper":
            floor = paper_log_floor(len(train))
        self.log_floor_ = (
            conformal_log_floor(fitted.held_out_log_density, self.alpha)
            if floor in (None, "auto")
            else float(floor)
        )

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] and Float[n]: :meth:`predict_proba` and :meth:`log_density` of the rows X
        (Float[n, d]), in blocks.
        """
        proba, log_density = zip(
            *(self._predict_block(block) for block in iterate_blocks(self._validate_X(X))),
            strict=True,
        )
        return np.concatenate(proba), np.concatenate(log_density)

    def _predict_block(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        visit = self.graph_.query(self.graph_.partition.locate(X), self.posterior_.exponents)
        posterior, log_density = self.posterior_(visit, self.graph_)
        min_weight = self.min_weight if self.variant == "kdgraph" else 0.0
        return blend_with_prior(
            posterior, self.prior_, log_density, self.log_floor_, min_weight
        ), log_density

    def _searched_parameters(self) -> dict[str, float]:
        names = ("exponent", "pseudo_count", "vote_share", "vote_power")
        return {
            name: getattr(self.posterior_, name) for name in names if hasattr(self.posterior_, name)
        }


class KernelDensityForest(KernelDensityClassifier):
    """A forest whose probabilities are calibrated inside the training distribution and fall back to
    the class prior far outside it.

    Every polytope of the forest that training rows populate carries a Gaussian. A row's posterior
    comes from the classes of rows that share leaves with it; the Gaussian of its nearest polytope
    says how far the row is from the data, and below a density floor learnt on held-out rows the
    posterior gives way to the prior.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, or a pipeline that ends in one; None for 500 fully
        grown random trees (Table 2). Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it
        is.
    variant : "kdgraph" (see Notes), "paper" (Eq. 4 to 15 and Table 2 as printed), "reference" (what
        made the in-distribution columns of Figures 2 and 5 to 8), "figure1" (what made Figure 1).
    k : factor of log n in the exponent of Eq. 15 (the whole exponent in "reference" and "figure1");
    "auto" searches it on held-out rows.
    pseudo_count, vote_share, vote_power : see Notes, "kdgraph" only; "auto" searches them on
    held-out rows.
    criterion : what the search minimises.
    floor : the density floor of Eq. 6: "auto" from held-out log densities, "paper" for b =
        exp(-1e-7), a number for the log floor itself, None for what the variant prescribes ("auto"
        for "kdgraph").
    alpha : the expected share of in-distribution rows that an "auto" floor may give up.
    min_weight : the posterior keeps at least this weight in "kdgraph", so that its argmax survives
    among equal priors.
    distance : by which the nearest polytope is found: "geodesic" (Eq. 17), "euclidean" distance to
        its mean, "scaled": the same with every feature in units of the spacing between polytopes,
        "whitened": along axes that know which features move together; None for "scaled" in
        "kdgraph" and "geodesic" in the others.
    use_calibration_rows : "kdgraph" only: let the held-out rows lend their class masses.
    max_polytopes : merge neighbouring polytopes down to this number, or share of the training rows,
        so that predicting takes bounded time and memory; None keeps all.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, and the forest where it has no seed of its own.

    Attributes
    ----------
    estimator_, classes_, prior_ : the fitted forest, its labels, the class shares of the training
    rows.
    graph_ : the populated polytopes.
    posterior_ : the posterior inside the training distribution, with what the search chose.
    log_floor_ : the log density floor.

    Notes
    -----
    With K the share of trees in which two rows share a leaf (Eq. 14), the "kdgraph" variant takes

        p_y(x) = v·vote_y(x)^β/Σ_k vote_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^(k log n) [y_i = y] + a·P_y)
        / (Σ_i K(x, x_i)^(k log n) + a)

    where the sum runs over training and held-out rows, (k, a, v) minimise the leave-one-out NLL of
    the held-out ones, and β is 1 or the inverse temperature with which the vote alone does so, and
    then

        g_y(x) = w·p_y(x) + (1 - w)·P_y,   w = f(x) / (f(x) + floor)

    which is Eq. 6 and 7 (see :func:`kdgraph.density.blend_with_prior`); f is the Gaussian density at the
    polytope whose mean is nearest in units of the spacing between polytopes. (The polytope that
    shares most leaves with a row may lie far away along a long leaf; a few such rows among the
    held-out ones pull the floor down until the far field is confident again.) Units of features
    cancel out, unless held-out rows show that a feature hardly varies in training, such as a border
    pixel. As x leaves the data, f → 0 and g → P (Proposition 2). At "paper"'s floor, w is near 0
    for most in-distribution rows too: the forest's accuracy is lost.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> kdf = KernelDensityForest(RandomForestClassifier(50), random_state=0).fit(X, y)
    >>> kdf.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """

    def _default_estimator(self) -> Any:
        return (
            RandomForestClassifier(500, n_jobs=self.n_jobs)
            if self.estimator is None
            else self.estimator
        )


@dataclass(eq=False, repr=False)
class KernelDensityNetwork(KernelDensityClassifier):
    """A ReLU network whose probabilities are calibrated inside the training distribution and fall
    back to the class prior far outside it.

    Everything is as in :class:`~kdgraph.density.KernelDensityForest`, with the network's partition
    in place of the forest's: a polytope is the set of points that switch the same units on, and K
    is the share of activation paths on which two points agree (Eq. 16).

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, anything with ``predict_proba`` and a
        torch module as ``module_``, or a pipeline that ends in one; None for four layers of 1,000
        units (Table 3). Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is.
    variant, k, pseudo_count, vote_share, vote_power, criterion, floor, alpha, min_weight, distance,
    use_calibration_rows, max_polytopes,
    calibration_size, n_jobs, random_state : as in :class:`~kdgraph.density.KernelDensityForest`; of
        "reference" and "figure1", what was published for networks.
    output_bits : whether the output's bits, p > 1/K, count as one more layer.
    layers : the ReLU-like layers whose units are read: "all", or "head", those of the dense layers
        at the network's end (the one before them if they have none).
    embedding : the space of the Gaussians: "head", what enters these dense layers (of a network
        that is dense throughout: the features), "last", what enters the last of them, "input", or
        "auto": "head", but "last" if that has more than 1,024 numbers.

    Attributes
    ----------
    estimator_, classes_, prior_, graph_, posterior_, log_floor_ : as in
        :class:`~kdgraph.density.KernelDensityForest`.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference, Sections 4.4 and 5.2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> kdn = KernelDensityNetwork(MultilayerPerceptron(hidden=(20, 20), max_epochs=20), random_state=0).fit(X, y)
    >>> kdn.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """

    output_bits: bool = True
    layers: Literal["head", "all"] = "all"
    embedding: Literal["auto", "head", "last", "input"] = "auto"

    published_settings: ClassVar[PublishedSettings] = NETWORK_SETTINGS
    required_partition: ClassVar = "network"

    def _default_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from kdgraph.parents.networks import MultilayerPerceptron

        return MultilayerPerceptron(n_jobs=self.n_jobs)

    def _check_parent(self) -> Any:
        parent = super()._check_parent()
        if partition_kind(parent) == "forest":
            name = type(unwrap_frozen(parent)).__name__
            raise TypeError(
                f"KernelDensityNetwork needs a network, got {name}, a forest; use"
                " KernelDensityForest in its place"
            )
        return parent

    def _partition(self) -> Partition:
        reading = {name: getattr(self, name) for name in ("output_bits", "layers", "embedding")}
        return self._partition_of(self.estimator_, **reading)
