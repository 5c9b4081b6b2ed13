"""Exact coverage and scores of intervals against draws, and the rows of the table."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p5.conformal import METHODS, coverage, expected_score, places, repeats, table
from kdgraph.data.simulations import Heteroscedastic
from kdgraph.metrics.regression.scores import interval_scores


def test_the_expected_score_is_the_mean_over_outcomes():
    """Of 40,000 draws for each of three intervals; five standard errors of each mean."""
    problem = Heteroscedastic()
    truth = problem.distribution(places(problem, 3))
    low, high = truth.interval(0.7)
    low, high = low - np.array([0.0, 100.0, -50.0]), high + np.array([0.0, -20.0, 300.0])
    y = truth.sample(40_000, np.random.default_rng(0))
    drawn = interval_scores(y, low[:, None], high[:, None], 0.9)
    error = drawn.std(axis=1) / 200
    assert (np.abs(drawn.mean(axis=1) - expected_score(truth, low, high, 0.9)) < 5 * error).all()
    inside = (y >= low[:, None]) & (y <= high[:, None])
    np.testing.assert_allclose(coverage(truth, low, high), inside.mean(axis=1), atol=5 * 0.5 / 200)


def test_the_whole_axis_has_all_prices():
    problem = Heteroscedastic()
    truth, ends = problem.distribution(places(problem, 2)), np.full(2, np.inf)
    assert coverage(truth, -ends, ends).tolist() == [1, 1] and expected_score(
        truth, -ends, ends, 0.9
    ).tolist() == [np.inf, np.inf]


def test_the_places_are_the_middles_of_equal_parts():
    assert places(Heteroscedastic(), 3)[:, 0] == pytest.approx([5, 11, 17])


def test_a_small_table():
    frame = repeats([50], 2)
    assert len(frame) == 2 * 2 * len(METHODS) and set(frame.method) == set(METHODS)
    lines = table(frame).splitlines()
    assert len(lines) == 2 + 2 * len(METHODS) and lines[2].startswith("| 50 | 0.9 | local |")
