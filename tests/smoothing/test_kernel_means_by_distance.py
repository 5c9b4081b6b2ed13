"""Tests of kernel means by any dissimilarity, also an infinite one, against those by features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from kdgraph.errors import DataError, ParameterError
from kdgraph.smoothing import kernel_means, local_means, local_means_by_distance

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def query_points_rows_and_values(m: int, n: int):
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, 2)), rng.normal(size=(n, 2)), rng.normal(size=n)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_feature_distances_give_the_same_means_as_features(leave_one_out: bool) -> None:
    at, X, values = query_points_rows_and_values(80, 80)
    at = X if leave_one_out else at
    rng = np.random.default_rng(1)
    options = {
        "within_at": rng.integers(0, 3, 80),
        "within": rng.integers(0, 3, 80),
        "weight": rng.random(80),
    }
    options |= {"leave_one_out": leave_one_out}
    by_distance = local_means_by_distance(
        lambda i, j: cdist(at[i], X[j], "cityblock") / 2,
        80,
        80,
        values,
        [1e-6, 0.3, 1e9],
        **options,
    )
    expected = local_means(at, X, values, [1e-6, 0.3, 1e9], **options)
    # The means by features are computed in float32 at bandwidth 0.3.
    np.testing.assert_allclose(by_distance.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(by_distance.n_eff, expected.n_eff, rtol=1e-5)
    np.testing.assert_allclose(by_distance.mass, expected.mass, rtol=1e-4, atol=1e-300)


def test_weights_of_minus_log_similarity_are_its_powers() -> None:
    _, _, values = query_points_rows_and_values(1, 60)
    similarity = np.random.default_rng(1).random((30, 60))
    similarity[:, 7] = 0  # these rows share no leaf
    with np.errstate(divide="ignore"):
        distances = -np.log(similarity)
    means = local_means_by_distance(
        lambda i, j: distances[np.ix_(i, j)], 30, 60, values, [1.0, 0.25]
    )
    for b, power in enumerate([1, 4]):
        weight = similarity**power
        np.testing.assert_allclose(means.mean[b], weight @ values / weight.sum(axis=1), rtol=1e-9)
        np.testing.assert_allclose(means.mass[b], weight.sum(axis=1), rtol=ROUNDING)
        np.testing.assert_allclose(
            means.n_eff[b], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=ROUNDING
        )


def test_group_distance_gives_the_mean_of_the_group() -> None:
    """The kernel 1[same group] of Luo et al. at any bandwidth; an empty group has no mean."""
    group, group_at = np.arange(50) % 4, np.array([0, 3, 9])
    values = np.random.default_rng(0).normal(size=(50, 2))
    means = local_means_by_distance(
        lambda i, j: np.where(group_at[i][:, None] == group[j], 0.0, np.inf),
        3,
        50,
        values,
        [1e-9, 1e9],
    )
    for b in range(2):
        for query_id, query_group in enumerate([0, 3]):
            np.testing.assert_allclose(
                means.mean[b, query_id], values[group == query_group].mean(axis=0), rtol=1e-12
            )
            assert means.n_eff[b, query_id] == (group == query_group).sum()
        assert np.isnan(means.mean[b, 2]).all()
        assert np.isnan(means.n_eff[b, 2])
        assert means.mass[b].tolist() == [13, 12, 0]


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_block_size_changes_no_bit(leave_one_out: bool, monkeypatch) -> None:
    _, X, values = query_points_rows_and_values(1, 70)
    distances = cdist(X, X)
    within = np.arange(70) % 2
    results = []
    for block in (1, 97, 3000, 10**7):
        monkeypatch.setattr(kernel_means, "DISTANCES_PER_BLOCK", block)
        options = {"within_at": within, "within": within, "leave_one_out": leave_one_out}
        results.append(
            local_means_by_distance(
                lambda i, j: distances[np.ix_(i, j)], 70, 70, values, [0.1, 2.0], **options
            )
        )
    for result in results[1:]:
        np.testing.assert_array_equal(result.mean, results[0].mean)
        np.testing.assert_array_equal(result.n_eff, results[0].n_eff)
        np.testing.assert_array_equal(result.mass, results[0].mass)


def test_distance_is_called_within_labels_and_not_modified() -> None:
    label, all_distances = np.arange(20) % 2, np.arange(400.0).reshape(20, 20)
    calls = []

    def distance(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        calls.append((i, j))
        return (
            all_distances[i[0] : i[0] + 1, j[0] : j[0] + 1]
            if len(i) == len(j) == 1
            else all_distances[np.ix_(i, j)]
        )

    local_means_by_distance(
        distance, 20, 20, np.ones(20), [1.0], within_at=label, within=label, leave_one_out=True
    )
    np.testing.assert_array_equal(all_distances, np.arange(400.0).reshape(20, 20))
    assert all(len(set(label[i]) | set(label[j])) == 1 for i, j in calls)
    assert sorted(np.concatenate([i for i, _ in calls])) == list(range(20))


def test_peak_memory_is_that_of_a_block() -> None:
    """All distances at once would take 32 MB, and their weights another 32 MB."""
    import tracemalloc

    tracemalloc.start()
    local_means_by_distance(
        lambda i, j: np.abs(i[:, None] - j) / 2000.0, 2000, 2000, np.ones(2000), [0.1]
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


def test_tiny_weights_have_an_effective_sample_size() -> None:
    distances, weight = np.array([[0.0, 0.0, 100.0]]), [1e-200, 3e-200, 1.0]
    means = local_means_by_distance(
        lambda i, j: distances[np.ix_(i, j)], 1, 3, [0.0, 1.0, 5.0], [0.1], weight=weight
    )
    assert (
        means.mean[0, 0] == pytest.approx(0.75)
        and means.n_eff[0, 0] == pytest.approx(1.6)
        and means.mass[0, 0] == pytest.approx(4e-200)
    )


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (
            np.zeros((1, 2)),
            r"distance must give a number for each of 2 query points and 2 rows, got shape \(1, 2\)",
        ),
        (
            np.zeros(2),
            r"distance must give a number for each of 2 query points and 2 rows, got shape \(2,\)",
        ),
        (
            np.array([[0.0, np.nan], [-1.0, np.inf]]),
            r"distance must give numbers from 0 up, got nan \(2 such\)",
        ),
    ],
)
def test_invalid_distances_raise(distances: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}$"):
        local_means_by_distance(lambda i, j: distances, 2, 2, [1.0, 0.0], [1.0])


def test_invalid_arguments_raise() -> None:
    for bandwidths, message in (
        ([], "bandwidths must hold at least one number above 0, got none"),
        ([0.0], r"bandwidth must be in \(0, inf\)"),
    ):
        with pytest.raises(ParameterError, match=message):
            local_means_by_distance(
                lambda i, j: np.zeros((len(i), len(j))), 1, 1, [1.0], bandwidths
            )
    with pytest.raises(
        DataError,
        match=(
            r"^values must have a number, or a row of numbers, for each of 2 rows, got shape"
            r" \(1,\)$"
        ),
    ):
        local_means_by_distance(lambda i, j: np.zeros((len(i), len(j))), 1, 2, [1.0], [1.0])
