"""Settings that differ get names apart; what repeats a setting does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.results.names import dataset_differences, differing_keys, name_runs


def names(runs) -> list[tuple[str, str, str]]:
    return [(run.dataset, run.method, run.parent) for run in runs]


def test_a_setting_alone_goes_by_its_own_name(record, as_runs) -> None:
    runs = name_runs(
        as_runs(
            [record(d, m, seed=s) for d in ("a", "b") for m in ("kdf", "isotonic") for s in (0, 1)]
        )
    )
    assert {run.method for run in runs} == {"kdf", "isotonic"} and {
        run.dataset for run in runs
    } == {"a", "b"}
    assert {run.parent for run in runs} == {"random_forest"} and {
        run.repetition for run in runs
    } == {(0,), (1,)}


def test_settings_of_one_method_have_different_names_everywhere(record, as_runs) -> None:
    changed = {"calibrator.alpha": 0.05, "calibrator.robust": False}
    runs = name_runs(
        as_runs([record("a"), record("a", config=changed), record("b"), record("b", "isotonic")])
    )
    assert [run.method for run in runs] == [
        "kdf calibrator.alpha=0.005 calibrator.robust=true",
        "kdf calibrator.alpha=0.05 calibrator.robust=false",
        "kdf calibrator.alpha=0.005 calibrator.robust=true",
        "isotonic",
    ]


def test_what_is_measured_or_drawn_makes_no_other_method(record, as_runs) -> None:
    configs = (
        {},
        {"metrics.test.error": {"x": 1}},
        {"figures.draw": ["posterior_maps"]},
        {"ood.n": 7},
    )
    assert {
        run.method for run in name_runs(as_runs([record(config=config) for config in configs]))
    } == {"kdf"}


def test_a_composed_name_has_settings_that_differ_from_a_preset(record, as_runs) -> None:
    composed = record("a", "random_forest-kdf", calibrator="kdf", config={"calibrator.alpha": 1.0})
    runs = name_runs(as_runs([record("a"), composed]))
    assert [run.method for run in runs] == ["kdf", "random_forest-kdf calibrator.alpha=1.0"]
    assert [run.method for run in name_runs(as_runs([composed]))] == [
        "random_forest-kdf"
    ]  # alone it needs none


def test_a_preset_with_other_options_keeps_its_name_beside_them(record, as_runs) -> None:
    changed = record("a", config={"calibrator.alpha": 1.0})
    changed["method_options"] = {"calibrator.alpha": 1.0}
    assert [run.method for run in name_runs(as_runs([record("a"), changed]))] == [
        "kdf",
        "kdf (calibrator.alpha=1.0)",
    ]
    scaled = record("a", config={"calibrator.alpha": 1.0, "preprocess.scale": "none"})
    scaled["method_options"] = {"calibrator.alpha": 1.0}
    names = [run.method for run in name_runs(as_runs([record("a"), changed, scaled]))]
    assert len(set(names)) == 3 and all(name.count("alpha") <= 1 for name in names)
    assert names[2].startswith("kdf (calibrator.alpha=1.0) preprocess")


def test_detectors_and_recalibrators_are_parts_of_a_method(record, as_runs) -> None:
    changed = {"detector.repeats": 5}
    tood = [
        record("a", "tood", calibrator="none", detector="tood", config=config)
        for config in ({}, changed)
    ]
    runs = name_runs(
        as_runs(
            [
                *tood,
                record("a", "pit", calibrator="none", recalibrator="pit"),
                record("a", "none", calibrator="none"),
            ]
        )
    )
    assert [run.method for run in runs] == ["tood", "tood detector.repeats=5", "pit", "none"]
    assert [run.is_parent for run in runs] == [False, False, False, True]


def test_one_method_by_two_protocols_is_two(record, as_runs) -> None:
    held_out, in_paper = (
        record("a", "pit"),
        record("a", "pit-as_in_paper", calibrator="pit", protocol="paper"),
    )
    assert [run.method for run in name_runs(as_runs([held_out, in_paper]))] == [
        "pit",
        "pit (paper protocol)",
    ]
    composed = record(
        "a",
        "random_forest-pit-as_in_paper",
        calibrator="pit",
        protocol="paper",
        config={"calibrator.alpha": 1.0},
    )
    assert [run.method for run in name_runs(as_runs([in_paper, composed]))] == [
        "pit (paper protocol)",
        "random_forest-pit (paper protocol) calibrator.alpha=1.0",
    ]


def test_a_method_of_a_paper_may_be_fitted_to_ood_rows(record, as_runs) -> None:
    def runs(protocol: str) -> list[str]:
        of_ood = [
            record("a", "odin", calibrator="odin", protocol=protocol, config={"ood.n": n})
            for n in (7, 8)
        ]
        return [run.method for run in name_runs(as_runs(of_ood))]

    assert runs("held_out") == ["odin", "odin"] and runs("paper") == [
        "odin (paper protocol) ood.n=7",
        "odin (paper protocol) ood.n=8",
    ]


def test_sizes_are_in_names_of_data_sets_and_not_of_methods(record, as_runs) -> None:
    runs = name_runs(
        as_runs([record("a", config={"dataset.n_train": n}) for n in (100, 1000)] + [record("b")])
    )
    assert names(runs) == [
        ("a n_train=100", "kdf", "random_forest"),
        ("a n_train=1000", "kdf", "random_forest"),
        ("b", "kdf", "random_forest"),
    ]


def test_folds_repeat_a_run_as_seeds_do(record, as_runs) -> None:
    runs = name_runs(
        as_runs([record("a", seed=1, config={"dataset.fold": fold}) for fold in (0, 1)])
    )
    assert [(run.dataset, run.repetition) for run in runs] == [("a", (1, 0)), ("a", (1, 1))]


def test_parents_of_different_settings_have_different_names(record, as_runs) -> None:
    changed = {"parent.n_estimators": 10}
    runs = name_runs(
        as_runs(
            [
                record("a", "kdf"),
                record("a", "isotonic", config=changed),
                record("b", "isotonic", config=changed),
            ]
        )
    )
    assert names(runs) == [
        ("a", "kdf", "random_forest parent.n_estimators=500"),
        ("a", "isotonic", "random_forest parent.n_estimators=10"),
        ("b", "isotonic", "random_forest parent.n_estimators=10"),
    ]


def test_a_parent_that_was_fitted_on_all_rows_has_another_name(record, as_runs) -> None:
    runs = name_runs(
        as_runs([record("a", "isotonic"), record("a", "kdf", config={"calibration": "oob"})])
    )
    assert [run.parent for run in runs] == ["random_forest", "random_forest on all rows"]


def test_differences_between_data_sets_are_listed_once(record, as_runs) -> None:
    runs = name_runs(
        as_runs([record("a", "kdn"), record("b", "kdn", parent="cnn"), record("b", "isotonic")])
    )
    assert [run.method for run in runs] == ["kdn", "kdn", "isotonic"]
    assert dataset_differences(runs) == ["kdn differs between data sets in parent"]


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([{"a": {"name": "x", "k": 1}}, {"a": {"name": "x", "k": 1}}], []),
        ([{"a": {"name": "x", "k": 1}}, {"a": {"name": "x", "k": 2}}], ["a.k"]),
        (
            [{"a": {"name": "x", "k": 1}}, {"a": {"name": "y", "m": 2}}],
            ["a"],
        ),  # another class: its own keys are not compared
        (
            [{"a": {"name": "x", "k": 1}}, {"a": {"name": "x", "k": 2}}, {"a": {"name": "y"}}],
            ["a", "a.k"],
        ),
        (
            [
                {"a": {"name": "x", "in": {"k": 1, "l": [1]}}},
                {"a": {"name": "x", "in": {"k": 1, "l": [2]}}},
            ],
            ["a.in.l"],
        ),
        ([{"a": {"name": "x"}}, {"a": {"name": "x", "k": None}}], ["a.k"]),
        ([{"a": None}, {"a": {"name": "x"}}], ["a"]),
        (
            [{"a": {"name": "x", "_target_": "p.X"}}, {"a": {"name": "x", "_target_": "q.X"}}],
            ["a._target_"],
        ),
        ([{"a": {"name": "x", "_target_": "p.X"}}, {"a": {"name": "y", "_target_": "q.X"}}], ["a"]),
    ],
)
def test_differing_keys(configs, expected) -> None:
    assert differing_keys(configs) == expected


CHOICES = st.fixed_dictionaries(
    {
        "calibrator.alpha": st.sampled_from([0.1, 0.2]),
        "calibrator.name": st.sampled_from(["kdf", "isotonic"]),
        "parent.max_depth": st.sampled_from([None, 3]),
        "preprocess.name": st.sampled_from(["default", "standardized"]),
        "dataset.n_train": st.sampled_from([10, 20]),
        "dataset.name": st.sampled_from(["a", "b"]),
    }
)


@given(st.lists(CHOICES, min_size=1, max_size=8))
@settings(deadline=None)
def test_names_and_settings_correspond_on_one_data_set(configs) -> None:
    from kdgraph.results.records import FinishedRun
    from tests.results.conftest import make_record

    runs = name_runs(
        [
            FinishedRun(Path(), make_record(c["dataset.name"], c["calibrator.name"], config=c))
            for c in configs
        ]
    )
    for first, c in zip(runs, configs, strict=True):
        for second, d in zip(runs, configs, strict=True):
            same_data = all(c[key] == d[key] for key in c if key.startswith("dataset."))
            same_method = all(c[key] == d[key] for key in c if not key.startswith("dataset."))
            assert (first.dataset == second.dataset) == same_data
            if same_data:
                assert (first.method == second.method) == same_method
            if same_method:
                assert first.method == second.method


def test_a_run_of_the_parent_alone_is_no_method(record, as_runs) -> None:
    alone, gated = name_runs(
        as_runs(
            [
                record(method="forest", calibrator="none"),
                record(method="g", calibrator="none", gate="density"),
            ]
        )
    )
    assert alone.is_parent and not gated.is_parent
