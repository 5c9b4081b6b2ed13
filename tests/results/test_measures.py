"""Measures: their names, their directions, and the choice among them."""

from __future__ import annotations

import pytest

from kdgraph.errors import UsageError
from kdgraph.results.measures import (
    Measure,
    choose_measures,
    choose_ood_measures,
    metric_notes,
    read_measures,
    representative_sets,
    select_measures,
    unique_labels,
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
def all_measures(record) -> list[Measure]:
    return measures_of(record(values=EVERYTHING))


def test_names_are_those_that_are_typed_and_read(all_measures) -> None:
    assert {measure.id: (measure.label, measure.better) for measure in all_measures} == {
        "error": ("error", "lower"),
        "ece": ("ECE, 15 bins", "lower"),
        "nll": ("NLL", "lower"),
        "mmc": ("mean max confidence", None),
        "hellinger@grid": ("Hellinger on the grid", "lower"),
        "mmc@sphere:radius=1": ("confidence at radius 1", None),
        "mmc@sphere:radius=2": ("confidence at radius 2", None),
        "mmc@sphere:radius=5": ("confidence at radius 5", None),
        "oce@sphere:radius=1": ("OCE at radius 1", None),  # there are training data
        "oce@sphere:radius=2": ("OCE at radius 2", "lower"),
        "oce@sphere:radius=5": ("OCE at radius 5", "lower"),
        "oce@kmnist": ("OCE on kmnist", "lower"),
    }


def test_numbers_on_calibration_rows_are_in_sample_unless_refitted(record) -> None:
    held_out, as_in_paper = (
        record(values={"ece": 0.1, "ece@calibration": 0.05}, protocol=protocol)
        for protocol in ("strict", "paper")
    )
    test, calibration = measures_of(held_out)
    assert (calibration.id, calibration.label) == (
        "ece@calibration",
        "ECE, 15 bins, on calibration rows (in sample)",
    )
    assert (
        calibration.in_sample
        and not calibration.is_test
        and calibration.better == "lower"
        and test.is_test
        and not test.in_sample
    )
    other = measures_of(as_in_paper)[1]
    assert (
        other.label == "ECE, 15 bins, on calibration rows" and other != calibration
    )  # never averaged with the other
    assert select_measures([test, calibration], ["ece"], ["calibration"]) == [calibration]


def test_where_a_family_meets_the_data_nothing_is_better(record) -> None:
    run = record(values={"oce@ellipse:axis=30": 0.1})
    run["metrics"][0]["in_distribution"] = True
    inside, outside = (measure for measure, _ in read_measures(run))
    assert (inside.better, outside.better) == (None, "lower")
    assert outside.label == "OCE on ellipse, axis 30"


def test_a_family_that_is_named_by_its_parameter_is_named_once(record) -> None:
    run = record(values={"mmc@intensity:intensity=255": 0.9, "mmc@blend:epsilon=0.5": 0.9})
    assert [measure.label for measure, _ in read_measures(run)][:2] == [
        "confidence on intensity 255",
        "confidence on blend, epsilon 0.5",
    ]


def test_labels_contain_options_that_are_numbers(record) -> None:
    about = {
        "coverage": {"level": 0.9},
        "my_score": {"k": 3, "rule": "max", "strict": True, "_target_": "custom.my_score"},
    }
    run = record(
        values=dict.fromkeys(about, 0.5),
        config={f"metrics.test.{name}": options for name, options in about.items()},
    )
    assert [measure.label for measure, _ in read_measures(run)][:2] == [
        "coverage, level 0.9",
        "my_score, k 3",
    ]


def test_coverage_has_the_level_of_the_method(record) -> None:
    def measures(**conformal):
        return measures_of(
            record(
                values={"set_coverage": 0.93, "set_size": 1.2},
                config={"conformal": {"name": "aps", **conformal}} if conformal else None,
            )
        )

    coverage, size = measures(coverage=0.9)
    assert coverage.label == "set coverage, level 0.9" and "level" not in size.label
    assert ("level", "0.9") in coverage.options
    other, same_size = measures(coverage=0.95)
    assert other != coverage and same_size == size
    assert [measure.label for measure in measures()] == ["set coverage", size.label]


def test_metrics_that_no_textbook_has_are_explained(record) -> None:
    run = record(values={"error": 0.1, "oce@sphere:radius=2": 0.2, "oce@sphere:radius=5": 0.2})
    assert metric_notes(measures_of(run)) == [
        "OCE: out-of-distribution calibration error, the mean distance of the largest probability"
        " from the largest class prior"
    ]
    assert metric_notes(measures_of(record(values={"ece": 0.1}))) == []


def test_labels_contain_the_feature_space(record) -> None:
    about = {
        "one": {"metric": "mlce", "space": "pca", "bandwidth": 0.4},
        "two": {"metric": "mlce", "space": "2", "bandwidth": 0.2},
    }
    run = record(
        values=dict.fromkeys(about, 0.5),
        config={f"metrics.test.{name}": options for name, options in about.items()},
    )
    for name in about:
        run["about_metrics"][name] = {"label": "MLCE", "better": "lower", "metric": "mlce"}
    assert list(unique_labels(measures_of(run)).values()) == [
        "MLCE in pca, bandwidth 0.4",
        "MLCE in 2, bandwidth 0.2",
    ]


def test_where_better_is(record) -> None:
    far = [
        f"{name}@sphere:radius={radius}"
        for name, radius in (("mmc", 1), ("mmc", 2), ("oce", 2), ("auroc", 2))
    ]
    ids = ["error", "coverage", "mmc", *far, "new@x"]
    actual = {
        measure.id: (measure.ideal, measure.detects)
        for measure, _ in read_measures(record(values=dict.fromkeys(ids, 0.5)))
    }
    assert list(actual.values()) == [
        ("lower", False),
        ("none", False),
        ("none", False),
        ("none", False),
        ("prior", False),
        ("lower", False),
        ("higher", True),
        ("none", False),
    ]


def test_a_metric_of_the_user_is_described_by_its_record(record) -> None:
    described = record(values={"my_score": 1.0, "ece": 0.5, "custom@kmnist": 0.5})
    described["about_metrics"]["my_score"] = {
        "label": "my score",
        "better": "higher",
        "unit": "points",
    }
    described["about_metrics"]["custom"] = {"label": "custom", "better": None, "detects": True}
    described["about_metrics"]["ece"]["label"] = "ECE of long ago"
    measures = {measure.metric: measure for measure, _ in read_measures(described)}
    own = measures["my_score"]
    assert (own.id, own.label, own.better, own.info.unit) == (
        "my_score",
        "my score",
        "higher",
        "points",
    )
    assert (measures["custom"].detects, measures["custom"].ideal) == (True, "none")
    assert (
        measures["ece"].label == "ECE of long ago, 15 bins"
    )  # the record counts, not what is installed here
    usual = next(measure for measure, _ in read_measures(record(values={"my_score": 1.0})))
    assert usual != own and (usual.label, usual.better) == ("my_score", None)


def test_a_score_of_sets_is_another_measure_than_one_of_rows(record) -> None:
    run = record(values={"auroc@kmnist": 0.9, "auroc@sphere:radius=2": 0.9})
    for entry in run["metrics"]:
        if entry["of"] == "calibrated":
            entry["n_of"] = "sets of 20 rows" if entry["ood"] == "kmnist" else "rows in sets of 20"
    labels = {(entry["of"], measure.label, measure.n_of) for measure, entry in read_measures(run)}
    assert labels == {
        ("parent", "AUROC on kmnist", "rows"),
        ("parent", "AUROC at radius 2", "rows"),
        ("calibrated", "AUROC of sets of 20 rows on kmnist", "sets of 20 rows"),
        ("calibrated", "AUROC of rows in sets of 20 at radius 2", "rows in sets of 20"),
    }
    assert len({measure for measure, _ in read_measures(run)}) == 4
    assert (
        len(select_measures([measure for measure, _ in read_measures(run)], ["auroc"], ["kmnist"]))
        == 2
    )


def test_other_options_or_other_draws_are_another_measure(record) -> None:
    usual = record(values={"ece": 0.1, "oce@sphere:radius=2": 0.2})
    bins = record(values={"ece": 0.1}, config={"metrics.test.ece.bins": 10})
    mass = record(values={"ece": 0.1}, config={"metrics.test.ece.strategy": "mass"})
    drawn = record(values={"oce@sphere:radius=2": 0.2}, config={"ood.draw": "normal"})
    finer = record(values={"oce@sphere:radius=2": 0.2}, config={"ood.n": 5000, "ood.radii": [2]})
    labels = unique_labels(
        list(
            dict.fromkeys(
                measure for run in (usual, bins, mass, drawn, finer) for measure in measures_of(run)
            )
        )
    )
    assert list(labels.values()) == [
        "ECE, 15 bins, strategy uniform",
        "OCE at radius 2, draw uniform",
        "ECE, 10 bins",
        "ECE, 15 bins, strategy mass",
        "OCE at radius 2, draw normal",
    ]


def ids(measures) -> list[str]:
    return [measure.id for measure in measures]


@pytest.mark.parametrize(
    ("metrics", "on", "expected"),
    [
        ([], [], list(EVERYTHING)),
        (["nll", "error"], [], ["nll", "error"]),
        (
            ["oce"],
            [],
            ["oce@sphere:radius=1", "oce@sphere:radius=2", "oce@sphere:radius=5", "oce@kmnist"],
        ),
        ([], ["test"], ["error", "ece", "nll", "mmc"]),
        ([], ["grid"], ["hellinger@grid"]),
        (["oce"], ["kmnist"], ["oce@kmnist"]),
        ([], ["radius=2"], ["mmc@sphere:radius=2", "oce@sphere:radius=2"]),
        (["mmc"], ["sphere:radius=5", "test"], ["mmc", "mmc@sphere:radius=5"]),
        (
            ["oce"],
            ["ood"],
            ["oce@sphere:radius=1", "oce@sphere:radius=2", "oce@sphere:radius=5", "oce@kmnist"],
        ),
    ],
)
def test_metrics_and_places_choose(all_measures, metrics, on, expected) -> None:
    assert ids(select_measures(all_measures, metrics, on)) == expected


@pytest.mark.parametrize(
    ("metrics", "on", "message"),
    [
        (
            ["ecee"],
            [],
            (
                "no run has the metric 'ecee'; did you mean 'ece'? (--metric takes: ece, error,"
                " hellinger, mmc, nll, oce)"
            ),
        ),
        (["error"], ["radius=2"], "error was not measured on radius=2; 'kdg table' shows what was"),
        (
            [],
            ["radius=3"],
            (
                "no run has the set of rows 'radius=3'; did you mean 'radius=5'? (--on takes: grid,"
                " kmnist, ood, radius=1, radius=2, radius=5, sphere, sphere:radius=1,"
                " sphere:radius=2, sphere:radius=5, test)"
            ),
        ),
    ],
)
def test_what_was_not_measured_is_an_error_with_what_was(
    all_measures, metrics, on, message
) -> None:
    with pytest.raises(UsageError) as caught:
        select_measures(all_measures, metrics, on)
    assert str(caught.value) == message


def test_set_of_several_sources_is_drawn_by_its_node(record) -> None:
    """Another table among the other sources is no other way to draw noise."""
    sources = [
        {
            "noise": {"name": "noise", "n": 10, "std": 1.0},
            "other": {"name": name, "columns": columns},
        }
        for name, columns in (("digits", "cycle"), ("wine", "same"))
    ]
    first, second = (
        measures_of(
            record(values={"oce@noise": 0.1, "oce@other": 0.2}, config={"ood": {"sources": each}})
        )
        for each in sources
    )
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False]
    assert dict(first[1].drawn) == {"columns": "cycle"} and dict(first[0].drawn) == {"std": "1.0"}


@pytest.fixture
def measures_named(record):
    """Return a function from names to the measures of a record that has them."""
    return lambda *names: measures_of(record(values=dict.fromkeys(names, 0.1)))


def test_by_default_it_is_what_is_read_most(measures_named) -> None:
    assert ids(choose_measures(measures_named(*EVERYTHING))) == [
        "error",
        "nll",
        "ece",
        "oce@sphere:radius=2",
        "oce@kmnist",
    ]
    assert ids(choose_measures(measures_named(*EVERYTHING), ["hellinger", "mmc"])) == [
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
        ),  # without a known direction, and measures_named is nothing else
    ],
)
def test_by_default_methods_are_compared_by_what_was_measured(
    measures_named, measured, expected
) -> None:
    assert ids(choose_measures(measures_named(*measured))) == expected


def test_by_default_it_is_what_was_measured_on_the_chosen_rows(measures_named) -> None:
    measures = measures_named("error", "nll", "mmc@x", "fpr95@x", "oce@y")
    assert ids(choose_measures(measures, on=["x"])) == ["fpr95@x"]


def test_family_without_radius_2_uses_the_middle_outside_radius(record) -> None:
    values = {
        f"oce@{name}:{key}={r}": 0.1
        for name, key in (("sphere", "radius"), ("shift", "t"))
        for r in (0.5, 3, 4, 6)
    }
    run = record(values=values)
    for item in run["metrics"]:
        item["in_distribution"] = item["params"] in ({"t": 0.5}, {"t": 6.0})
    assert ids(choose_measures(measures_of(run))) == ["oce@sphere:radius=4", "oce@shift:t=3"]


def test_of_many_radii_2_1_and_5_come_first(measures_named) -> None:
    measures = measures_named(*(f"mmc@sphere:radius={r}" for r in (0, 0.5, 1, 1.5, 2, 3, 5)))
    radii = {
        at_most: [
            dict(measure.params)["radius"] for measure in representative_sets(measures, at_most)
        ]
        for at_most in (1, 2, 3)
    }
    assert radii == {1: [2], 2: [1, 2], 3: [1, 2, 5]}
    others = measures_named(*(f"oce@box:low={low}" for low in (-2, -3, -4, -5)))
    assert ids(representative_sets(others, 2)) == ["oce@box:low=-2", "oce@box:low=-4"]


def test_where_there_are_training_data_nothing_is_to_be_detected(measures_named) -> None:
    measures = measures_named(
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
def test_far_rows_have_a_confidence_or_a_detection_rate(
    measures_named, left_out, detects, expected
) -> None:
    measures = measures_named(
        "error", *(name for name in FAR if name.partition("@")[0] not in left_out)
    )
    assert ids(choose_ood_measures(measures, 3, detects=detects)) == expected
