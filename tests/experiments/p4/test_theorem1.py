"""Theorem 1 by simulation: the population's error against samples, slopes of what falls as it
should, and the module from end to end.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.p4 import theorem1
from experiments.p4.theorem1 import (
    BANDWIDTHS,
    BINS,
    SIMULATION,
    Population,
    claims,
    classify,
    grid,
    population,
    slope,
    study,
    table,
)


def test_the_population_is_the_limit_of_many_rows() -> None:
    """A ratio of means over 400,000 rows and their labels, within five standard errors; a wrong
    kernel or bin is hundreds away.
    """
    places = np.array([[-0.9, 0.9], [-0.4, -0.5], [0.0, 0.1], [0.5, 0.5], [0.9, -0.2]])
    X, y = SIMULATION.sample(400_000, np.random.default_rng(1))
    text, at = classify(X), classify(places)
    gap = text.confidence - (text.predicted == y)
    result = population(places, 500)
    for m, place in enumerate(places):
        same = np.ceil(text.confidence * BINS) == np.ceil(at.confidence[m] * BINS)
        for b, bandwidth in enumerate(BANDWIDTHS):
            weight = same * np.exp(
                -(abs(X[:, 0] - place[0]) + abs(X[:, 1] - place[1])) / (2 * bandwidth)
            )
            slce = (weight * gap).mean() / weight.mean()
            error = np.std(weight * (gap - slce)) / weight.mean() / np.sqrt(len(X))
            assert abs(slce - result.slce[b, m]) < 5 * error
            assert abs(weight.mean() - result.mass[b, m]) < 5 * weight.std() / np.sqrt(len(X))


def test_finer_cells_change_little() -> None:
    """The midpoint rule's error is in the table; errors of samples are a hundred times as large, or
    more.
    """
    coarse, fine = (population(grid(5), cells).slce for cells in (200, 400))
    assert np.abs(coarse - fine).max() < 2e-3


def test_the_classifier_is_wrong_about_itself_in_both_directions() -> None:
    places = grid(8)  # none on an axis, where both classes are equally probable
    text = classify(places)
    np.testing.assert_array_equal(text.confidence > text.accuracy, places[:, 0] > 0)
    assert ((text.confidence >= 0.5) & (text.confidence <= 1)).all()


@settings(max_examples=20, deadline=None)
@given(st.floats(-1, -0.1), st.integers(0, 1000))
def test_a_slope_has_its_interval(true: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = {n: n**true * rng.lognormal(0, 0.3, (60, 2)) for n in (100, 1000, 10_000)}
    result = slope(errors, 1)
    assert result.low < result.value < result.high
    assert abs(result.value - true) < 0.06  # five standard errors: .3 / √(180 · 3.5)
    assert (
        slope(errors, 1, at_least=1000).high - slope(errors, 1, at_least=1000).low
        > result.high - result.low
    )


def test_errors_that_fall_more_slowly_fail() -> None:
    sizes = (1000, 10_000, 100_000)
    noise = np.random.default_rng(0).lognormal(0, 0.01, (3, 20, 3))
    stored = {n: n**-0.5 * noise[i] * np.array([4, 2, 1]) for i, n in enumerate(sizes)}
    assert all(claim.holds for claim in claims(stored))
    slow = {n: drawn * np.array([n**0.2, 1, 1]) for n, drawn in stored.items()}
    assert [claim.holds for claim in claims(slow)] == [False, True, True, True]
    crossed = {n: drawn[:, ::-1] for n, drawn in stored.items()}
    assert [claim.holds for claim in claims(crossed)] == [True, True, True, False]


def test_samples_approach_the_population_reproducibly() -> None:
    scale = theorem1.Scale((100, 10_000), 3, 3, 200)
    truth = population(grid(3), 200)
    first, second = (dict(study(scale, truth)) for _ in range(2))
    for n in scale.sizes:
        assert first[n].shape == (3, len(BANDWIDTHS))
        np.testing.assert_array_equal(first[n], second[n])
    assert (first[10_000].max(axis=0) < first[100].min(axis=0)).all()


def test_a_table_has_a_row_for_each_bandwidth() -> None:
    errors = {n: np.full((2, 3), n**-0.5) * [[1.0], [1.1]] for n in (100, 1000, 10_000)}
    truth = Population(np.zeros((3, 4)), np.full((3, 4), 0.25))
    lines = table(errors, truth, np.full(3, 1e-5)).splitlines()
    assert len(lines) == 2 + len(BANDWIDTHS)
    assert lines[2].startswith("| 0.05 | .2500 | 1e-05 | .1050 | .0105 | −.50 [")


def test_the_module_runs(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(
        sys, "argv", ["theorem1", "--scale", "smoke", "--figures", str(tmp_path / "figures")]
    )
    theorem1.main()
    text = capsys.readouterr()
    assert "sup over 7² places, 10 samples of each size, 5 bins" in text.out
    assert "4 of 4 hold." in text.out
    assert text.err.count("\n") == 3
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "theorem1.pdf",
        "theorem1.svg",
    ]
