"""Limits on the size of graphs, and classifiers with a maximum number of polytopes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph import KernelDensityForest
from kdgraph.base import Rows
from kdgraph.density import graph, out_of_sample
from kdgraph.density.graph import GraphLimits, choose_class_rows, draw_rows, merge_polytopes
from kdgraph.density.out_of_sample import HeldOutRows, fit_graph
from kdgraph.density.posterior import PosteriorParameters
from kdgraph.density.published import Figure1Forest, PaperForest, ReferenceForest
from kdgraph.errors import ParameterError
from kdgraph.geometry import partition_of, polytopes_of

FORESTS = {
    "kdgraph": KernelDensityForest,
    "paper": PaperForest,
    "reference": ReferenceForest,
    "figure1": Figure1Forest,
}


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
    assert GraphLimits.of("auto") == GraphLimits(
        max_gaussians=graph.MAX_GAUSSIANS, class_rows="auto"
    )
    assert GraphLimits.of(0.1) == GraphLimits(max_polytopes=0.1)
    assert GraphLimits.of(30, by_row=True) == GraphLimits(max_gaussians=30, class_rows=30)


def meetings(codes: np.ndarray, class_rows: np.ndarray) -> float:
    """Return the mean number of counted rows that a row has in its leaf of a tree, from all pairs."""
    return float((codes[:, None] == codes[class_rows][None]).mean(axis=2).sum(axis=1).mean())


def test_a_row_meets_a_bounded_number_of_counted_rows(located_problem, problem, monkeypatch):
    codes = located_problem[0].codes
    everyone = np.arange(len(codes))
    monkeypatch.setattr(graph, "MIN_CLASS_ROWS", 10)
    allowed = 0.4 * meetings(codes, everyone)
    monkeypatch.setattr(graph, "MAX_MEETINGS_PER_TREE", allowed)
    class_rows = choose_class_rows(problem.partition, codes)
    assert (np.diff(class_rows) > 0).all() and len(class_rows) == round(0.4 * len(codes))
    # A random sample: a fifth for the rows that happen to be in it.
    assert 0.8 * allowed < meetings(codes, class_rows) < 1.2 * allowed
    # Where a third of the rows count in no tree, more of the others fit: 1.5 times as many, if
    # leaves have equal sizes.
    is_counted = np.ones(codes.shape, dtype=bool)
    is_counted[::3] = False
    assert len(choose_class_rows(problem.partition, codes, is_counted)) > 1.15 * len(class_rows)
    monkeypatch.setattr(graph, "MAX_MEETINGS_PER_TREE", 0.0)
    assert len(choose_class_rows(problem.partition, codes)) == 10


def test_small_leaves_and_few_rows_need_no_limit(located_problem, problem, monkeypatch):
    codes = located_problem[0].codes
    assert choose_class_rows(problem.partition, codes) is None  # fewer rows than MIN_CLASS_ROWS
    monkeypatch.setattr(graph, "MIN_CLASS_ROWS", 10)
    monkeypatch.setattr(graph, "MAX_MEETINGS_PER_TREE", 1e9)
    assert choose_class_rows(problem.partition, codes) is None


def test_automatic_limit_keeps_predictions_near_and_far(problem, monkeypatch):
    """The limits are lowered to sizes that 200 rows exceed."""
    settings = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    n = len(problem.train)

    def fit(**options):
        model = KernelDensityForest(FrozenEstimator(problem.forest), **options)
        return model.fit(problem.train.X, problem.train.y, **settings)

    unlimited = fit(max_polytopes=None)
    monkeypatch.setattr(graph, "MAX_GAUSSIANS", n // 4)
    monkeypatch.setattr(graph, "MIN_CLASS_ROWS", n // 2)
    monkeypatch.setattr(graph, "MAX_MEETINGS_PER_TREE", 0.0)
    monkeypatch.setattr(out_of_sample, "MAX_NLL_LOSS", np.inf)
    limited = fit()
    assert len(limited.graph_.gaussians.means) == n // 4
    assert len(limited.graph_.counts.class_rows) == n // 2
    test = problem.test.X
    change = np.abs(limited.predict_proba(test) - unlimited.predict_proba(test)).sum(axis=1) / 2
    assert 0 < change.mean() < 0.1
    np.testing.assert_allclose(
        limited.predict_proba(1e6 * test), np.tile(limited.prior_, (len(test), 1)), atol=1e-8
    )


class RowsOfLoss:
    """Rows whose NLL depends on the number of counted rows alone."""

    averages, n_train, n_countable = False, 10, 1000
    rows, parent_proba = (
        Rows.unweighted(np.zeros((4, 1)), np.zeros(4, dtype=int)),
        np.eye(2)[[1] * 4],
    )

    def __init__(self, losses):
        self.losses, self.fitted = losses, []

    def masses_at(self, graph, exponents):
        n_rows = len(graph.counts.class_rows)
        if len(exponents) > 1:
            self.fitted.append(n_rows)
        p = np.exp(-self.losses(n_rows))
        masses = np.tile(1e9 * np.array([p, 1 - p])[:, None], (4, 1, len(exponents)))
        return lambda chunk: masses[chunk]

    def with_class_rows(self, graph, class_rows):
        return SimpleNamespace(distance="scaled", counts=SimpleNamespace(class_rows=class_rows))

    def fit(self, class_rows):
        """Return the number of counted rows after the fit."""
        graph = self.with_class_rows(None, class_rows)
        parameters = PosteriorParameters(parent_weight=0.0)
        fitted, _ = fit_graph(graph, self, np.full(2, 0.5), parameters, raises=True)
        assert fitted is graph or class_rows is not None
        return None if class_rows is None else len(fitted.counts.class_rows)


@pytest.mark.parametrize(
    ("losses", "n_rows"),
    [
        ({100: 0.5, 200: 0.4992, 400: 0.1}, 100),
        ({100: 0.5, 200: 0.4, 400: 0.3995}, 200),
        ({100: 0.5, 200: 0.4, 400: 0.398, 800: 0.39, 1000: 0.38}, 1000),
    ],
)
def test_counted_rows_double_until_the_nll_falls_by_at_most_1e_3(losses, n_rows):
    source = RowsOfLoss(losses.get)
    assert source.fit(np.arange(100)) == n_rows
    assert source.fitted == [n for n in losses if n <= n_rows]


def test_counted_rows_are_not_doubled_beyond_a_bound(monkeypatch):
    monkeypatch.setattr(out_of_sample, "MAX_CLASS_ROWS", 300)
    for n_first, n_last in [(100, 300), (300, 300), (400, 400)]:
        assert RowsOfLoss(lambda n: 1.0 - 0.002 * n).fit(np.arange(n_first)) == n_last


def test_counted_rows_are_halved_while_all_that_are_left_out_cost_at_most_1e_3(
    problem, monkeypatch
):
    losses = {800: 0.5, 1000: 0.4995, 400: 0.5006, 200: 0.5009, 100: 0.5015}
    monkeypatch.setattr(out_of_sample, "MIN_LOWERED_ROWS", 800)
    parameters = PosteriorParameters(parent_weight=0.0)

    def fit(partition, least):
        monkeypatch.setattr(out_of_sample, "LEAST_CLASS_ROWS", least)
        source = RowsOfLoss(losses.get)
        first = source.with_class_rows(None, np.arange(800))
        first.partition = partition
        return source, fit_graph(first, source, np.full(2, 0.5), parameters, raises=True)

    for least, last, fitted in ((50, 200, [800, 400, 200, 100]), (300, 400, [800, 400])):
        source, (found, posterior) = fit(problem.partition, least)
        assert len(found.counts.class_rows) == last and source.fitted == fitted
        assert len(posterior.exponents)
    # The cells of boosted trees take about the same time for fewer rows.
    X, y = problem.train.X, problem.train.y
    boosted = partition_of(HistGradientBoostingClassifier(max_iter=2).fit(X, y))
    source, (found, _) = fit(boosted, 50)
    assert len(found.counts.class_rows) == 800 and source.fitted == [800]


@pytest.mark.parametrize("way", ["oob", "held out"])
def test_a_limit_of_all_rows_gives_the_predictions_without_one(way, problem, monkeypatch):
    """Every graph that is tried has its own index and classes, also where one is copied."""
    parent = FrozenEstimator(problem.forest)
    rows = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    settings = {} if way == "oob" else rows

    def fit(max_polytopes):
        model = KernelDensityForest(parent, max_polytopes=max_polytopes)
        return model.fit(problem.train.X, problem.train.y, **settings)

    unlimited = fit(None)
    monkeypatch.setattr(graph, "MIN_CLASS_ROWS", 30)
    monkeypatch.setattr(graph, "MAX_MEETINGS_PER_TREE", 0.0)
    monkeypatch.setattr(out_of_sample, "MAX_NLL_LOSS", np.inf)
    assert len(fit("auto").graph_.counts.class_rows) == 30
    monkeypatch.setattr(out_of_sample, "MAX_NLL_LOSS", -np.inf)
    raised = fit("auto")
    test = problem.test.X
    # Classes are counted by row instead of by polytope, in another order of the sums.
    np.testing.assert_allclose(
        raised.predict_proba(test), unlimited.predict_proba(test), rtol=0, atol=1e-9
    )


def test_own_masses_of_counted_held_out_rows_are_removed(problem):
    n, k = len(problem.train), len(problem.prior)
    graph, source = HeldOutRows.with_graph(
        problem.partition, problem.train, problem.held_out, k, "scaled", None
    )
    rows = problem.train + problem.held_out
    codes, class_rows = problem.partition.encode(rows.X), draw_rows(len(rows), len(rows) // 2)
    masses = source.masses_at(source.with_class_rows(graph, class_rows), np.array([0.7]))
    similarity = problem.partition.similarity(codes[n:], codes[class_rows])
    similarity[np.arange(n, len(rows))[:, None] == class_rows] = 0
    expected = similarity**0.7 @ rows.one_hot(k)[class_rows]
    # Sums of at most 200 terms of at most 1, added in another order.
    np.testing.assert_allclose(masses(slice(None))[:, :, 0], expected, atol=1e-10)


@pytest.mark.parametrize("variant", ["kdgraph", "paper", "reference", "figure1"])
@pytest.mark.parametrize("limit", [25, 0.05])
def test_merged_forest_keeps_probabilities_and_prior_limit(problem, variant, limit):
    settings = {"X_calibration": problem.held_out.X, "y_calibration": problem.held_out.y}
    kdf = FORESTS[variant](FrozenEstimator(problem.forest), max_polytopes=limit)
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
    graph, source = HeldOutRows.with_graph(
        problem.partition, problem.train, problem.held_out, k, "scaled", 12
    )
    masses = source.masses_at(graph, np.array([0.7, 3.0]))(slice(None))
    rows = problem.train + problem.held_out
    locations, labels = problem.partition.locate(rows.X), rows.one_hot(k)
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
