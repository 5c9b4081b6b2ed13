"""Every variant against a dense implementation written from the equations of the paper, n × n
similarities and all.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.density import KernelDensityGraph, variants
from kdgraph.density.gaussians import published_variances
from kdgraph.density.posterior import EXPONENT_FACTOR_GRID, PSEUDO_COUNT_GRID, VOTE_SHARE_GRID

# log densities down to -1e7 (variances of 1e-6) are differences of rounded numbers; probabilities
# follow their exponentials
ROUNDING = 1e-9


class DenseReference:
    """Eq. 4 to 15 and 17 with arrays of all polytopes × all rows, polytopes in order of first
    appearance.
    """

    def __init__(self, problem, distance="geodesic"):
        self.problem, self.distance = problem, distance
        self.X, self.y, self.n = problem.train.X, problem.train.y, len(problem.train)
        self.codes = problem.forest.apply(self.X)
        _, first, inverse = np.unique(self.codes, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        self.polytope_of_row = np.argsort(order)[inverse.ravel()]
        self.polytopes = self.codes[first[order]]
        self.size = np.bincount(self.polytope_of_row)
        self.means = np.array(
            [self.X[self.polytope_of_row == r].mean(axis=0) for r in range(len(self.size))]
        )
        self.squares = np.array(
            [
                ((self.X[self.polytope_of_row == r] - self.means[r]) ** 2).sum(axis=0)
                for r in range(len(self.size))
            ]
        )
        self.kernel = self.similarity(self.polytopes, self.codes)
        self.one_hot = np.eye(len(problem.prior))[self.y]

    @staticmethod
    def similarity(a, b):
        """Eq. 14."""
        return (a[:, None, :] == b[None, :, :]).mean(axis=2)

    def nearest(self, X):
        """Eq. 4 with the distance of Eq. 17, or with the Euclidean distance, plain or in units
        of the spacing.
        """
        if self.distance == "euclidean":
            return cdist(X, self.means).argmin(axis=1)
        if self.distance == "scaled":
            unit = np.sqrt(self.spacing())
            return cdist(X / unit, self.means / unit).argmin(axis=1)
        return (1 - self.similarity(self.problem.forest.apply(X), self.polytopes)).argmin(axis=1)

    def spacing(self):
        """Mean squared difference to the nearest other mean, by feature."""
        unit = self.means.std(axis=0)
        distance = cdist(self.means / unit, self.means / unit)
        np.fill_diagonal(distance, np.inf)
        return ((self.means - self.means[distance.argmin(axis=1)]) ** 2).mean(axis=0)

    def ratio(self, exponent):
        """n_ry / n_y of Eq. 11 with the weights of Eq. 15."""
        masses = self.kernel**exponent @ self.one_hot
        return masses / masses.sum(axis=0)

    def log_gaussian(self, X, variances):
        r = self.nearest(X)
        return norm.logpdf(X, self.means[r], np.sqrt(variances[r])).sum(axis=1), r

    def predict_proba(self, X, exponent, variances, log_b):
        """Eq. 13, 6 and 7, by logs of the sums."""
        log_density, r = self.log_gaussian(X, variances)
        with np.errstate(divide="ignore"):
            log_f = np.logaddexp(log_density[:, None] + np.log(self.ratio(exponent)[r]), log_b)
        joint = log_f + np.log(self.problem.prior)
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])

    def posterior(self, X, exponent):
        joint = self.ratio(exponent)[self.nearest(X)] * self.problem.prior
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


def fit_kdf(problem, **options):
    kdf = KernelDensityForest(FrozenEstimator(problem.forest), **options)
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
def test_paper_variant_matches_dense_equations(problem, distance, floor):
    dense = DenseReference(problem, distance)
    variances = (dense.squares + 1e-6) / dense.size[:, None]
    exponents = EXPONENT_FACTOR_GRID * math.log(dense.n)
    scores = [
        clipped_nll(problem.held_out.y, dense.posterior(problem.held_out.X, e)) for e in exponents
    ]
    kdf = fit_kdf(problem, variant="paper", distance=distance, floor=floor)
    assert kdf.posterior_.exponent == exponents[np.argmin(scores)]
    log_b = -1e-7 - math.log(math.log(dense.n)) if floor is None else floor
    assert kdf.log_floor_ == pytest.approx(log_b, abs=1e-15)
    X = make_queries(problem)
    expected = dense.predict_proba(X, kdf.posterior_.exponent, variances, log_b)
    np.testing.assert_allclose(kdf.predict_proba(X), expected, atol=ROUNDING)
    assert (
        np.abs(expected - problem.prior).max() > 0.05
    )  # not all predictions are equal to the prior


def test_paper_variant_with_fixed_k_and_with_ece(problem):
    dense = DenseReference(problem)
    kdf = fit_kdf(problem, variant="paper", k=0.3, floor=-1e9)
    assert kdf.posterior_.exponent == 0.3 * math.log(dense.n)
    np.testing.assert_allclose(
        kdf.predict_proba(problem.test.X),
        dense.posterior(problem.test.X, 0.3 * math.log(dense.n)),
        atol=ROUNDING,
    )
    by_ece = fit_kdf(problem, variant="paper", criterion="ece").posterior_.exponent
    candidates = EXPONENT_FACTOR_GRID * math.log(dense.n)
    edges = np.arange(16) / 15

    def error(proba):
        confidence, correct = proba.max(axis=1), proba.argmax(axis=1) == problem.held_out.y
        bins = [(confidence > low) & (confidence <= high) for low, high in pairwise(edges)]
        return sum(abs(correct[m].sum() - confidence[m].sum()) for m in bins) / len(correct)

    scores = [error(dense.posterior(problem.held_out.X, e)) for e in candidates]
    assert by_ece == candidates[np.argmin(scores)]


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
def test_reference_variant_matches_dense_equations(problem, distance):
    dense = DenseReference(problem, distance)
    variances = dense.squares / dense.size[:, None] + 1e-6

    def score(exponent):
        return nine_bin_ece(problem.held_out.y, dense.posterior(problem.held_out.X, exponent))

    first = min(np.arange(1.0, 20.0, 2.0), key=score)  # min returns the first of equal values
    best = min(first + np.arange(10) * 0.2, key=score)
    kdf = fit_kdf(problem, variant="reference", distance=distance)
    assert kdf.posterior_.exponent == pytest.approx(best, abs=1e-12)
    assert kdf.log_floor_ == -1e100
    X = make_queries(problem)
    np.testing.assert_allclose(
        kdf.predict_proba(X), dense.predict_proba(X, best, variances, -1e100), atol=ROUNDING
    )


@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
def test_figure1_variant_matches_dense_equations(problem, distance):
    dense = DenseReference(problem, distance)
    weights = dense.kernel  # K^(1 + ⌊log10(n)/3⌋) is K itself below n = 1,000
    squares = (dense.X[None] - dense.means[:, None]) ** 2
    variances = ((weights[:, :, None] * squares).sum(axis=1) + 1e-6) / weights.sum(axis=1)[:, None]
    d = dense.X.shape[1]
    log_b = math.log(1e9) - 10 ** math.sqrt(d) - math.log10(dense.n)
    kdf = fit_kdf(problem, variant="figure1", distance=distance)
    assert kdf.posterior_.exponent == 1
    np.testing.assert_allclose(kdf.graph_.gaussians.variances, variances, rtol=1e-9)
    X = make_queries(problem)
    np.testing.assert_allclose(
        kdf.predict_proba(X), dense.predict_proba(X, 1, variances, log_b), atol=ROUNDING
    )


@pytest.mark.parametrize(("n", "exponent"), [(999, 1), (1000, 2)])
def test_figure1_exponent_increases_at_a_thousand_rows(spirals, n, exponent):
    X, y = spirals(n, 0)
    kdf = KernelDensityForest(RandomForestClassifier(3, random_state=0), variant="figure1")
    assert kdf.fit(X, y, X_calibration=X[:50], y_calibration=y[:50]).posterior_.exponent == exponent


def test_weighted_variances_survive_an_offset(problem):
    """Sums of w·x² cancel. About the mean of all rows they keep the digits that remain in the
    rows after an offset of 1e6.
    """
    train = problem.partition.locate(problem.train.X)
    graph = KernelDensityGraph(
        problem.partition, train, problem.train.one_hot(len(problem.prior)), published_variances
    )
    expected = variants.weighted_gaussians(graph, train.points, 1.0).variances
    shifted_graph = KernelDensityGraph(
        problem.partition,
        type(train)(train.points + 1e6, train.codes),
        problem.train.one_hot(len(problem.prior)),
        published_variances,
    )
    np.testing.assert_allclose(
        variants.weighted_gaussians(shifted_graph, train.points + 1e6, 1.0).variances,
        expected,
        rtol=1e-6,
    )


@pytest.mark.parametrize("lend", [True, False])
def test_kdgraph_variant_matches_dense_equations(problem, lend):
    dense, held_out = DenseReference(problem, "scaled"), problem.held_out
    lenders = np.vstack([problem.train.X, held_out.X]) if lend else problem.train.X
    labels = np.eye(len(problem.prior))[
        np.concatenate([problem.train.y, held_out.y]) if lend else problem.train.y
    ]
    lender_codes = problem.forest.apply(lenders)

    def smoothed(X, exponent, a, without_self=False):
        kernel = dense.similarity(problem.forest.apply(X), lender_codes) ** exponent
        if without_self:
            kernel[np.arange(len(X)), dense.n + np.arange(len(X))] = 0
        masses = kernel @ labels
        return (masses + a * problem.prior) / (masses.sum(axis=1) + a)[:, None]

    best, lowest = None, math.inf
    vote = problem.forest.predict_proba(held_out.X)
    for exponent in EXPONENT_FACTOR_GRID * math.log(dense.n):
        for a in PSEUDO_COUNT_GRID:
            smoothed_proba = smoothed(held_out.X, exponent, a, without_self=lend)
            for v in VOTE_SHARE_GRID:
                score = clipped_nll(held_out.y, v * vote + (1 - v) * smoothed_proba)
                if score < lowest - 1e-9:
                    best, lowest = (exponent, a, v), score
    kdf = fit_kdf(problem, use_calibration_rows=lend)
    assert (kdf.posterior_.exponent, kdf.posterior_.pseudo_count, kdf.posterior_.vote_share) == best

    variances = (dense.squares + dense.spacing()) / (dense.size[:, None] + 1)
    held_out_density = np.sort(dense.log_gaussian(held_out.X, variances)[0])
    floor = held_out_density[0] - 0.5 * (
        np.median(held_out_density) - held_out_density[0]
    )  # fewer than 499 rows at alpha = .002
    assert kdf.log_floor_ == pytest.approx(floor, rel=1e-12)

    X = make_queries(problem)
    exponent, a, v = best
    bins = v * problem.forest.predict_proba(X) + (1 - v) * smoothed(X, exponent, a)
    above = dense.log_gaussian(X, variances)[0] - floor
    weight = np.maximum(np.exp(np.minimum(above, 0)), 1e-9)[:, None]
    np.testing.assert_allclose(
        kdf.predict_proba(X), weight * bins + (1 - weight) * problem.prior, atol=ROUNDING
    )


@pytest.mark.parametrize("variant", ["kdgraph", "paper", "reference", "figure1"])
def test_automatic_floor_works_for_all_variants(problem, variant):
    kdf = fit_kdf(problem, variant=variant, floor="auto", alpha=0.2)
    log_density = kdf.posterior_(
        kdf.graph_.query(problem.partition.locate(problem.held_out.X), kdf.posterior_.exponents),
        kdf.graph_,
    )[1]
    rank = math.floor((len(problem.held_out) + 1) * 0.2)
    assert kdf.log_floor_ == np.sort(log_density)[rank - 1]
    assert np.abs(kdf.predict_proba(problem.test.X + 100) - problem.prior).max() <= 1e-9


def test_paper_floor_exceeds_in_distribution_densities(problem):
    """The reason why ``floor="paper"`` is not the default: Gaussian densities of polytopes that
    are 1e-6 wide vanish between the training rows.
    """
    proba = fit_kdf(problem, variant="paper").predict_proba(problem.test.X)
    assert (np.abs(proba - problem.prior).max(axis=1) < 1e-6).mean() > 0.5
    assert (
        fit_kdf(problem, floor="paper").log_floor_ == fit_kdf(problem, variant="paper").log_floor_
    )
