"""The published versions and the default against the equations of the paper, with all pairs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.density import KernelDensityGraph, equations
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    PARENT_POWER_GRID,
    PARENT_WEIGHT_GRID,
    PSEUDO_COUNT_GRID,
    temper,
)
from kdgraph.density.published import (
    Figure1Forest,
    PaperForest,
    ReferenceForest,
    published_variances,
    weighted_gaussians,
)
from kdgraph.errors import ParameterError
from kdgraph.geometry import polytopes_of

# log densities down to -1e7 (variances of 1e-6) are differences of rounded numbers; probabilities
# follow their exponentials
ROUNDING = 1e-9


class Dense:
    """The equations with arrays of all polytopes × all rows."""

    def __init__(self, problem, distance="geodesic"):
        self.problem, self.distance = problem, distance
        self.X, self.n = problem.train.X, len(problem.train)
        self.codes = problem.forest.apply(self.X)
        polytopes = polytopes_of(self.codes)
        self.polytope_of_row, self.size = polytopes.polytope_of_row, polytopes.sizes
        self.polytopes = self.codes[polytopes.representatives]
        self.means, self.printed = equations.gaussians(self.X, self.polytope_of_row)
        self.squares = self.printed * self.size[:, None] - equations.LAMBDA
        self.kernel = equations.forest_similarity(self.polytopes, self.codes)
        self.one_hot = np.eye(len(problem.prior))[problem.train.y]

    def nearest(self, X):
        """Eq. 4 with the distance of Eq. 17, or with the Euclidean distance, plain or in units
        of the spacing.
        """
        unit = np.sqrt(self.spacing()) if self.distance == "scaled" else 1.0
        if self.distance != "geodesic":
            return equations.nearest_polytope(cdist(X / unit, self.means / unit))
        similarity = equations.forest_similarity(self.problem.forest.apply(X), self.polytopes)
        return equations.nearest_polytope(equations.geodesic_distance(similarity))

    def spacing(self):
        """Mean squared difference to the nearest other mean, by feature."""
        unit = self.means.std(axis=0)
        distance = cdist(self.means / unit, self.means / unit)
        np.fill_diagonal(distance, np.inf)
        return ((self.means - self.means[distance.argmin(axis=1)]) ** 2).mean(axis=0)

    def log_gaussian(self, X, variances):
        r = self.nearest(X)
        return equations.log_gaussian(X, self.means[r], variances[r]), r

    def predict_proba(self, X, exponent, variances, log_b):
        log_density, r = self.log_gaussian(X, variances)
        ratios = equations.class_ratios(self.kernel**exponent, self.one_hot)[r]
        log_f = equations.class_densities(log_density, ratios)
        return equations.confidence(log_f, self.problem.prior, log_b)

    def posterior(self, X, exponent):
        ratios = equations.class_ratios(self.kernel**exponent, self.one_hot)
        joint = ratios[self.nearest(X)] * self.problem.prior
        return joint / joint.sum(axis=1, keepdims=True)


def nine_bin_ece(y, proba):
    """Return the calibration error of the published implementation: edges linspace(0, 1, 10),
    right-closed.
    """
    confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == y
    edges = np.linspace(0, 1, 10)
    bins = [(confidence > low) & (confidence <= high) for low, high in pairwise(edges)]
    return sum(
        m.sum() * abs(correct[m].mean() - confidence[m].mean()) for m in bins if m.any()
    ) / len(y)


def clipped_nll(y, proba):
    return -np.log(np.maximum(proba[np.arange(len(y)), y], 1e-6)).sum()


def fit_kdf(problem, version=KernelDensityForest, **options):
    kdf = version(FrozenEstimator(problem.forest), **options)
    return kdf.fit(
        problem.train.X,
        problem.train.y,
        X_calibration=problem.held_out.X,
        y_calibration=problem.held_out.y,
    )


def make_queries(problem):
    """In the data, on it, around it and far from it."""
    return np.vstack(
        [problem.test.X, problem.train.X[:20], 1.2 * problem.test.X[:20], 10 * problem.test.X[:20]]
    )


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
@pytest.mark.parametrize("floor", [None, -30.0, -1e4])
def test_paper_version_matches_dense_equations(problem, distance, floor):
    dense = Dense(problem, distance)
    variances = dense.printed
    exponents = EXPONENT_FACTOR_GRID * math.log(dense.n)
    scores = [
        clipped_nll(problem.held_out.y, dense.posterior(problem.held_out.X, e)) for e in exponents
    ]
    kdf = fit_kdf(problem, PaperForest, distance=distance, floor=floor)
    assert kdf.posterior_.exponent == exponents[np.argmin(scores)]
    log_b = -1e-7 - math.log(math.log(dense.n)) if floor is None else floor
    assert kdf.log_floor_ == pytest.approx(log_b, abs=1e-15)
    X = make_queries(problem)
    expected = dense.predict_proba(X, kdf.posterior_.exponent, variances, log_b)
    np.testing.assert_allclose(kdf.predict_proba(X), expected, atol=ROUNDING)
    assert (
        np.abs(expected - problem.prior).max() > 0.05
    )  # not all predictions are equal to the prior


def test_paper_version_with_fixed_k(problem):
    dense = Dense(problem)
    kdf = fit_kdf(problem, PaperForest, k=0.3, floor=-1e9)
    assert kdf.posterior_.exponent == equations.exponent(0.3, dense.n)
    np.testing.assert_allclose(
        kdf.predict_proba(problem.test.X),
        dense.posterior(problem.test.X, 0.3 * math.log(dense.n)),
        atol=ROUNDING,
    )


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
def test_reference_version_matches_dense_equations(problem, distance):
    dense = Dense(problem, distance)
    variances = dense.squares / dense.size[:, None] + 1e-6

    def score(exponent):
        return nine_bin_ece(problem.held_out.y, dense.posterior(problem.held_out.X, exponent))

    first = min(np.arange(1.0, 20.0, 2.0), key=score)  # min returns the first of equal values
    best = min(first + np.arange(10) * 0.2, key=score)
    kdf = fit_kdf(problem, ReferenceForest, distance=distance)
    assert kdf.posterior_.exponent == pytest.approx(best, abs=1e-12)
    assert kdf.log_floor_ == -1e100
    X = make_queries(problem)
    np.testing.assert_allclose(
        kdf.predict_proba(X), dense.predict_proba(X, best, variances, -1e100), atol=ROUNDING
    )


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
def test_figure1_version_matches_dense_equations(problem, distance):
    dense = Dense(problem, distance)
    weights = dense.kernel  # K^(1 + ⌊log10(n)/3⌋) is K itself below n = 1,000
    squares = (dense.X[None] - dense.means[:, None]) ** 2
    variances = ((weights[:, :, None] * squares).sum(axis=1) + 1e-6) / weights.sum(axis=1)[:, None]
    d = dense.X.shape[1]
    log_b = math.log(1e9) - 10 ** math.sqrt(d) - math.log10(dense.n)
    kdf = fit_kdf(problem, Figure1Forest, distance=distance)
    assert kdf.posterior_.exponent == 1
    np.testing.assert_allclose(kdf.graph_.gaussians.variances, variances, rtol=1e-9)
    X = make_queries(problem)
    np.testing.assert_allclose(
        kdf.predict_proba(X), dense.predict_proba(X, 1, variances, log_b), atol=ROUNDING
    )


@pytest.mark.parametrize(("n", "exponent"), [(999, 1), (1000, 2)])
def test_figure1_exponent_increases_at_a_thousand_rows(spirals, n, exponent):
    X, y = spirals(n, 0)
    kdf = Figure1Forest(RandomForestClassifier(3, random_state=0))
    assert kdf.fit(X, y, X_calibration=X[:50], y_calibration=y[:50]).posterior_.exponent == exponent


def test_weighted_variances_survive_an_offset(problem):
    """Sums of w·x² cancel. About the mean of all rows they keep the digits that remain in the
    rows after an offset of 1e6.
    """
    train = problem.partition.locate(problem.train.X)
    graph = KernelDensityGraph(
        problem.partition,
        train,
        problem.train.one_hot(len(problem.prior)),
        variance=published_variances,
    )
    expected = weighted_gaussians(graph, train.points, 1.0).variances
    shifted_graph = KernelDensityGraph(
        problem.partition,
        type(train)(train.points + 1e6, train.codes),
        problem.train.one_hot(len(problem.prior)),
        variance=published_variances,
    )
    np.testing.assert_allclose(
        weighted_gaussians(shifted_graph, train.points + 1e6, 1.0).variances,
        expected,
        rtol=1e-6,
    )


def test_default_on_held_out_rows_matches_dense_equations(problem):
    dense, held_out = Dense(problem, "scaled"), problem.held_out
    counted = np.vstack([problem.train.X, held_out.X])
    labels = np.eye(len(problem.prior))[np.concatenate([problem.train.y, held_out.y])]
    counted_codes = problem.forest.apply(counted)

    def masses(X, exponent, without_self=False):
        kernel = equations.forest_similarity(problem.forest.apply(X), counted_codes) ** exponent
        if without_self:
            kernel[np.arange(len(X)), dense.n + np.arange(len(X))] = 0
        return kernel @ labels

    best, lowest = None, math.inf
    parent_proba = problem.forest.predict_proba(held_out.X)
    nll = [clipped_nll(held_out.y, temper(parent_proba, power)) for power in PARENT_POWER_GRID]
    for k in EXPONENT_FACTOR_GRID:
        exponent = equations.exponent(k, dense.n)
        own = masses(held_out.X, exponent, without_self=True)
        for power in (1.0, PARENT_POWER_GRID[np.argmin(nll)]):
            for a in PSEUDO_COUNT_GRID:
                for v in PARENT_WEIGHT_GRID:
                    candidate = (a, v, power)
                    score = clipped_nll(
                        held_out.y,
                        equations.query_posterior(own, parent_proba, problem.prior, *candidate),
                    )
                    if score < lowest - 1e-9:
                        best, lowest = (exponent, *candidate), score
    kdf = fit_kdf(problem)
    summary = kdf.describe()
    names = ("exponent", "pseudo_count", "parent_weight", "parent_power")
    assert [summary[name] for name in names] == pytest.approx(best, rel=1e-12)

    variances = (dense.squares + dense.spacing()) / (dense.size[:, None] + 1)
    held_out_density = np.sort(dense.log_gaussian(held_out.X, variances)[0])
    floor = held_out_density[0] - 0.5 * (
        np.median(held_out_density) - held_out_density[0]
    )  # fewer than 499 rows at alpha = .002
    assert kdf.log_floor_ == pytest.approx(floor, rel=1e-12)

    X = make_queries(problem)
    exponent, *candidate = best
    posterior = equations.query_posterior(
        masses(X, exponent), problem.forest.predict_proba(X), problem.prior, *candidate
    )
    above = dense.log_gaussian(X, variances)[0] - floor
    weight = np.maximum(np.exp(np.minimum(above, 0)), 1e-9)[:, None]
    np.testing.assert_allclose(
        kdf.predict_proba(X), weight * posterior + (1 - weight) * problem.prior, atol=ROUNDING
    )


def test_network_similarity_is_the_fraction_of_equal_paths():
    rng = np.random.default_rng(0)
    first, second = rng.random((3, 2)) < 0.5, rng.random((3, 3)) < 0.5
    paths = np.array([[(a, b) for a in x for b in y] for x, y in zip(first, second, strict=True)])
    expected = [[(p == q).all(axis=1).mean() for q in paths] for p in paths]
    similarity = equations.network_similarity([first, second], [first, second])
    np.testing.assert_allclose(similarity, expected, atol=1e-15)


@pytest.mark.parametrize("version", [PaperForest, ReferenceForest, Figure1Forest])
def test_automatic_floor_works_for_all_versions(problem, version):
    kdf = fit_kdf(problem, version, floor="auto", alpha=0.2)
    log_density = kdf.posterior_(
        kdf.graph_.query(problem.partition.locate(problem.held_out.X), kdf.posterior_.exponents),
        kdf.graph_,
    )[1]
    rank = math.floor((len(problem.held_out) + 1) * 0.2)
    assert kdf.log_floor_ == np.sort(log_density)[rank - 1]
    assert np.abs(kdf.predict_proba(problem.test.X + 100) - problem.prior).max() <= 1e-9


def test_paper_floor_exceeds_in_distribution_densities(problem):
    """Gaussian densities of polytopes that are 1e-6 wide vanish between the training rows."""
    proba = fit_kdf(problem, PaperForest).predict_proba(problem.test.X)
    assert (np.abs(proba - problem.prior).max(axis=1) < 1e-6).mean() > 0.5


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_published_versions_hold_rows_out(problem, calibration):
    model = PaperForest(problem.forest, calibration=calibration)
    with pytest.raises(ParameterError, match="PaperForest is calibrated on held-out rows"):
        model.fit(problem.train.X, problem.train.y)
