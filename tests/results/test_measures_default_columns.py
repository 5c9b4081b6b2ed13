"""What is shown where there is no room for all."""

from __future__ import annotations

import pytest

from kdgraph.results.measures import (
    Measure,
    choose_measures,
    choose_ood_measures,
    read_measures,
    representative_sets,
)

EVERYTHING = {
    "error": 0.1,
    "ece": 0.1,
    "nll": 0.1,
    "mmc": 0.8,
    "hellinger@grid": 0.2,
    **{f"{metric}@sphere:radius={r}": 0.1 for metric in ("mmc", "oce") for r in (1, 2, 5)},
    "oce@kmnist": 0.3,
}


def measures_of(record) -> list[Measure]:
    return list(dict.fromkeys(measure for measure, _ in read_measures(record)))


@pytest.fixture
def there(record):
    """The measures of a record with these values."""
    return lambda *names: measures_of(record(values=dict.fromkeys(names, 0.1)))


def ids(measures) -> list[str]:
    return [measure.id for measure in measures]


def test_by_default_it_is_what_is_read_most(there) -> None:
    assert ids(choose_measures(there(*EVERYTHING))) == [
        "error",
        "nll",
        "ece",
        "oce@sphere:radius=2",
        "oce@kmnist",
    ]
    assert ids(choose_measures(there(*EVERYTHING), ["hellinger", "mmc"])) == [
        "hellinger@grid",
        "mmc",
    ]


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        (("rmse", "interval_score", "crps", "coverage", "pit_ks"), ["rmse", "crps", "coverage"]),
        (("error", "nll_top", "brier_top", "ece", "mmc"), ["error", "ece", "nll_top"]),
        (("error", "auroc@x", "fpr95@x", "mmc@x"), ["error", "auroc@x", "fpr95@x"]),
        (("my_score", "error", "coverage", "other@x"), ["error", "coverage"]),
        (
            ("my_score", "other@x"),
            ["my_score", "other@x"],
        ),  # nobody knows which direction is better, and there is nothing else
    ],
)
def test_by_default_methods_are_compared_by_what_was_measured(there, measured, expected) -> None:
    assert ids(choose_measures(there(*measured))) == expected


def test_by_default_it_is_what_was_measured_on_the_chosen_rows(there) -> None:
    measures = there("error", "nll", "mmc@x", "fpr95@x", "oce@y")
    assert ids(choose_measures(measures, on=["x"])) == ["fpr95@x"]


def test_of_a_family_without_radius_2_it_is_the_middle_of_what_is_outside(record) -> None:
    values = {
        f"oce@{name}:{key}={r}": 0.1
        for name, key in (("sphere", "radius"), ("shift", "t"))
        for r in (0.5, 3, 4, 6)
    }
    one = record(values=values)
    for item in one["metrics"]:
        item["in_distribution"] = item["params"] in ({"t": 0.5}, {"t": 6.0})
    assert ids(choose_measures(measures_of(one))) == ["oce@sphere:radius=4", "oce@shift:t=3"]


def test_of_many_radii_2_1_and_5_come_first(there) -> None:
    found = there(*(f"mmc@sphere:radius={r}" for r in (0, 0.5, 1, 1.5, 2, 3, 5)))
    radii = {
        at_most: [dict(measure.params)["radius"] for measure in representative_sets(found, at_most)]
        for at_most in (1, 2, 3)
    }
    assert radii == {1: [2], 2: [1, 2], 3: [1, 2, 5]}
    others = there(*(f"oce@box:low={low}" for low in (-2, -3, -4, -5)))
    assert ids(representative_sets(others, 2)) == ["oce@box:low=-2", "oce@box:low=-4"]


def test_where_there_are_training_data_nothing_is_to_be_detected(there) -> None:
    measures = there(
        *(f"{metric}@sphere:radius={r}" for r in (1, 2, 3, 5) for metric in ("mmc", "auroc"))
    )
    assert ids(choose_ood_measures(measures, 3, detects=True)) == [
        "auroc@sphere:radius=2",
        "auroc@sphere:radius=5",
    ]
    assert ids(choose_ood_measures(measures, 2, detects=False)) == [
        "mmc@sphere:radius=1",
        "mmc@sphere:radius=2",
        "auroc@sphere:radius=2",
    ]


SETS = ("a", "b")
FAR = tuple(
    f"{metric}@{name}"
    for name in SETS
    for metric in ("mmc", "oce", "aupr_in", "fpr95", "auroc", "my_score")
)


@pytest.mark.parametrize(
    ("left_out", "detects", "expected"),
    [
        ((), False, ["mmc@a", "mmc@b", "auroc@a", "auroc@b"]),
        ((), True, ["auroc@a", "auroc@b", "fpr95@a", "fpr95@b"]),
        (("mmc",), False, ["auroc@a", "auroc@b", "fpr95@a", "fpr95@b"]),
        (("auroc",), True, ["fpr95@a", "fpr95@b", "aupr_in@a", "aupr_in@b"]),
        (("auroc", "fpr95", "aupr_in"), True, ["mmc@a", "mmc@b"]),
        (("auroc", "fpr95", "aupr_in", "mmc", "oce"), False, ["my_score@a", "my_score@b"]),
        (("auroc", "fpr95", "aupr_in", "mmc", "oce", "my_score"), False, []),
    ],
)
def test_far_from_the_data_it_is_the_confidence_or_how_well_that_is_detected(
    there, left_out, detects, expected
) -> None:
    measures = there("error", *(name for name in FAR if name.partition("@")[0] not in left_out))
    assert ids(choose_ood_measures(measures, 3, detects=detects)) == expected
