"""Limits on the size of graphs, and classifiers with a maximum number of polytopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.density import limits
from kdgraph.density import posterior as search
from kdgraph.density.gaussians import shrunk_variances
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.density.limits import GraphLimits, choose_lenders, merge_polytopes
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


def test_merging_supports_copies_of_rows():
    """In a sample of the rows fewer are distinct than there may be clusters."""
    points = np.concatenate([np.zeros((5000, 2)), np.arange(300.0).reshape(150, 2)])
    codes = points[:, :1].astype(np.int64)
    merged = merge_polytopes(polytopes_of(codes), points, len(points), 100)
    assert 2 <= len(merged) <= 100 and merged.sizes.sum() == len(points)
    assert len(np.unique(merged.polytope_of_row[:5000])) == 1


def test_merging_supports_constant_features(located_problem):
    locations, n, polytopes = located_problem
    points = np.column_stack([locations.points, np.full(len(locations), 3.0)])
    assert np.array_equal(
        merge_polytopes(polytopes, points, n, 9).polytope_of_row,
        merge_polytopes(polytopes, locations.points, n, 9).polytope_of_row,
    )


def test_limits_stand_for_the_parameter_of_estimators():
    assert GraphLimits.of(None) == GraphLimits.of(None, by_row=True) == GraphLimits()
    assert GraphLimits.of("auto") == GraphLimits(max_gaussians=limits.MAX_GAUSSIANS, lenders="auto")
    assert GraphLimits.of(0.1) == GraphLimits(max_polytopes=0.1)
    assert GraphLimits.of(30, by_row=True) == GraphLimits(max_gaussians=30, lenders=30)


def meetings(codes: np.ndarray, lenders: np.ndarray) -> float:
    """Return the mean number of lenders that a row has in its leaf of a tree, from all pairs."""
    return float((codes[:, None] == codes[lenders][None]).mean(axis=2).sum(axis=1).mean())


def test_a_row_meets_a_bounded_number_of_lenders(located_problem, problem, monkeypatch):
    codes = located_problem[0].codes
    everyone = np.arange(len(codes))
    monkeypatch.setattr(limits, "MIN_LENDERS", 10)
    allowed = 0.4 * meetings(codes, everyone)
    monkeypatch.setattr(limits, "MAX_MEETINGS_PER_TREE", allowed)
    lenders = choose_lenders(problem.partition, codes)
    assert (np.diff(lenders) > 0).all() and len(lenders) == round(0.4 * len(codes))
    # A random sample: a fifth for the rows that happen to be in it.
    assert 0.8 * allowed < meetings(codes, lenders) < 1.2 * allowed
    # Where a third of the rows count in no tree, more of the others fit: 1.5 times as many, if
    # leaves have equal sizes.
    is_lending = np.ones(codes.shape, dtype=bool)
    is_lending[::3] = False
    assert len(choose_lenders(problem.partition, codes, is_lending)) > 1.15 * len(lenders)
    monkeypatch.setattr(limits, "MAX_MEETINGS_PER_TREE", 0.0)
    assert len(choose_lenders(problem.partition, codes)) == 10


def test_small_leaves_and_few_rows_need_no_limit(located_problem, problem, monkeypatch):
    codes = located_problem[0].codes
    assert choose_lenders(problem.partition, codes) is None  # fewer rows than MIN_LENDERS
    monkeypatch.setattr(limits, "MIN_LENDERS", 10)
    monkeypatch.setattr(limits, "MAX_MEETINGS_PER_TREE", 1e9)
    assert choose_lenders(problem.partition, codes) is None


def test_an_automatic_limit_changes_little_and_keeps_the_limit_far_away(problem, monkeypatch):
    """The limits are lowered to sizes that 200 rows exceed."""
    settings = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    n = len(problem.train)

    def fit(**options):
        model = KernelDensityForest(FrozenEstimator(problem.forest), **options)
        return model.fit(problem.train.X, problem.train.y, **settings)

    unlimited = fit(max_polytopes=None)
    monkeypatch.setattr(limits, "MAX_GAUSSIANS", n // 4)
    monkeypatch.setattr(limits, "MIN_LENDERS", n // 2)
    monkeypatch.setattr(limits, "MAX_MEETINGS_PER_TREE", 0.0)
    monkeypatch.setattr(limits, "MAX_NLL_LOSS", np.inf)
    limited = fit()
    assert len(limited.graph_.gaussians.means) == n // 4
    assert len(limited.graph_.lenders) == n // 2
    test = problem.test.X
    change = np.abs(limited.predict_proba(test) - unlimited.predict_proba(test)).sum(axis=1) / 2
    assert 0 < change.mean() < 0.1
    np.testing.assert_allclose(
        limited.predict_proba(1e6 * test), np.tile(limited.prior_, (len(test), 1)), atol=1e-8
    )


@dataclass
class CountedGraph:
    """A graph of which only the lenders are known."""

    lenders: np.ndarray | None


@pytest.mark.parametrize(
    ("losses", "n_lenders"),
    [
        ({100: 0.5, 200: 0.4992, 400: 0.1}, 100),
        ({100: 0.5, 200: 0.4, 400: 0.3995}, 200),
        ({100: 0.5, 200: 0.4, 400: 0.398, 800: 0.39, 1000: 0.38}, 1000),
    ],
)
def test_lenders_are_doubled_until_the_nll_falls_by_a_thousandth_at_most(losses, n_lenders):
    searched = []

    def search(graph: CountedGraph) -> int:
        searched.append(len(graph.lenders))
        return len(graph.lenders)

    graph, posterior = limits.raise_lenders(
        CountedGraph(np.arange(100)),
        1000,
        search=search,
        nll=lambda graph, posterior: losses[len(graph.lenders)],
        with_lenders=CountedGraph,
    )
    assert len(graph.lenders) == posterior == n_lenders
    assert searched == [n for n in losses if n <= n_lenders]


def test_lenders_are_not_doubled_beyond_a_bound(monkeypatch):
    monkeypatch.setattr(limits, "MAX_RAISED_LENDERS", 300)
    for n_first, n_last in [(100, 300), (300, 300), (400, 400)]:
        graph, _ = limits.raise_lenders(
            CountedGraph(np.arange(n_first)),
            1000,
            search=lambda graph: None,
            nll=lambda graph, posterior: -len(graph.lenders),
            with_lenders=CountedGraph,
        )
        assert len(graph.lenders) == n_last


def test_a_graph_without_a_limit_keeps_all_rows():
    graph = CountedGraph(None)
    assert limits.raise_lenders(
        graph, 10, search=lambda graph: "p", nll=None, with_lenders=None
    ) == (graph, "p")


@pytest.mark.parametrize("way", ["oob", "held out", "held out, training rows alone"])
def test_a_limit_that_is_raised_to_all_rows_gives_the_predictions_without_one(
    way, problem, monkeypatch
):
    """Every graph that is tried has its own index and classes, also where one is copied."""
    parent = FrozenEstimator(problem.forest)
    rows = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    settings = {} if way == "oob" else rows
    use_calibration_rows = way == "held out"

    def fit(max_polytopes):
        model = KernelDensityForest(
            parent, max_polytopes=max_polytopes, use_calibration_rows=use_calibration_rows
        )
        return model.fit(problem.train.X, problem.train.y, **settings)

    unlimited = fit(None)
    monkeypatch.setattr(limits, "MIN_LENDERS", 30)
    monkeypatch.setattr(limits, "MAX_MEETINGS_PER_TREE", 0.0)
    monkeypatch.setattr(limits, "MAX_NLL_LOSS", np.inf)
    assert len(fit("auto").graph_.lenders) == 30
    monkeypatch.setattr(limits, "MAX_NLL_LOSS", -np.inf)
    raised = fit("auto")
    test = problem.test.X
    # Classes are counted by row instead of by polytope, in another order of the sums.
    np.testing.assert_allclose(
        raised.predict_proba(test), unlimited.predict_proba(test), rtol=0, atol=1e-9
    )


def graph_with_held_out_rows(problem, graph_limits: GraphLimits):
    """Return a graph that has the class masses of held-out rows, all locations and all labels."""
    locations = problem.partition.locate(np.concatenate([problem.train.X, problem.held_out.X]))
    k = len(problem.prior)
    labels = np.concatenate([problem.train.one_hot(k), problem.held_out.one_hot(k)])
    graph = KernelDensityGraph(
        problem.partition,
        locations,
        labels,
        shrunk_variances,
        n_train=len(problem.train),
        distance="scaled",
        limits=graph_limits,
    )
    return graph, locations, labels


def test_own_masses_of_held_out_rows_are_removed_where_they_lend(problem):
    n, k = len(problem.train), len(problem.prior)
    graph, locations, labels = graph_with_held_out_rows(problem, GraphLimits(lenders=0.5))
    masses, _ = search.masses_without_own(
        graph,
        locations[n:],
        problem.held_out,
        np.array([0.7]),
        graph.own_similarity(slice(n, None)),
        k,
    )
    held_out = np.arange(n, len(locations))
    similarity = problem.partition.similarity(
        locations.codes[held_out], locations.codes[graph.lenders]
    )
    similarity[held_out[:, None] == graph.lenders[None]] = 0
    # Sums of at most 200 terms of at most 1, added in another order.
    np.testing.assert_allclose(masses[:, :, 0], similarity**0.7 @ labels[graph.lenders], atol=1e-10)


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
    n, k = len(problem.train), len(problem.prior)
    graph, locations, labels = graph_with_held_out_rows(problem, GraphLimits(max_polytopes=12))
    own_similarity = graph.own_similarity(slice(n, None))
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
        (0, "in [1, inf) or in (0, 1) or one of auto or null"),
        (1.5, "an integer in [1, inf) or in (0, 1) or one of auto or null"),
        ("few", "an integer in [1, inf) or a number in (0, 1) or one of auto or null"),
    ],
)
def test_invalid_max_polytopes_raises(problem, max_polytopes, rule):
    with pytest.raises(ParameterError) as caught:
        KernelDensityForest(problem.forest, max_polytopes=max_polytopes).fit(
            problem.train.X, problem.train.y
        )
    assert str(caught.value) == f"max_polytopes must be {rule}, got {max_polytopes!r}"
