"""The table at the end of a sweep, and its warnings."""

from __future__ import annotations

import re

import pytest

from kdgraph.report.sweep_table import MOST_WARNINGS, SweepRun, sweep_table, sweep_warnings
from tests.report.table_records import (
    detection_run,
    entry,
    in_sample,
    of_both,
    record,
    regression_run,
    warned,
)


def test_a_sweep_shows_no_column_that_is_in_sample():
    lines = sweep_table([SweepRun(in_sample())]).splitlines()
    assert re.split(" {3,}", lines[1].strip()) == ["error", "ECE, 15 bins", "my_score, k 3"]


def test_a_sweep_of_regressors_shows_what_was_measured():
    assert sweep_table([SweepRun(regression_run(0)), SweepRun(regression_run(1))]).splitlines() == [
        "tran20 · 2 seeds (0, 1) · mean ± standard deviation",
        (
            "                          RMSE   MSE to the true mean   coverage, level 0.9           "
            " CRPS"
        ),
        (
            "  linear (parent)   12,346 ± 0          0.500 ± 0.000         0.810 ± 0.000   0.250"
            " ± 0.000"
        ),
        (
            "  global_pit        12,346 ± 0          0.400 ± 0.000         0.900 ± 0.000   0.240"
            " ± 0.000"
        ),
    ]


def test_a_sweep_of_detectors_shows_what_they_detect():
    assert sweep_table([SweepRun(detection_run())]).splitlines() == [
        "spiral · seed 0 · prior 0.500",
        (
            "                         error   AUROC on kmnist   AUROC on noise   FPR95 on kmnist  "
            " FPR95 on noise"
        ),
        (
            "  extra_trees (parent)   0.100             0.700            0.800             0.500  "
            "          0.500"
        ),
        (
            "  tood                   0.100             0.900            0.950             0.250  "
            "          0.250"
        ),
    ]


def test_every_row_has_a_number_where_many_sets_come_first():
    """Single rows are scored on seven sets; sets of rows, which one method judges, come after."""
    single = [one for i in range(7) for one in of_both("auroc", 0.7, 0.8, "ood", f"noise{i}")]
    of_sets = [entry("auroc", "calibrated", 0.95, "ood", "noise0", rows=100)]
    parts = {"calibrator": "none", "detector": "tood", "parent": "extra_trees"}
    runs = [
        record(0, "msp", metrics=single, parts=parts | {"detector": "msp"}),
        record(0, "tood", metrics=of_sets, parts=parts),
    ]
    lines = sweep_table([SweepRun(run, {"method": run["method"]}) for run in runs]).splitlines()
    assert lines[1].count("AUROC") == 6
    (row,) = (line for line in lines if line.strip().startswith("tood"))
    assert "0.950" in row


def test_a_sweep_shows_metrics_of_the_user():
    metrics = [*of_both("my_score", 0.2, 0.1), *of_both("other", 0.3, 0.4, "ood", "kmnist")]
    assert "my_score, k 3   other on kmnist" in sweep_table([SweepRun(record(metrics=metrics))])


def test_the_table_of_a_sweep():
    runs = [
        SweepRun(record(0, "kdf", 0.10), {"method": "kdf", "seed": "0"}),
        SweepRun(record(1, "kdf", 0.14, 0.22), {"method": "kdf", "seed": "1"}),
    ]
    runs += [
        SweepRun(record(seed, "none", value, value), {"method": "none", "seed": str(seed)})
        for seed, value in enumerate((0.2, 0.22))
    ]
    runs += [SweepRun(record(0, "isotonic", 0.3), {"method": "isotonic", "seed": "0"})]
    assert sweep_table(runs).splitlines() == [
        "spiral · 2 seeds (0, 1) · mean ± standard deviation · prior 0.500",
        (
            "                            error    ECE, 15 bins   confidence at radius 2  "
            " confidence at radius 5"
        ),
        (
            "  forest (parent)   0.210 ± 0.014   0.050 ± 0.000            0.800 ± 0.000           "
            " 0.400 ± 0.000"
        ),
        (
            "  kdf               0.120 ± 0.028   0.050 ± 0.000            0.500 ± 0.000           "
            " 0.620 ± 0.000"
        ),
        (
            "  isotonic                  0.300           0.050                    0.500           "
            "         0.620"
        ),
    ]


def test_choices_that_no_name_contains_are_added():
    runs = [
        SweepRun(
            record(seed, parent=value, calibrated=value / 2),
            {"preprocess": name, "seed": str(seed), "calibrator": "kdf"},
        )
        for name, value in (("none", 0.2), ("standardized", 0.4))
        for seed in (0, 1)
    ]
    lines = sweep_table(runs).splitlines()
    assert [line.split("0.")[0].strip() for line in lines[2:]] == [
        "forest preprocess=none (parent)",
        "forest preprocess=standardized (parent)",
        "kdf preprocess=none",
        "kdf preprocess=standardized",
    ]
    assert (
        "0.200 ± 0.000" in lines[2] and "0.400 ± 0.000" in lines[3] and "0.100 ± 0.000" in lines[4]
    )
    inside = [
        SweepRun(record(method="kdf"), {"preprocess.numeric": value}) for value in ("scale", "rank")
    ]
    assert "forest preprocess.numeric=rank (parent)" in sweep_table(inside)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (
            "network",
            [
                "forest network=a (parent)",
                "forest network=b (parent)",
                "kdf network=a",
                "kdf network=b",
            ],
        ),
        ("method", ["forest (parent)", "kdf method=a", "kdf method=b"]),
        ("calibrator", ["forest (parent)", "kdf calibrator=a", "kdf calibrator=b"]),
        ("metrics", ["forest (parent)", "kdf"]),
        ("protocol", ["forest (parent)", "kdf"]),  # which is in a method's name
    ],
)
def test_rows_that_a_choice_distinguishes(group, expected):
    lines = sweep_table([SweepRun(record(), {group: choice}) for choice in "ab"]).splitlines()
    assert [line.split("0.")[0].strip() for line in lines[2:]] == expected


def test_data_sets_and_ood_sets_of_one_name_have_separate_blocks():
    for group in ("dataset", "ood"):
        blocks = sweep_table([SweepRun(record(), {group: choice}) for choice in "ab"]).split("\n\n")
        assert [block.partition(" ·")[0] for block in blocks] == [
            f"spiral {group}=a",
            f"spiral {group}=b",
        ]
    others = [
        SweepRun(record(metrics=of_both("mmc", 0.1, 0.2, "ood", name)), {"ood": name})
        for name in ("noise", "svhn")
    ]
    head = sweep_table(others).splitlines()[1].strip()
    assert head.split("   ") == [
        "confidence on noise",
        "confidence on svhn",
    ]
    paper = [
        SweepRun(
            record(
                method="odin-as_in_paper",
                protocol="paper",
                metrics=of_both("mmc", 0.1, 0.2, "ood", name),
            ),
            {"ood": name},
        )
        for name in ("noise", "svhn")
    ]
    rows = [line.split("0.")[0].strip(" –") for line in sweep_table(paper).splitlines()[2:5]]
    assert rows == [
        "forest (parent)",
        "odin (paper protocol) ood=noise",
        "odin (paper protocol) ood=svhn",
    ]


def test_warnings_of_a_sweep_are_gathered():
    runs = [warned(seed, "it learnt nothing") for seed in (0, 1, 1, 2, 3, 4)] + [
        warned(5, "odd"),
        warned(6),
    ]
    assert sweep_warnings(runs).splitlines() == [
        "warning, spiral seed 0, spiral seed 1, spiral seed 2 and 2 more: it learnt nothing",
        "warning, spiral seed 5: odd",
    ]
    assert sweep_warnings([warned(0)]) == ""
    many = sweep_warnings([warned(0, *map(str, range(MOST_WARNINGS + 2)))]).splitlines()
    assert (len(many), many[-1]) == (MOST_WARNINGS + 1, "2 more warnings are in the records")


def test_other_swept_settings_have_different_names():
    runs = [
        SweepRun(record(seed), {"dataset.n_train": n, "calibrator.alpha": "0.1", "seed": str(seed)})
        for n in ("10", "20")
        for seed in range(3)
    ]
    text = sweep_table(runs)
    assert [block.splitlines()[0] for block in text.split("\n\n")] == [
        f"spiral dataset.n_train={n} · 3 seeds (0–2) · mean ± standard deviation · prior 0.500"
        for n in (10, 20)
    ]
    assert text.count("\n  kdf calibrator.alpha=0.1") == 2


def test_rows_that_a_setting_distinguishes_have_one_name():
    """The preset's own value is one of those swept, so one of the runs has changed options."""
    options = {"0.005": {}, "0.1": {"calibrator.alpha": 0.1}}
    chosen = [
        SweepRun(record(0) | {"method_options": changed}, {"calibrator.alpha": alpha})
        for alpha, changed in options.items()
    ]
    table = sweep_table(chosen)
    assert all(f"\n  kdf calibrator.alpha={alpha}" in table for alpha in options)
    assert "(calibrator" not in table


def test_options_that_are_not_swept_follow_the_method():
    changed = record(0) | {"method_options": {"parent.n_estimators": 7}}
    assert "\n  kdf (parent.n_estimators=7)" in sweep_table([SweepRun(changed), SweepRun(changed)])


def test_a_sweep_folds_to_the_width_of_the_terminal():
    runs = [SweepRun(record(seed), {"seed": str(seed)}) for seed in (0, 1)]
    wide, narrow = sweep_table(runs).splitlines(), sweep_table(runs, 60).splitlines()
    assert max(map(len, narrow)) <= 60
    names = ["forest (parent)", "kdf"]
    assert [line.strip().partition("   ")[0] for line in narrow if "0." in line][1:] == names * 3
    assert set(" ".join(narrow).split()) == set(" ".join(wide).split())
