"""Merging of polytopes, and classifiers with a maximum number of polytopes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.density.graph import merge_polytopes
from kdgraph.errors import ParameterError
from kdgraph.geometry import polytopes_of


@pytest.fixture(scope="module")
def located_problem(problem):
    locations = problem.partition.locate(np.concatenate([problem.train.X, problem.held_out.X]))
    return locations, len(problem.train), polytopes_of(locations.codes)


@pytest.mark.parametrize("limit", [1, 7, 40, 0.1])
def test_merged_polytopes_are_clusters_represented_by_a_central_row(located_problem, limit):
    locations, n, polytopes = located_problem
    merged = merge_polytopes(polytopes, locations.points, n, limit)
    assert len(merged) == (limit if limit >= 1 else round(limit * n))
    assert merged.sizes.sum() == len(locations)
    assert (merged.representatives < n).all()
    assert np.array_equal(merged.polytope_of_row[merged.representatives], np.arange(len(merged)))
    scaled = locations.points / locations.points[:n].std(axis=0)
    representative_point = scaled[merged.representatives][merged.polytope_of_row]
    spread = ((scaled - representative_point) ** 2).sum(axis=1).mean()
    shuffled = (
        (
            (
                scaled
                - scaled[merged.representatives][
                    np.random.default_rng(0).permutation(merged.polytope_of_row)
                ]
            )
            ** 2
        )
        .sum(axis=1)
        .mean()
    )
    assert len(merged) == 1 or spread < 0.6 * shuffled
    for polytope in range(len(merged)):
        members = np.flatnonzero(merged.polytope_of_row[:n] == polytope)
        centre = scaled[members].mean(axis=0)
        distances = ((scaled[members] - centre) ** 2).sum(axis=1)
        representative_distance = ((scaled[merged.representatives[polytope]] - centre) ** 2).sum()
        assert (
            representative_distance <= np.quantile(distances, 0.5) + 1e-12
        )  # k-means may stop before its centres are the means to the last digit


@pytest.mark.parametrize("limit", [None, 10**6])
def test_few_polytopes_are_not_merged(located_problem, limit):
    locations, n, polytopes = located_problem
    assert merge_polytopes(polytopes, locations.points, n, limit) is polytopes


def test_merging_supports_constant_features(located_problem):
    locations, n, polytopes = located_problem
    points = np.column_stack([locations.points, np.full(len(locations), 3.0)])
    assert np.array_equal(
        merge_polytopes(polytopes, points, n, 9).polytope_of_row,
        merge_polytopes(polytopes, locations.points, n, 9).polytope_of_row,
    )


@pytest.mark.parametrize("variant", ["kdgraph", "paper", "reference", "figure1"])
@pytest.mark.parametrize("limit", [25, 0.05])
def test_merged_forest_keeps_probabilities_and_prior_limit(problem, variant, limit):
    settings = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    kdf = KernelDensityForest(FrozenEstimator(problem.forest), variant=variant, max_polytopes=limit)
    kdf.fit(problem.train.X, problem.train.y, **settings)
    assert kdf.describe()["n_polytopes"] == (
        limit if limit >= 1 else round(limit * len(problem.train))
    )
    proba = kdf.predict_proba(np.concatenate([problem.test.X, 1e6 * problem.test.X]))
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    if variant != "reference":  # its floor has no effect
        np.testing.assert_allclose(
            proba[len(problem.test) :], np.tile(kdf.prior_, (len(problem.test), 1)), atol=1e-9
        )


def test_leave_one_out_with_merged_polytopes_removes_own_mass(problem):
    """The expected sums are computed again without each held-out row, from the whole similarity
    matrix.
    """
    from kdgraph.density import posterior as search
    from kdgraph.density.gaussians import shrunk_variances
    from kdgraph.density.graph import KernelDensityGraph

    locations = problem.partition.locate(np.concatenate([problem.train.X, problem.held_out.X]))
    n, k = len(problem.train), len(problem.prior)
    labels = np.concatenate([problem.train.one_hot(k), problem.held_out.one_hot(k)])
    graph = KernelDensityGraph(
        problem.partition,
        locations,
        labels,
        shrunk_variances,
        n_train=n,
        distance="scaled",
        max_polytopes=12,
    )
    own_similarity = graph.representative_similarity(slice(n, None))
    masses, _ = search.masses_without_own(
        graph, locations[n:], problem.held_out, np.array([0.7, 3.0]), own_similarity, k
    )
    merged = merge_polytopes(polytopes_of(locations.codes), locations.points, n, 12)
    holders = locations.codes[merged.representatives]
    for j, exponent in enumerate((0.7, 3.0)):
        for i in range(0, len(problem.held_out), 7):
            other_rows = np.delete(np.arange(len(locations)), n + i)
            similarity = (locations.codes[n + i] == holders).mean(axis=1) ** exponent
            expected = similarity[merged.polytope_of_row[other_rows]] @ labels[other_rows]
            np.testing.assert_allclose(masses[i, :, j], expected, atol=1e-10)


@pytest.mark.parametrize(
    ("max_polytopes", "rule"),
    [
        (0, "in [1, inf) or in (0, 1) or null"),
        (1.5, "an integer in [1, inf) or in (0, 1) or null"),
        ("few", "an integer in [1, inf) or a number in (0, 1) or null"),
    ],
)
def test_invalid_max_polytopes_raises(problem, max_polytopes, rule):
    with pytest.raises(ParameterError) as caught:
        KernelDensityForest(problem.forest, max_polytopes=max_polytopes).fit(
            problem.train.X, problem.train.y
        )
    assert str(caught.value) == f"max_polytopes must be {rule}, got {max_polytopes!r}"
