from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from kdgraph.data.simulations import Polynomial, Sinewave

CURVES = {
    "sinewave": (Sinewave(), [lambda t: np.sin(4 * t), lambda t: np.cos(4 * t)], 0.1),
    "sinewave of the text": (
        Sinewave(frequency=np.pi, first="cos"),
        [lambda t: np.cos(np.pi * t), lambda t: np.sin(np.pi * t)],
        0.1,
    ),
    "polynomial": (Polynomial(), [lambda t: t, lambda t: t**3], 0.1),
    "polynomial, other": (Polynomial(0.3, [2, 5]), [lambda t: t**2, lambda t: t**5], 0.3),
}
each_curve_pair = pytest.mark.parametrize(
    ("simulation", "curves", "s"), CURVES.values(), ids=CURVES.keys()
)


@each_curve_pair
def test_density_and_box_fraction_agree_with_scipy(simulation, curves, s):
    X = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    for c, curve in enumerate(curves):
        box_fraction = quad(
            lambda t, g=curve: (norm.cdf(1, g(t), s) - norm.cdf(-1, g(t), s)) / 2,
            -1,
            1,
            epsabs=1e-11,
            limit=200,
        )[0]
        assert simulation.box_fractions[c] == pytest.approx(box_fraction, abs=1e-10)
        expected = norm.logpdf(X[:, 1], curve(X[:, 0]), s) - np.log(2 * box_fraction)
        np.testing.assert_allclose(
            simulation.log_densities(X)[:, c], expected, rtol=1e-10, atol=1e-10
        )


def test_box_fractions_agree_with_the_paper():
    """Compare with the published values, which have four decimals and come from simulations."""
    np.testing.assert_allclose(Sinewave().box_fractions, [0.9072, 0.8609], atol=2e-4)
    np.testing.assert_allclose(Polynomial().box_fractions, [0.9601, 0.9861], atol=2e-4)


def test_densities_have_the_symmetries_of_the_curves():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    sine, polynomial = Sinewave(), Polynomial()
    np.testing.assert_allclose(
        sine.log_densities(-X)[:, 0], sine.log_densities(X)[:, 0], atol=1e-10
    )  # odd curve
    np.testing.assert_allclose(
        sine.log_densities(X * [-1, 1])[:, 1], sine.log_densities(X)[:, 1], atol=1e-10
    )  # even curve
    np.testing.assert_allclose(polynomial.posterior(-X), polynomial.posterior(X), atol=1e-12)


def test_posterior_does_not_underflow_far_from_both_curves():
    """Check (0.9, -0.9), where both densities are near exp(-16000).

    The cubic, at 0.729, is nearer than the line.
    """
    assert Polynomial(noise_std=0.01).posterior([[0.9, -0.9]]).tolist() == [[0.0, 1.0]]
