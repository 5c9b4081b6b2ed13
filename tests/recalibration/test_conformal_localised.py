"""Localised conformal intervals: against their definition, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from kdgraph.distributions import LocalisedIntervals, Normal
from kdgraph.parents import GaussianLinear
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.recalibration import ConformalPit, LocalisedConformalPit, LocalPit


def epanechnikov_weights(first: np.ndarray, second: np.ndarray, radius: float) -> np.ndarray:
    return np.maximum(1 - ((first[:, None] - second) / radius) ** 2, 0)


def interval_end_by_definition(
    scores: np.ndarray, pairwise_weights: np.ndarray, weights_to_new: np.ndarray, level: float
) -> float:
    """Return the largest accepted end by Guan's definition.

    A score between any two others is tried, and all h + 1 ranks are computed anew.
    """
    n, ends = len(scores), np.append(np.sort(scores), np.inf)
    candidate_scores = np.r_[ends[0] - 1, (ends[1:-1] + ends[:-2]) / 2, ends[-2] + 1]
    weights = np.ones((n + 1, n + 1))
    weights[:n, :n], weights[n, :n], weights[:n, n] = (
        pairwise_weights,
        weights_to_new,
        weights_to_new,
    )
    accepted_ends = []
    for candidate, end in zip(candidate_scores, ends, strict=True):
        all_scores = np.append(scores, candidate)
        ranks = (weights * (all_scores < all_scores[:, None])).sum(axis=1) / weights.sum(axis=1)
        if (ranks < ranks[n] - 1e-12).sum() < np.ceil((n + 1) * level - 1e-9):
            accepted_ends.append(end)
    return max(accepted_ends)


@given(
    calibration_rows=st.lists(
        st.tuples(st.integers(0, 9), st.integers(-9, 9)), min_size=2, max_size=25
    ),
    position=st.integers(-2, 11),
    radius=st.sampled_from([0.5, 2.5, 6.0, 100.0]),
    level=st.sampled_from([0.3, 0.5, 0.8, 0.9]),
)
@settings(max_examples=100, deadline=None)
def test_correction_matches_the_definition_of_guan(calibration_rows, position, radius, level):
    """Places and scores may be tied."""
    x, y = np.array(calibration_rows, dtype=float).T
    n, base = len(x), Normal(np.zeros(len(x)), np.ones(len(x)))
    pairwise_weights, weights_to_new = (
        epanechnikov_weights(x, x, radius),
        epanechnikov_weights(np.array([float(position)]), x, radius),
    )
    intervals = LocalisedIntervals(
        base[:1],
        base,
        y,
        np.arange(n)[None],
        weights_to_new,
        np.tile(np.arange(n), (n, 1)),
        pairwise_weights,
    )
    scores = intervals.conformity_scores(level)
    assert intervals.corrections(scores, level)[0] == interval_end_by_definition(
        scores, pairwise_weights, weights_to_new[0], level
    )


def make_conformal_localised_rows(
    n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose noise is four times as large on the right."""
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, np.where(X[:, 0] > 0, 4.0, 1.0) * rng.normal(size=n)


def test_covers_on_average_and_nearly_at_each_place():
    """100 draws of 300 rows at 80 %: the two sides are covered at 80 and 79 %.

    One correction for all covers all outcomes of one side and six of ten of the other. Standard
    errors are below one point.
    """
    rng = np.random.default_rng(0)
    parent = FrozenEstimator(GaussianLinear().fit(*make_conformal_localised_rows(400, rng)))
    coverages_by_class: dict[type, list[list[float]]] = {
        ConformalPit: [],
        LocalisedConformalPit: [],
    }
    for seed in range(100):
        (X, y), (X_new, y_new) = (
            make_conformal_localised_rows(300, rng),
            make_conformal_localised_rows(200, rng),
        )
        for model_class, coverages in coverages_by_class.items():
            settings = {"k": 20} if model_class is LocalisedConformalPit else {}
            model = model_class(parent, random_state=seed, **settings).fit(
                X, y, X_calibration=X, y_calibration=y
            )
            low, high = model.predict_dist(X_new).interval(0.8)
            is_covered = (low <= y_new) & (y_new <= high)
            coverages.append(
                [
                    is_covered.mean(),
                    is_covered[X_new[:, 0] < -0.2].mean(),
                    is_covered[X_new[:, 0] > 0.2].mean(),
                ]
            )
    localised, shared = (
        np.array(coverages_by_class[model_class])
        for model_class in (LocalisedConformalPit, ConformalPit)
    )
    assert localised[:, 0].mean() >= 0.8 - 2 * localised[:, 0].std() / 10
    assert (
        np.abs(localised[:, 1:].mean(axis=0) - 0.8).max() < 0.04
        and np.abs(shared[:, 1:].mean(axis=0) - 0.8).min() > 0.12
    )


def test_equal_weights_give_one_correction_for_all():
    rng = np.random.default_rng(0)
    X, y = make_conformal_localised_rows(120, rng)
    parent = FrozenEstimator(GaussianLinear().fit(X, y))
    calibration = {"X_calibration": X, "y_calibration": y}
    localised = LocalisedConformalPit(parent, LocalPit(None, k=20), k=60, random_state=0).fit(
        X, y, **calibration
    )
    shared = ConformalPit(parent, LocalPit(None, k=20), random_state=0).fit(X, y, **calibration)
    assert (
        localised.radius_ == np.inf
        and localised.describe()["radius"] is None
        and localised.describe()["n_eff_correcting"] == 60
    )
    for level in (0.5, 0.8, 0.95):
        np.testing.assert_array_equal(
            localised.predict_dist(X).interval(level), shared.predict_dist(X).interval(level)
        )


@pytest.mark.parametrize("feature_space", ["input", "output", "geodesic"])
def test_intervals_do_not_depend_on_other_rows_and_survive_saving(feature_space):
    rng = np.random.default_rng(0)
    X, y = make_conformal_localised_rows(200, rng)
    forest = (
        FrozenEstimator(RandomForestRegressor(10, min_samples_leaf=20, random_state=0).fit(X, y))
        if feature_space == "geodesic"
        else None
    )
    model = LocalisedConformalPit(
        GaussianLinear(),
        LocalPit(None, k=15),
        feature_space=feature_space,
        forest=forest,
        k=15,
        random_state=0,
    ).fit(X, y)
    low, high = model.predict_dist(X).interval(0.6)
    row_ids = np.array([3, 70, 4])
    np.testing.assert_array_equal(
        model.predict_dist(X[row_ids]).interval(0.6), (low[row_ids], high[row_ids])
    )
    np.testing.assert_array_equal(
        model.predict_dist(X)[row_ids].interval(0.6), (low[row_ids], high[row_ids])
    )
    loaded = from_bytes(to_bytes(model), "it").value
    np.testing.assert_array_equal(loaded.predict_dist(X).interval(0.6), (low, high))
    assert loaded.describe() == model.describe() and model.describe()["n_correcting"] == 30


def test_row_without_neighbours_gets_the_whole_line():
    rng = np.random.default_rng(0)
    X, y = make_conformal_localised_rows(300, rng)
    model = LocalisedConformalPit(GaussianLinear(), k=20, random_state=0).fit(X, y)
    with pytest.warns(
        UserWarning,
        match=(
            r"^intervals of level 0\.5 are the whole line where there are too few calibration rows"
        ),
    ):
        low, high = model.predict_dist([[0.0], [1e3]]).interval(0.5)
    assert np.isfinite(high).tolist() == [True, False] == np.isfinite(low).tolist()


def test_identical_rows_are_one_cell():
    """All rows but two are equal, so that most distances are 0; or all rows are."""
    y = np.random.default_rng(0).normal(size=200)
    for X in (np.maximum(np.arange(200.0) - 197, 0)[:, None], np.zeros((200, 1))):
        parent = FrozenEstimator(GaussianLinear().fit(X, y))
        model = LocalisedConformalPit(parent, k=10, random_state=0).fit(
            X, y, X_calibration=X, y_calibration=y
        )
        assert (
            model.radius_ > 0
            and np.isfinite(model.predict_dist(np.zeros((1, 1))).interval(0.8)).all()
        )


def test_rows_beyond_the_maximum_recalibrate_instead():
    X, y = make_conformal_localised_rows(400, np.random.default_rng(0))
    model = LocalisedConformalPit(
        FrozenEstimator(GaussianLinear().fit(X, y)),
        LocalPit(None, k=50),
        max_reference_rows=60,
        random_state=0,
    ).fit(X[:5], y[:5], X_calibration=X, y_calibration=y)
    assert model.describe()["n_correcting"] == 60 == len(model.coordinates_)
    assert len(model.recalibrated_.pits_) == 340
