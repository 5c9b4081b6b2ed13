"""Means and tests of one measure against their definitions, and where they are not defined."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.metrics import METRICS, holm
from kdgraph.results.comparison.aggregate import compare_methods
from kdgraph.results.comparison.significance import compare_pairs, rank_methods
from kdgraph.results.comparison.study import Study, build_study
from kdgraph.results.records import FinishedRun
from tests.results.conftest import make_record

PARENT = "random_forest (parent)"


def study_of(values: np.ndarray, methods: list[str], metric: str = "error") -> Study:
    """Float[data sets, seeds, methods]; the first method is the parent. NaN: the method has no such
    run.
    """
    runs = [
        make_record(
            f"d{d:02}",
            method,
            seed=s,
            values={metric: values[d, s, m + 1]},
            of_parent={metric: values[d, s, 0]},
        )
        for d, s in np.ndindex(values.shape[:2])
        for m, method in enumerate(methods)
        if not np.isnan(values[d, s, m + 1])
    ]
    return build_study([FinishedRun(None, run) for run in runs])  # type: ignore[arg-type]


@given(st.integers(1, 5), st.integers(1, 8), st.integers(1, 4), st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_means_and_comparisons_agree_with_their_definitions(
    n_datasets, n_seeds, n_methods, seed
) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.random((n_datasets, n_seeds, n_methods + 1)), 3)
    methods = [f"m{i}" for i in range(n_methods)]
    study = study_of(values, methods)
    comparison = compare_methods(study, study.measures[0])
    names = [PARENT, *methods]
    index = [f"d{d:02}" for d in range(n_datasets)]
    pd.testing.assert_frame_equal(
        comparison.mean, pd.DataFrame(values.mean(axis=1), index, names), check_names=False
    )
    if n_seeds > 1:
        pd.testing.assert_frame_equal(
            comparison.std,
            pd.DataFrame(values.std(axis=1, ddof=1), index, names),
            check_names=False,
        )
    assert (comparison.n == n_seeds).all(axis=None)
    for d, dataset in enumerate(index):
        expected = [
            compare_pairs(pd.Series(values[d, :, m + 1]), pd.Series(values[d, :, 0]), scale=1.0)
            for m in range(n_methods)
        ]
        p = holm([each.p for each in expected])
        assert {
            name: against.outcome for name, against in comparison.over_seeds[dataset].items()
        } == dict(zip(methods, expected, strict=True))
        assert [against.p for against in comparison.over_seeds[dataset].values()] == pytest.approx(
            p.tolist()
        )
    means = pd.DataFrame(values.mean(axis=1), columns=names)
    for name, against in comparison.over_datasets.items():
        assert (
            against.outcome == compare_pairs(means[name], means[PARENT], scale=1.0)
            and against.name == PARENT
        )
        assert against.change == pytest.approx((means[name] - means[PARENT]).median(), abs=1e-6)
    if n_methods > 1 and n_datasets > 1:
        assert (
            comparison.ranks == rank_methods(means, scale=1.0)
            and comparison.ranked == names
            and comparison.seeds_ranked == n_datasets * n_seeds
        )
    else:
        assert comparison.ranks is None


def test_higher_is_better_turns_everything_round(monkeypatch) -> None:
    values = np.round(np.random.default_rng(0).random((6, 3, 4)), 3)
    lower = study_of(values, list("abc"))
    comparison = compare_methods(lower, lower.measures[0])
    monkeypatch.setattr(METRICS["error"], "better", "higher")
    higher = study_of(1 - values, list("abc"))
    other = compare_methods(higher, higher.measures[0])
    assert (
        comparison.ranks is not None
        and other.ranks is not None
        and comparison.ranks.mean == pytest.approx(other.ranks.mean)
    )
    for name in "abc":
        a, b = comparison.over_datasets[name], other.over_datasets[name]
        assert a.outcome == b.outcome and a.p == b.p and a.change == pytest.approx(-b.change)
    pd.testing.assert_frame_equal(1 - comparison.mean, other.mean)


def test_other_baseline_is_compared_with_the_parent() -> None:
    values = np.round(np.random.default_rng(1).random((3, 4, 3)), 3)
    study = study_of(values, ["a", "b"])
    comparison = compare_methods(study, study.measures[0], against="a")
    assert {name: against.name for name, against in comparison.over_datasets.items()} == {
        PARENT: "a",
        "b": "a",
    }
    means = values.mean(axis=1)
    assert comparison.over_datasets[PARENT].outcome.wins == (means[:, 0] < means[:, 1]).sum()
    assert (
        comparison.over_seeds["d00"]["b"].outcome.wins == (values[0, :, 2] < values[0, :, 1]).sum()
    )


def test_pairs_are_of_the_seeds_that_both_have() -> None:
    values = np.array([[[0.5, 0.4, 0.1], [0.9, 0.8, np.nan], [0.7, 0.6, 0.2]]])
    study = study_of(values, ["a", "b"])
    comparison = compare_methods(study, study.measures[0], against="a")
    assert comparison.n.loc["d00"].to_dict() == {PARENT: 3, "a": 3, "b": 2}
    assert comparison.mean.loc["d00", "b"] == pytest.approx(0.15) and comparison.std.loc[
        "d00", "b"
    ] == pytest.approx(0.1 / np.sqrt(2))
    assert str(comparison.over_seeds["d00"]["b"].outcome) == "2/0/0"
    assert comparison.over_datasets["b"].change == pytest.approx(
        0.15 - 0.5
    )  # both on seeds 0 and 2


def test_ranks_leave_out_sparse_methods_then_incomplete_sets() -> None:
    values = np.round(np.random.default_rng(2).random((4, 2, 5)), 3)
    values[1:, :, 4] = np.nan  # one data set of four
    values[0, 1, 3] = np.nan  # seven runs of eight
    study = study_of(values, list("abcd"))
    comparison = compare_methods(study, study.measures[0])
    assert (
        comparison.ranked == [PARENT, "a", "b", "c"]
        and comparison.unranked == ["d"]
        and comparison.seeds_ranked == 7
    )
    complete = values[:, :, :4].mean(axis=1)
    complete[0] = values[0, 0, :4]
    assert comparison.ranks == rank_methods(pd.DataFrame(complete, columns=[PARENT, "a", "b", "c"]))


def test_best_do_not_differ_significantly_from_the_best_mean() -> None:
    rng = np.random.default_rng(3)
    base = rng.random((1, 10, 1))
    values = base + np.concatenate(
        [np.full((1, 10, 1), 0.5), 0.001 * rng.random((1, 10, 2)), np.full((1, 10, 1), 0.3)], axis=2
    )
    study = study_of(values, ["a", "b", "c"])
    comparison = compare_methods(study, study.measures[0])
    first, second = sorted("ab", key=lambda name: comparison.mean.loc["d00", name])
    assert set(comparison.best["d00"]) == {"a", "b"}
    assert (
        stats.wilcoxon(values[0, :, 1] - values[0, :, 2]).pvalue > 0.05
    )  # and so the two do not differ
    few = study_of(values[:, :3], ["a", "b", "c"])
    assert (
        compare_methods(few, few.measures[0]).best["d00"] == [] and first != second
    )  # three seeds are too few


def test_a_method_with_fewer_than_half_of_the_seeds_is_never_best() -> None:
    values = np.linspace(0.5, 0.6, 10)[None, :, None] + np.array([0.2, 0.0, -0.4])
    values[:, 4:, 2] = np.nan
    study = study_of(values, ["a", "b"])
    assert compare_methods(study, study.measures[0]).best["d00"] == ["a"]
    values = np.linspace(0.5, 0.6, 10)[None, :, None] + np.array([0.2, 0.0, -0.4])
    study = study_of(values, ["a", "b"])
    assert compare_methods(study, study.measures[0]).best["d00"] == ["b"]


def test_best_over_data_sets_are_within_critical_difference() -> None:
    rng = np.random.default_rng(4)
    values = (
        rng.random((20, 1, 1)) + np.array([0.5, 0.0, 0.001, 0.6]) + 0.01 * rng.random((20, 1, 4))
    )
    study = study_of(values, list("abc"))
    comparison = compare_methods(study, study.measures[0])
    assert comparison.best_over_datasets == comparison.ranks.best and set(
        comparison.best_over_datasets
    ) == {"a", "b"}
    same = study_of(np.tile(rng.random((20, 1, 1)), 4), list("abc"))
    assert compare_methods(same, same.measures[0]).best_over_datasets == []


@pytest.mark.parametrize(
    ("n", "change", "expected"), [(6, -0.1, ["a"]), (6, 0.1, [PARENT]), (5, -0.1, []), (6, 0.0, [])]
)
def test_best_of_two_methods_is_that_of_the_paired_test(n, change, expected) -> None:
    values = np.linspace(0.3, 0.5, n)[:, None, None] + np.array([0.0, change])
    study = study_of(values, ["a"])
    assert compare_methods(study, study.measures[0]).best_over_datasets == expected


def test_where_neither_direction_is_better_there_are_means_only() -> None:
    study = study_of(np.random.default_rng(5).random((3, 3, 3)), ["a", "b"], "mmc")
    comparison = compare_methods(study, study.measures[0])
    assert (
        not comparison.is_judged
        and comparison.ranks is None
        and comparison.over_datasets == comparison.over_seeds == comparison.best == {}
    )
    assert comparison.mean.shape == (3, 3) and comparison.best_over_datasets == []


def test_measure_of_one_method_alone_is_not_compared(record, as_runs) -> None:
    study = build_study(
        as_runs(
            [
                record("a", "kdf", values={"error": 0.1}),
                record("a", "isotonic", values={"nll": 0.1}, of_parent={}),
            ]
        )
    )
    nll = compare_methods(study, study.measures[1])
    assert (
        list(nll.mean.columns) == ["isotonic"]
        and nll.over_datasets == {}
        and nll.over_seeds["a"] == {}
        and nll.best["a"] == []
    )
    assert compare_methods(study, study.measures[1], against="kdf").over_datasets == {}


def test_undefined_numbers_are_left_out_of_means_and_pairs(record, as_runs) -> None:
    runs = [
        record("a", seed=s, values={"mmc_wrong": v}, of_parent={"mmc_wrong": 0.9})
        for s, v in enumerate([0.5, None, 0.7])
    ]
    study = build_study(as_runs(runs))
    result = compare_methods(study, study.measures[0])
    assert result.mean.loc["a", "kdf"] == pytest.approx(0.6) and result.n.loc["a", "kdf"] == 2
    assert str(result.over_seeds["a"]["kdf"].outcome) == "2/0/0"
