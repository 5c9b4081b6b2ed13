"""Divergence from the truth: closed forms against quadrature, bins against them, and what
estimators say of the truth itself.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Normal, Recalibrated, ScipyFamily, WeightedEcdf
from kdgraph.errors import ParameterError
from kdgraph.metrics import kl, kl_hist30_sym, score
from kdgraph.metrics.regression import binned_kl

ONE = Normal(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
OTHER = Normal(np.array([0.5, -1.0]), np.array([1.5, 1.0]))
GAMMA = ScipyFamily("gamma", {"a": np.array([3.0, 100.0]), "scale": np.array([2.0, 0.5])})
WIDER = ScipyFamily("gamma", {"a": np.array([1.5, 40.0]), "scale": np.array([3.0, 1.3])})


def of_normals(p, q):
    return np.log(q.scale / p.scale) + (p.scale**2 + (p.loc - q.loc) ** 2) / (2 * q.scale**2) - 0.5


def of_gammas(p, q):
    (a, s), (b, t) = ((each.parameters["a"], each.parameters["scale"]) for each in (p, q))
    return (
        (a - b) * special.digamma(a)
        - special.gammaln(a)
        + special.gammaln(b)
        + b * np.log(t / s)
        + a * (s - t) / t
    )


@pytest.mark.parametrize(
    ("p", "q", "closed_form"), [(ONE, OTHER, of_normals), (GAMMA, WIDER, of_gammas)]
)
def test_quadrature_is_the_closed_form(p, q, closed_form):
    assert kl.by_row(q, p) == pytest.approx(closed_form(p, q), rel=1e-6)
    assert kl.by_row(p, q) == pytest.approx(closed_form(q, p), rel=1e-6)
    assert kl.by_row(p, p) == pytest.approx([0, 0], abs=1e-12)


def test_divergence_without_density_is_finite_and_large():
    """Of N(1000, 1) against N(0, 1) it is 500,000; densities below 2e-308 count as that, and 708
    less the entropy remains.
    """
    far = Normal(np.array([1000.0, 0.0]), np.ones(2))
    result = kl.by_row(far, ONE)
    assert result[0] == pytest.approx(
        -np.log(np.finfo(float).tiny) - np.log(2 * np.pi * np.e) / 2, rel=1e-6
    )
    assert result[1] == pytest.approx(of_normals(ONE, far)[1], rel=1e-6)
    assert score("kl", {"distribution": far, "true_distribution": ONE}).value == pytest.approx(
        result.mean()
    )


@pytest.mark.parametrize(("p", "q"), [(ONE, OTHER), (GAMMA, WIDER)])
def test_bins_near_the_divergence_from_below(p, q):
    exact = kl.by_row(q, p)
    result = [
        binned_kl(q, p, bins) for bins in (2, 8, 32, 4096)
    ]  # each a refinement of the one before
    assert all((a <= b + 1e-12).all() for a, b in zip(result, [*result[1:], exact], strict=True))
    moderate = (
        exact < 1
    )  # beyond, most of the divergence is where there is hardly any predicted mass, and bins do not see it
    assert moderate.any() and result[-1][moderate] == pytest.approx(exact[moderate], rel=0.02)
    assert kl.by_row(q, p, estimator="binned", bins=32) == pytest.approx(result[2], rel=1e-12)
    assert binned_kl(p, p, 30) == pytest.approx([0, 0], abs=1e-12)


def test_bins_are_a_naive_loop_and_finite_where_the_divergence_is_not():
    p, q = ONE[:1], Recalibrated(OTHER[:1], WeightedEcdf.from_pits(np.array([0.1, 0.3, 0.35, 0.9])))
    edges = [-np.inf, *(q.ppf(b / 5)[0] for b in range(1, 5)), np.inf]
    masses = [stats.norm.cdf(b) - stats.norm.cdf(a) for a, b in pairwise(edges)]
    assert binned_kl(q, p, 5)[0] == pytest.approx(
        sum(m * np.log(5 * m) for m in masses if m > 0), rel=1e-12
    )
    far = Normal(np.array([100.0]), np.array([1.0]))
    assert binned_kl(far, p, 30)[0] == pytest.approx(np.log(30), rel=1e-12)


def test_divergence_of_samples_from_the_truth_matches_the_docstring():
    """(B - 1)/2k, as the docstring says: 30 bins, 400 empirical distributions of k draws; 4
    standard errors and 5 % of the next order.
    """
    rng = np.random.default_rng(0)
    base = Normal(np.zeros(1), np.ones(1))
    for k in (300, 1000):
        result = np.array(
            [
                binned_kl(Recalibrated(base, WeightedEcdf.from_pits(rng.random(k))), base, 30)[0]
                for _ in range(400)
            ]
        )
        assert result.mean() == pytest.approx(
            29 / (2 * k), abs=4 * result.std() / 20 + 0.05 * 29 / (2 * k)
        )


def test_histograms_are_numpys():
    rng = np.random.default_rng(3)
    model, truth = ONE.sample(1000, rng), OTHER.sample(1000, rng)
    naive = []
    for a, b in zip(model, truth, strict=True):
        edges = np.linspace(min(a.min(), b.min()), max(a.max(), b.max()), 31)
        p, q = ((np.histogram(x, edges)[0] + 0.5) / 1015 for x in (a, b))
        naive.append(np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p)))
    assert kl_hist30_sym.by_row(ONE, OTHER, random_state=3) == pytest.approx(naive, rel=1e-9)


def test_divergence_on_the_parabola_matches_the_docstring():
    """The straight line with the standard deviation of its errors, over x on (2, 20): 0.298 in
    closed form; the truth from itself 0.05.
    """
    source = Heteroscedastic()
    x = np.linspace(2, 20, 2002)[1:-1]
    truth = source.distribution(x[:, None])
    slope, intercept = np.polyfit(x, truth.mean(), 1)
    line = Normal(
        slope * x + intercept,
        np.sqrt(np.mean((truth.mean() - slope * x - intercept) ** 2 + truth.var())),
    )
    assert kl(line, truth) == pytest.approx(0.298, abs=0.003)
    assert 0.9 * kl(line, truth) < kl(line, truth, estimator="binned") < kl(line, truth)
    assert kl_hist30_sym(truth, truth) == pytest.approx(0.053, abs=0.004)
    assert 0.6 < kl_hist30_sym(line, truth) < 0.9


def test_invalid_inputs_are_refused():
    with pytest.raises(ParameterError, match=r"^bins must be in \[2, inf\), got 1$"):
        kl(ONE, OTHER, bins=1)


@pytest.mark.parametrize("estimator", ["auto", "binned"])
def test_block_size_does_not_change_the_result(monkeypatch, estimator):
    all_rows = kl.by_row(OTHER, ONE, estimator=estimator)
    monkeypatch.setattr("kdgraph.metrics.regression.truth._ROWS_AT_A_TIME", 1)
    np.testing.assert_array_equal(kl.by_row(OTHER, ONE, estimator=estimator), all_rows)
