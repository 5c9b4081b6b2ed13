"""Means by any dissimilarity against those by features, and what only a dissimilarity can say:
never near.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from kdgraph.errors import DataError, ParameterError
from kdgraph.smoothing import kernel_means as by_distance
from kdgraph.smoothing import local_means, local_means_by_distance

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def sample(m: int, n: int):
    rng = np.random.default_rng(0)
    return rng.normal(size=(m, 2)), rng.normal(size=(n, 2)), rng.normal(size=n)


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_of_distances_between_features_it_is_what_they_give(leave_one_out: bool) -> None:
    at, X, values = sample(80, 80)
    at = X if leave_one_out else at
    rng = np.random.default_rng(1)
    options = {
        "within_at": rng.integers(0, 3, 80),
        "within": rng.integers(0, 3, 80),
        "weight": rng.random(80),
    }
    options |= {"leave_one_out": leave_one_out}
    found = local_means_by_distance(
        lambda i, j: cdist(at[i], X[j], "cityblock") / 2,
        80,
        80,
        values,
        [1e-6, 0.3, 1e9],
        **options,
    )
    expected = local_means(at, X, values, [1e-6, 0.3, 1e9], **options)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)  # these are in float32 at 0.3
    np.testing.assert_allclose(found.n_eff, expected.n_eff, rtol=1e-5)
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-4, atol=1e-300)


def test_of_minus_the_log_of_a_similarity_weights_are_its_powers() -> None:
    _, _, values = sample(1, 60)
    similarity = np.random.default_rng(1).random((30, 60))
    similarity[:, 7] = 0  # in no leaf together
    with np.errstate(divide="ignore"):
        apart = -np.log(similarity)
    found = local_means_by_distance(lambda i, j: apart[np.ix_(i, j)], 30, 60, values, [1.0, 0.25])
    for b, power in enumerate([1, 4]):
        weight = similarity**power
        np.testing.assert_allclose(found.mean[b], weight @ values / weight.sum(axis=1), rtol=1e-9)
        np.testing.assert_allclose(found.mass[b], weight.sum(axis=1), rtol=ROUNDING)
        np.testing.assert_allclose(
            found.n_eff[b], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=ROUNDING
        )


def test_of_equal_group_or_not_it_is_the_mean_of_the_group() -> None:
    """The improper kernel 1[same group] of Luo et al., at any bandwidth; a group that no row is of
    has no mean.
    """
    group, group_at = np.arange(50) % 4, np.array([0, 3, 9])
    values = np.random.default_rng(0).normal(size=(50, 2))
    found = local_means_by_distance(
        lambda i, j: np.where(group_at[i][:, None] == group[j], 0.0, np.inf),
        3,
        50,
        values,
        [1e-9, 1e9],
    )
    for b in range(2):
        for place, each in enumerate([0, 3]):
            np.testing.assert_allclose(
                found.mean[b, place], values[group == each].mean(axis=0), rtol=1e-12
            )
            assert found.n_eff[b, place] == (group == each).sum()
        assert np.isnan(found.mean[b, 2]).all()
        assert np.isnan(found.n_eff[b, 2])
        assert found.mass[b].tolist() == [13, 12, 0]


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_size_of_a_block_changes_no_bit(leave_one_out: bool, monkeypatch) -> None:
    _, X, values = sample(1, 70)
    apart = cdist(X, X)
    within = np.arange(70) % 2
    found = []
    for block in (1, 97, 3000, 10**7):
        monkeypatch.setattr(by_distance, "DISTANCES_PER_BLOCK", block)
        options = {"within_at": within, "within": within, "leave_one_out": leave_one_out}
        found.append(
            local_means_by_distance(
                lambda i, j: apart[np.ix_(i, j)], 70, 70, values, [0.1, 2.0], **options
            )
        )
    for other in found[1:]:
        np.testing.assert_array_equal(other.mean, found[0].mean)
        np.testing.assert_array_equal(other.n_eff, found[0].n_eff)
        np.testing.assert_array_equal(other.mass, found[0].mass)


def test_only_rows_of_the_label_are_asked_for_and_what_comes_is_left_as_it_is() -> None:
    label, all_of_them = np.arange(20) % 2, np.arange(400.0).reshape(20, 20)
    asked = []

    def distance(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        asked.append((i, j))
        return (
            all_of_them[i[0] : i[0] + 1, j[0] : j[0] + 1]
            if len(i) == len(j) == 1
            else all_of_them[np.ix_(i, j)]
        )

    local_means_by_distance(
        distance, 20, 20, np.ones(20), [1.0], within_at=label, within=label, leave_one_out=True
    )
    np.testing.assert_array_equal(all_of_them, np.arange(400.0).reshape(20, 20))
    assert all(len(set(label[i]) | set(label[j])) == 1 for i, j in asked)
    assert sorted(np.concatenate([i for i, _ in asked])) == list(range(20))


def test_memory_is_that_of_a_block() -> None:
    """All distances at once would be 32 MB, and their weights as much again."""
    import tracemalloc

    tracemalloc.start()
    local_means_by_distance(
        lambda i, j: np.abs(i[:, None] - j) / 2000.0, 2000, 2000, np.ones(2000), [0.1]
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


def test_small_weights_have_an_effective_sample_size_too() -> None:
    apart, weight = np.array([[0.0, 0.0, 100.0]]), [1e-200, 3e-200, 1.0]
    found = local_means_by_distance(
        lambda i, j: apart[np.ix_(i, j)], 1, 3, [0.0, 1.0, 5.0], [0.1], weight=weight
    )
    assert (
        found.mean[0, 0] == pytest.approx(0.75)
        and found.n_eff[0, 0] == pytest.approx(1.6)
        and found.mass[0, 0] == pytest.approx(4e-200)
    )


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            np.zeros((1, 2)),
            r"distance must give a number for each of 2 places and 2 rows, got shape \(1, 2\)",
        ),
        (
            np.zeros(2),
            r"distance must give a number for each of 2 places and 2 rows, got shape \(2,\)",
        ),
        (
            np.array([[0.0, np.nan], [-1.0, np.inf]]),
            r"distance must give numbers from 0 up, got nan \(2 such\)",
        ),
    ],
)
def test_what_no_distance_gives(answer: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}$"):
        local_means_by_distance(lambda i, j: answer, 2, 2, [1.0, 0.0], [1.0])


def test_what_cannot_be_smoothed() -> None:
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
