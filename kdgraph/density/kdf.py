"""The kernel density forest."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import RandomForestClassifier

from kdgraph.density.classifier import KernelDensityClassifier


class KernelDensityForest(KernelDensityClassifier):
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
    pseudo_count, vote_share, vote_power : see Notes, "kdgraph" only; "auto" searches them on held-out rows.
    criterion : what the search minimises.
    floor : the density floor of Eq. 6: "auto" from held-out log densities, "paper" for b = exp(-1e-7), a number for the log floor itself,
        None for what the variant prescribes ("auto" for "kdgraph").
    alpha : the expected share of in-distribution rows that an "auto" floor may give up.
    min_weight : the posterior keeps at least this weight in "kdgraph", so that its argmax survives among equal priors.
    distance : by which the nearest polytope is found: "geodesic" (Eq. 17), "euclidean" distance to its mean, "scaled": the same with every
        feature in units of the spacing between polytopes, "whitened": along axes that know which features move together; None for "scaled"
        in "kdgraph" and "geodesic" in the others.
    lend_calibration : "kdgraph" only: let the held-out rows lend their class masses.
    max_polytopes : merge neighbouring polytopes down to this number, or share of the training rows, so that predicting takes bounded time
        and memory; None keeps all.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen estimator give it rows that this was
        not fitted on, ``fit(X, y, X_calibration=…, y_calibration=…)``: see :class:`~kdgraph.parents.PostHoc`.
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

        p_y(x) = v·vote_y(x)^β/Σ_k vote_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^(k log n) [y_i = y] + a·P_y) / (Σ_i K(x, x_i)^(k log n) + a)

    where the sum runs over training and held-out rows, (k, a, v) minimise the leave-one-out NLL of the held-out ones, and β is 1 or the
    inverse temperature with which the vote alone does so, and then

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

    def _default_estimator(self) -> Any:
        return RandomForestClassifier(500, n_jobs=self.n_jobs) if self.estimator is None else self.estimator
