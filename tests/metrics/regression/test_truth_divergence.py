"""KL divergence from the truth: quadrature, bins and histograms, against closed forms and loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats

from kdgraph.data.simulations import Heteroscedastic
from kdgraph.distributions import Normal, Recalibrated, ScipyFamily, WeightedEcdf
from kdgraph.errors import ParameterError
from kdgraph.metrics import kl, kl_hist30_sym, score
from kdgraph.metrics.regression.truth import binned_kl

NORMAL = Normal(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
SHIFTED_NORMAL = Normal(np.array([0.5, -1.0]), np.array([1.5, 1.0]))
GAMMA = ScipyFamily("gamma", {"a": np.array([3.0, 100.0]), "scale": np.array([2.0, 0.5])})
WIDER_GAMMA = ScipyFamily("gamma", {"a": np.array([1.5, 40.0]), "scale": np.array([3.0, 1.3])})


def kl_of_normals(p, q):
    return np.log(q.scale / p.scale) + (p.scale**2 + (p.loc - q.loc) ** 2) / (2 * q.scale**2) - 0.5


def kl_of_gammas(p, q):
    (a, s), (b, t) = ((gamma.parameters["a"], gamma.parameters["scale"]) for gamma in (p, q))
    return (
        (a - b) * special.digamma(a)
        - special.gammaln(a)
        + special.gammaln(b)
        + b * np.log(t / s)
        + a * (s - t) / t
    )


@pytest.mark.parametrize(
    ("p", "q", "closed_form"),
    [(NORMAL, SHIFTED_NORMAL, kl_of_normals), (GAMMA, WIDER_GAMMA, kl_of_gammas)],
)
def test_kl_quadrature_matches_closed_forms(p, q, closed_form):
    assert kl.by_row(q, p) == pytest.approx(closed_form(p, q), rel=1e-6)
    assert kl.by_row(p, q) == pytest.approx(closed_form(q, p), rel=1e-6)
    assert kl.by_row(p, p) == pytest.approx([0, 0], abs=1e-12)


def test_divergence_without_density_is_finite_and_large():
    """Densities are bounded below by 2e-308, so the divergence is 708 minus the entropy.

    Without this bound N(0, 1) has a divergence of 500,000 from N(1000, 1).
    """
    distant = Normal(np.array([1000.0, 0.0]), np.ones(2))
    result = kl.by_row(distant, NORMAL)
    assert result[0] == pytest.approx(
        -np.log(np.finfo(float).tiny) - np.log(2 * np.pi * np.e) / 2, rel=1e-6
    )
    assert result[1] == pytest.approx(kl_of_normals(NORMAL, distant)[1], rel=1e-6)
    assert score(
        "kl", {"distribution": distant, "true_distribution": NORMAL}
    ).value == pytest.approx(result.mean())


@pytest.mark.parametrize(("p", "q"), [(NORMAL, SHIFTED_NORMAL), (GAMMA, WIDER_GAMMA)])
def test_binned_kl_approaches_the_divergence_from_below(p, q):
    exact = kl.by_row(q, p)
    result = [
        binned_kl(q, p, bins) for bins in (2, 8, 32, 4096)
    ]  # every partition refines the previous one
    assert all((a <= b + 1e-12).all() for a, b in zip(result, [*result[1:], exact], strict=True))
    moderate = (
        exact < 1
    )  # larger divergences come from regions with little predicted mass, which bins do not resolve
    assert moderate.any() and result[-1][moderate] == pytest.approx(exact[moderate], rel=0.02)
    assert kl.by_row(q, p, estimator="binned", bins=32) == pytest.approx(result[2], rel=1e-12)
    assert binned_kl(p, p, 30) == pytest.approx([0, 0], abs=1e-12)


def test_binned_kl_matches_a_loop_and_is_finite_without_overlap():
    p, q = (
        NORMAL[:1],
        Recalibrated(SHIFTED_NORMAL[:1], WeightedEcdf.from_pits(np.array([0.1, 0.3, 0.35, 0.9]))),
    )
    edges = [-np.inf, *(q.ppf(b / 5)[0] for b in range(1, 5)), np.inf]
    masses = [stats.norm.cdf(b) - stats.norm.cdf(a) for a, b in pairwise(edges)]
    assert binned_kl(q, p, 5)[0] == pytest.approx(
        sum(m * np.log(5 * m) for m in masses if m > 0), rel=1e-12
    )
    distant = Normal(np.array([100.0]), np.array([1.0]))
    assert binned_kl(distant, p, 30)[0] == pytest.approx(np.log(30), rel=1e-12)


def test_divergence_of_samples_from_the_truth_matches_the_docstring():
    """The mean over 400 empirical distributions of k draws is (B - 1)/2k for B = 30 bins.

    The tolerance is 4 standard errors, and 5 % for terms of higher order.
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


def test_histogram_kl_matches_numpy():
    rng = np.random.default_rng(3)
    model, truth = NORMAL.sample(1000, rng), SHIFTED_NORMAL.sample(1000, rng)
    expected = []
    for a, b in zip(model, truth, strict=True):
        edges = np.linspace(min(a.min(), b.min()), max(a.max(), b.max()), 31)
        p, q = ((np.histogram(x, edges)[0] + 0.5) / 1015 for x in (a, b))
        expected.append(np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p)))
    assert kl_hist30_sym.by_row(NORMAL, SHIFTED_NORMAL, random_state=3) == pytest.approx(
        expected, rel=1e-9
    )


def test_divergence_on_the_parabola_matches_the_docstring():
    """A straight line with the standard deviation of its errors, for x in (2, 20).

    The divergence is 0.298 in closed form; that of the truth from itself is 0.05 by histograms.
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
        kl(NORMAL, SHIFTED_NORMAL, bins=1)


@pytest.mark.parametrize("estimator", ["auto", "binned"])
def test_block_size_does_not_change_the_result(monkeypatch, estimator):
    all_rows = kl.by_row(SHIFTED_NORMAL, NORMAL, estimator=estimator)
    monkeypatch.setattr("kdgraph.metrics.regression.truth._ROWS_AT_A_TIME", 1)
    np.testing.assert_array_equal(kl.by_row(SHIFTED_NORMAL, NORMAL, estimator=estimator), all_rows)
