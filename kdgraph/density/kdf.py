"""The kernel density forest."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from kdgraph.density.floor import blend, conformal_log_floor, printed_log_floor
from kdgraph.density.graph import Distance, in_blocks
from kdgraph.density.search import Criterion
from kdgraph.density.variants import VARIANTS, Name, Options
from kdgraph.geometry import partition_of
from kdgraph.parameters import OpenFraction, Positive, Share
from kdgraph.parents import PostHocClassifier, Rows


class KernelDensityForest(PostHocClassifier):
    """A forest whose probabilities are calibrated inside the training distribution and fall back to the class prior far outside it.

    Every polytope of the forest that training rows populate carries a Gaussian. A row's posterior comes from the classes of rows that share
    leaves with it; the Gaussian of its nearest polytope says how far the row is from the data, and below a density floor learnt on
    held-out rows the posterior gives way to the prior.

    Parameters
    ----------
    estimator : a forest or tree of scikit-learn, or a pipeline that ends in one; None for 500 fully grown random trees (Table 2).
        Cloned and fitted; ``FrozenEstimator(fitted)`` is used as it is.
    variant : "kdgraph" (see Notes), "paper" (Eq. 4 to 15 and Table 2 as printed), "reference" (what made the in-distribution columns of
        Figures 2 and 5 to 8), "figure1" (what made Figure 1).
    k : factor of log n in the exponent of Eq. 15 (the whole exponent in "reference" and "figure1"); "auto" searches it on held-out rows.
    pseudo_count, vote_share : see Notes, "kdgraph" only; "auto" searches them on held-out rows.
    criterion : what the search minimises.
    floor : the density floor of Eq. 6: "auto" from held-out log densities, "paper" for b = exp(-1e-7), a number for the log floor itself,
        None for what the variant prescribes ("auto" for "kdgraph").
    alpha : the expected share of in-distribution rows that an "auto" floor may give up.
    min_weight : the posterior keeps at least this weight in "kdgraph", so that its argmax survives among equal priors.
    distance : by which the nearest polytope is found: "geodesic" (Eq. 17), "euclidean" distance to its mean, "scaled": the same with every
        feature in units of the spacing between polytopes; None for "scaled" in "kdgraph" and "geodesic" in the others.
    lend_calibration : "kdgraph" only: let the held-out rows lend their class masses.
    calibration_size : share of the rows to hold out where ``fit`` is not given any.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, and the forest where it has no seed of its own.

    Attributes
    ----------
    estimator_, classes_, prior_ : the fitted forest, its labels, the class shares of the training rows.
    graph_ : the populated polytopes.
    posterior_ : the posterior inside the training distribution, with what the search chose.
    log_floor_ : the log density floor.

    Notes
    -----
    With K the share of trees in which two rows share a leaf (Eq. 14), the "kdgraph" variant takes

        p_y(x) = v·vote_y(x) + (1 - v)·(Σ_i K(x, x_i)^(k log n) [y_i = y] + a·P_y) / (Σ_i K(x, x_i)^(k log n) + a)

    where the sum runs over training and held-out rows and (k, a, v) minimise the leave-one-out NLL of the held-out ones, and then

        g_y(x) = w·p_y(x) + (1 - w)·P_y,   w = f(x) / (f(x) + floor)

    which is Eq. 6 and 7 (see :func:`kdgraph.density.blend`); f is the Gaussian density at the polytope whose mean is nearest in units of
    the spacing between polytopes. (The polytope that shares most leaves with a row may lie far away along a long leaf; a few such rows
    among the held-out ones pull the floor down until the far field is confident again.) Units of features cancel out, unless held-out
    rows show that a feature hardly varies in training, such as a border pixel. As x leaves the data, f → 0 and g → P
    (Proposition 2). At "paper"'s floor, w is near 0 for most in-distribution rows too: the forest's accuracy is lost.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution calibrated inference.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> kdf = KernelDensityForest(RandomForestClassifier(50), random_state=0).fit(X, y)
    >>> kdf.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        variant: Name = "kdgraph",
        k: Positive | Literal["auto"] = "auto",
        pseudo_count: Positive | Literal["auto"] = "auto",
        vote_share: Share | Literal["auto"] = "auto",
        criterion: Criterion = "nll",
        floor: float | Literal["auto", "paper"] | None = None,
        alpha: OpenFraction = 0.005,
        min_weight: Share = 1e-9,
        distance: Distance | None = None,
        lend_calibration: bool = True,
        calibration_size: OpenFraction = 0.3,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.variant = variant
        self.k = k
        self.pseudo_count = pseudo_count
        self.vote_share = vote_share
        self.criterion = criterion
        self.floor = floor
        self.alpha = alpha
        self.min_weight = min_weight
        self.distance = distance
        self.lend_calibration = lend_calibration
        self.calibration_size = calibration_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _default_estimator(self) -> Any:
        return RandomForestClassifier(500, n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        partition = partition_of(self.estimator_, n_jobs=self.n_jobs)
        options = Options(**{field.name: getattr(self, field.name) for field in fields(Options)})
        fitted = VARIANTS[self.variant](partition, train, calibration, self.prior_, options)
        self.graph_, self.posterior_ = fitted.graph, fitted.posterior
        floor = fitted.log_floor if self.floor is None else self.floor
        if floor == "paper":
            floor = printed_log_floor(len(train))
        self.log_floor_ = conformal_log_floor(fitted.held_out_log_density, self.alpha) if floor in (None, "auto") else float(floor)

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: calibrated class probabilities; rows are finite and sum to 1 however far ``X`` (Float[n, d]) is from the data."""
        return in_blocks(self._proba, self._checked(X))

    def _proba(self, X: np.ndarray) -> np.ndarray:
        visit = self.graph_.visit(self.graph_.partition.place(X), self.posterior_.exponents)
        posterior, log_density = self.posterior_(visit, self.graph_)
        return blend(posterior, self.prior_, log_density, self.log_floor_, self.min_weight if self.variant == "kdgraph" else 0.0)

    def describe(self) -> dict[str, float | int]:
        """What was learnt, for the record: polytopes, the share of them that hold one row, what the search chose, the log floor."""
        polytopes, chosen = self.graph_.polytopes, ("exponent", "pseudo_count", "vote_share")
        return {
            "n_polytopes": len(polytopes),
            "singleton_share": polytopes.singleton_share,
            **{name: getattr(self.posterior_, name) for name in chosen if hasattr(self.posterior_, name)},
            "log_floor": self.log_floor_,
        }
