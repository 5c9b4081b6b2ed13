"""Tables from records, on records written by hand."""

from __future__ import annotations

import pytest

from kdgraph.errors import UsageError
from kdgraph.report.run_table import run_table
from kdgraph.report.sweep_table import MOST_WARNINGS, Done, sweep_table, sweep_warnings
from tests.results.about_metrics import about_metrics


def entry(metric, of, value, on="test", ood=None, **params):
    return {
        "metric": metric,
        "of": of,
        "on": on,
        "ood": ood,
        "params": params,
        "value": value,
        "n": 10,
        "stderr": None,
    }


def of_both(metric, parent, calibrated, *where, **params):
    return [
        entry(metric, "parent", parent, *where, **params),
        entry(metric, "calibrated", calibrated, *where, **params),
    ]


METRICS = {
    "test": {
        "error": {},
        "ece": {"bins": 15, "norm": "l1"},
        "mmc_wrong": {},
        "coverage": {"level": 0.9},
        "my_score": {"k": 3},
    },
    "ood": {"mmc": {}, "fpr95": {"positive": "id"}},
}


def record(
    seed=0, method="kdf", calibrated=0.1, parent=0.2, gate="none", metrics=None, parts=None, **more
):
    usual = [
        *of_both("error", parent, calibrated),
        *of_both("ece", 0.0502, 0.0498),
        *of_both("mmc_wrong", None, 0.5),
    ]
    for radius, (a, b) in {0.5: (0.9, 0.8), 2.0: (0.8, 0.5), 5.0: (0.4, 0.62)}.items():
        usual += of_both("mmc", a, b, "ood", "sphere", radius=radius)
    entries = usual if metrics is None else metrics
    tables = more.get("files", {}).get("tables", {})
    parts = {
        "parent": "forest",
        "calibrator": method,
        "gate": gate,
        "detector": "none",
        "recalibrator": "none",
    } | (parts or {})
    protocol = more.get("protocol", "held_out")
    return {
        "run_id": "1cb9f0a2",
        "code": {},
        "reads": {},
        "dataset": {
            "name": "spiral",
            "fingerprint": "f",
            "n_train": 1000,
            "n_calibration": 430,
            "n_test": 1000,
            "n_features": 2,
            "classes": [0, 1],
            "prior": [0.5, 0.5],
            **more.pop("dataset", {}),
        },
        **parts,
        "method": method,
        "protocol": protocol,
        "seed": seed,
        "config": {
            "dataset": {},
            "ood": {},
            "preprocess": {},
            **{part: {} for part in parts},
            "metrics": METRICS,
            "protocol": protocol,
        },
        "metrics": entries,
        "about_metrics": about_metrics([*(one["metric"] for one in entries), *tables]),
        "ood_sets": [],
        "learnt": {},
        "warnings": [],
        "versions": {},
        "git": None,
        "host": {},
        "files": {
            "predictions": "predictions.parquet",
            "tables": {},
            "figures": ["figures/a.svg", "figures/a.png", "figures/b.svg"],
        },
        "seconds": {"split": 0.01, "fit": 1.1},
        "peak_memory_mb": {"fit": 1.0},
        "from_store": ["fit"],
        **more,
    }


def detection_run(seed=0, **more):
    """A detector on a classifier: what it says of test rows is its parent's."""
    metrics = [*of_both("error", 0.1, 0.1)]
    for i, name in enumerate(("kmnist", "noise")):
        metrics += of_both("mmc", 0.9, 0.9, "ood", name) + of_both(
            "auroc", 0.7 + i / 10, 0.9 + i / 20, "ood", name
        )
        metrics += of_both("fpr95", 0.5, 0.25, "ood", name)
    return record(
        seed,
        "tood",
        metrics=metrics,
        parts={"calibrator": "none", "detector": "tood", "parent": "extra_trees"},
        **more,
    )


def regression_run(seed=0, method="global_pit", **more):
    """A recalibrated regressor: there are no classes."""
    metrics = [
        *of_both("rmse", 12_345.6, 12_345.6),
        *of_both("mse_mean", 0.5, 0.4),
        *of_both("coverage", 0.81, 0.9),
    ]
    metrics += [
        *of_both("interval_score", 3.0, 2.5),
        *of_both("crps", 0.25, 0.24),
        *of_both("pit_ks", 0.09, 0.01),
    ]
    data = {"name": "tran20", "classes": [], "prior": None}
    parts = {"calibrator": "none", "recalibrator": "global_pit", "parent": "linear"}
    return record(seed, method, metrics=metrics, dataset=data, parts=parts, **more)


def test_the_table_of_a_run():
    assert run_table(record(gate="density"), "outputs/spiral/kdf/1cb9f0a2").splitlines() == [
        (
            "spiral (1,000 train · 430 calibration · 1,000 test) → forest → kdf → density gate     "
            "   seed 0"
        ),
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                                   forest   kdf + density",
        "  error                             0.200           0.100 ◂",
        "  ECE (15 bins)                    0.0502          0.0498 ◂",
        "  mean max confidence where wrong       –           0.500",
        "  confidence at radius 2            0.800           0.500 ◂   prior 0.500",
        "  confidence at radius 5            0.400 ◂         0.620     prior 0.500",
        "outputs/spiral/kdf/1cb9f0a2   2 figures   result.json   predictions.parquet",
    ]


def test_in_the_far_field_the_better_one_is_nearer_to_the_prior():
    lines = run_table(record(), "x").splitlines()
    assert [line for line in lines if "radius 5" in line] == [
        "  confidence at radius 5            0.400 ◂  0.620     prior 0.500"
    ]


def test_of_many_radii_1_2_and_5_are_shown():
    metrics = [
        one
        for r in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
        for one in of_both("mmc", 0.5, 0.5, "ood", "sphere", radius=r)
    ]
    lines = run_table(record(metrics=metrics), "x").splitlines()
    assert [line.split()[3] for line in lines if "radius" in line] == ["1", "2", "5"]


def test_a_detector_is_shown_by_what_it_detects():
    files = {"predictions": "p.parquet", "tables": {"scores": "tables/scores.csv"}, "figures": []}
    assert run_table(detection_run(files=files), "x").splitlines() == [
        "spiral (1,000 train · 430 calibration · 1,000 test) → extra_trees → tood        seed 0",
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                   extra_trees    tood",
        "  error                  0.100   0.100",
        "  AUROC on kmnist        0.700   0.900 ◂",
        "  AUROC on noise         0.800   0.950 ◂",
        "  FPR95 on kmnist        0.500   0.250 ◂",
        "  FPR95 on noise         0.500   0.250 ◂",
        "x   1 table   result.json   p.parquet",
    ]


def test_without_a_detector_a_line_for_each_set_says_how_well_the_confidence_detects():
    lines = run_table(
        detection_run() | {"detector": "none", "calibrator": "kdf"}, "x"
    ).splitlines()[3:-1]
    shown = [
        f"{what} on {name}" for what in ("confidence", "AUROC") for name in ("kmnist", "noise")
    ]
    assert [line.split("  ")[1] for line in lines] == ["error", *shown]


def several_sets(detector="none", **more):
    """Three kinds of rows out of distribution; the last is a family of one."""
    metrics = [*of_both("error", 0.1, 0.1)]
    for i, (name, params) in enumerate(
        (("near", {}), ("shifted", {"scale": 1.5}), ("sphere", {"radius": 2.0}))
    ):
        metrics += of_both("mmc", 0.9, 0.5 + i / 10, "ood", name, **params) + of_both(
            "auroc", 0.7, 0.65 + i / 20, "ood", name, **params
        )
        metrics += of_both("fpr95", 0.5, 0.25, "ood", name, **params)
    return record(metrics=metrics, parts={"detector": detector}, **more)


def test_several_sets_out_of_distribution_have_a_line_each():
    assert run_table(several_sets(), "x").splitlines()[2:-1] == [
        "         forest     kdf",
        "  error   0.100   0.100",
        "                              confidence (prior 0.500)   AUROC",
        "  out of distribution  rows   forest      kdf            forest      kdf",
        "  near                   10    0.900    0.500 ◂           0.700 ◂  0.650",
        "  shifted                10    0.900    0.600 ◂           0.700    0.700",
        "  sphere                 10    0.900    0.700 ◂           0.700    0.750 ◂",
    ]


def test_every_metric_is_shown_on_every_set_that_is():
    """Without a detector the AUROC alone would be on one set of each name."""
    given = several_sets()
    more = [
        of_both(metric, 0.9, 0.8, "ood", "near", k=k)
        for metric in ("mmc", "auroc")
        for k in (1.0, 2.0)
    ]
    given["metrics"] += [each for pair in more for each in pair]
    lines = run_table(given, "x").splitlines()[6:-1]
    assert [line.split()[0:3] for line in lines][-2:] == [["near,", "k", "1"], ["near,", "k", "2"]]
    assert all(
        len([cell for cell in line.replace("◂", "").split() if "." in cell]) == 4 for line in lines
    )


def test_scores_of_sets_are_not_compared_with_scores_of_rows():
    given = several_sets("tood", method="none")
    for each in given["metrics"]:
        each |= (
            {"n_of": "sets of 20 rows"}
            if each["of"] == "calibrated" and each["metric"] in ("auroc", "fpr95")
            else {}
        )
    assert run_table(given, "x").splitlines()[-5:-1] == [
        "  near                   10    0.700    0.650      0.500    0.250",
        "  shifted                10    0.700    0.700      0.500    0.250",
        "  sphere                 10    0.700    0.750      0.500    0.250",
        "  AUROC and FPR95 of tood: of sets of 20 rows",
    ]


def test_a_regressor_has_no_prior_and_large_numbers_no_decimals():
    assert run_table(regression_run(), "x").splitlines()[:9] == [
        "tran20 (1,000 train · 430 calibration · 1,000 test) → linear → global_pit        seed 0",
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                        linear   global_pit",
        "  RMSE                  12,346       12,346",
        "  MSE to the true mean   0.500        0.400 ◂",
        "  coverage (level 0.9)   0.810        0.900",
        "  interval score         3.000        2.500 ◂",
        "  CRPS                   0.250        0.240 ◂",
        "  PIT distance           0.090        0.010 ◂",
    ]


def test_a_score_of_sets_does_not_stand_beside_one_of_rows():
    metrics = [*of_both("error", 0.1, 0.1), *of_both("auroc", 0.7, 0.9, "ood", "kmnist")]
    metrics[-1]["n_of"] = "sets of 20 rows"
    run = record(
        metrics=metrics, parts={"calibrator": "none", "detector": "tood", "parent": "extra_trees"}
    )
    assert run_table(run, "x").splitlines()[3:6] == [
        "  error                                     0.100   0.100",
        "  AUROC on kmnist                           0.700       –",
        "  AUROC of sets of 20 rows on kmnist            –   0.900",
    ]
    assert "AUROC on kmnist   AUROC of sets of 20 rows on kmnist" in sweep_table([Done(run)])


def test_scores_of_a_model_from_elsewhere_have_no_training_rows():
    data = {"name": "scores", "n_train": 0, "prior": None}
    metrics = [
        *of_both("error", 0.1, 0.1),
        *of_both("my_score", 0.2, 0.1),
        *of_both("mmc", 0.9, 0.9, "ood", "kmnist"),
    ]
    assert run_table(
        record(method="histogram", dataset=data, metrics=metrics), "x"
    ).splitlines() == [
        "scores (430 calibration · 1,000 test) → forest → histogram        seed 0",
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                        forest   histogram",
        "  error                  0.100       0.100",
        "  my_score (k 3)         0.200       0.100",  # nobody knows which direction is better
        "  confidence on kmnist   0.900       0.900",  # nor what the prior is
        "x   2 figures   result.json   predictions.parquet",
    ]


def in_sample(**more):
    metrics = [
        *of_both("error", 0.2, 0.1),
        *of_both("error", 0.2, 0.1, "calibration"),
        *of_both("ece", 0.06, 0.05),
    ]
    return record(
        metrics=[
            *metrics,
            *of_both("ece", 0.06, 0.01, "calibration"),
            *of_both("my_score", 0.1, 0.1),
        ],
        **more,
    )


def test_what_is_measured_on_calibration_rows_says_so():
    lines = run_table(in_sample(), "x").splitlines()
    assert (
        lines[2]
        == "  calibration rows are in sample: what was fitted on these rows is judged by them"
    )
    assert [line.split("  ")[1] for line in lines[4:-1]] == [
        "error",
        "error on calibration rows (in sample)",
        "ECE (15 bins)",
        "ECE on calibration rows (in sample)",
        "my_score (k 3)",
    ]
    assert "in sample" not in run_table(in_sample(protocol="paper"), "x")


def test_a_sweep_shows_no_column_that_is_in_sample():
    lines = sweep_table([Done(in_sample())]).splitlines()
    assert lines[1].split("   ")[-3:] == ["error", "ECE (15 bins)", "my_score (k 3)"]


def test_the_parent_alone_is_one_column():
    lines = run_table(record(method="none"), "x").splitlines()
    assert lines[0].endswith(" → forest        seed 0")
    assert lines[2:4] == [
        "                                   forest",
        "  error                             0.200",
    ]


def test_what_was_fitted_on_test_rows_is_told_below_the_title():
    paper = {"method": "global_pit-as_in_paper", "protocol": "paper"}
    said = (
        "fitted on test rows, or by the rows out of distribution, where the method's paper does so"
        " (protocol=paper), so that its numbers "
    )
    said += "are no estimate for new rows"
    assert run_table(regression_run(**paper), "x").splitlines()[2] == f"  {said}"
    lines = sweep_table([Done(regression_run()), Done(regression_run(**paper))]).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [
        "linear",
        "global_pit",
        "global_pit-as_in_paper",
        "-as_in_paper:",
    ]
    assert lines[-1] == f"  -as_in_paper: {said}"
    swept = [Done(regression_run(**paper), {"method": "global_pit", "recalibrator.k": "3"})]
    assert "  global_pit-as_in_paper recalibrator.k=3 " in sweep_table(swept)


@pytest.mark.parametrize(
    "table", [lambda one: run_table(one, "1cb9f0a2"), lambda one: sweep_table([Done(one)])]
)
def test_a_record_that_lacks_a_key_is_told_in_one_line(table):
    one = record()
    del one["dataset"]["prior"]
    with pytest.raises(UsageError) as caught:
        table(one)
    assert (
        str(caught.value) == "1cb9f0a2/result.json lacks 'dataset.prior'; force=true runs it again"
    )


def test_a_sweep_of_regressors_shows_what_was_measured():
    assert sweep_table([Done(regression_run(0)), Done(regression_run(1))]).splitlines() == [
        "tran20 · 2 seeds (0, 1) · mean ± standard deviation",
        (
            "                           RMSE   MSE to the true mean   coverage (level 0.9)         "
            "   CRPS"
        ),
        (
            "  linear (parent)    12,346 ± 0          0.500 ± 0.000          0.810 ± 0.000   0.250"
            " ± 0.000"
        ),
        (
            "  global_pit         12,346 ± 0          0.400 ± 0.000          0.900 ± 0.000   0.240"
            " ± 0.000"
        ),
    ]


def test_a_sweep_of_detectors_shows_what_they_detect():
    assert sweep_table([Done(detection_run())]).splitlines() == [
        "spiral · seed 0 · mean ± standard deviation · prior 0.500",
        (
            "                          error   AUROC on kmnist   AUROC on noise   FPR95 on kmnist  "
            " FPR95 on noise"
        ),
        (
            "  extra_trees (parent)    0.100             0.700            0.800             0.500  "
            "          0.500"
        ),
        (
            "  tood                    0.100             0.900            0.950             0.250  "
            "          0.250"
        ),
    ]


def test_a_sweep_shows_metrics_that_nobody_knows():
    metrics = [*of_both("my_score", 0.2, 0.1), *of_both("other", 0.3, 0.4, "ood", "kmnist")]
    assert "my_score (k 3)   other on kmnist" in sweep_table([Done(record(metrics=metrics))])


def test_the_table_of_a_sweep():
    runs = [
        Done(record(0, "kdf", 0.10), {"method": "kdf", "seed": "0"}),
        Done(record(1, "kdf", 0.14, 0.22), {"method": "kdf", "seed": "1"}),
    ]
    runs += [
        Done(record(seed, "none", value, value), {"method": "none", "seed": str(seed)})
        for seed, value in enumerate((0.2, 0.22))
    ]
    runs += [Done(record(0, "isotonic", 0.3), {"method": "isotonic", "seed": "0"})]
    assert sweep_table(runs).splitlines() == [
        "spiral · 2 seeds (0, 1) · mean ± standard deviation · prior 0.500",
        (
            "                             error   ECE (15 bins)   confidence at radius 2  "
            " confidence at radius 5"
        ),
        (
            "  forest (parent)    0.210 ± 0.014   0.050 ± 0.000            0.800 ± 0.000           "
            " 0.400 ± 0.000"
        ),
        (
            "  kdf                0.120 ± 0.028   0.050 ± 0.000            0.500 ± 0.000           "
            " 0.620 ± 0.000"
        ),
        (
            "  isotonic                   0.300           0.050                    0.500           "
            "         0.620"
        ),
    ]


def warned(seed, *messages):
    return Done(
        record(seed, warnings=[{"stage": "fit", "message": message} for message in messages])
    )


def test_warnings_of_a_run_stand_below_its_numbers():
    lines = run_table(warned(0, "it learnt nothing").record, "outputs/x").splitlines()
    assert lines[-2] == "  warning (fit): it learnt nothing"


def test_choices_that_no_name_tells_are_told():
    runs = [
        Done(
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
        Done(record(method="kdf"), {"preprocess.numeric": value}) for value in ("scale", "rank")
    ]
    assert "forest preprocess.numeric=rank (parent)" in sweep_table(inside)


@pytest.mark.parametrize(
    ("group", "told"),
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
def test_which_rows_a_choice_tells_apart(group, told):
    lines = sweep_table([Done(record(), {group: choice}) for choice in "ab"]).splitlines()
    assert [line.split("0.")[0].strip() for line in lines[2:]] == told


def test_data_sets_of_one_name_and_sets_of_one_name_out_of_distribution_have_blocks_of_their_own():
    for group in ("dataset", "ood"):
        blocks = sweep_table([Done(record(), {group: choice}) for choice in "ab"]).split("\n\n")
        assert [block.partition(" ·")[0] for block in blocks] == [
            f"spiral {group}=a",
            f"spiral {group}=b",
        ]
    others = [
        Done(record(metrics=of_both("mmc", 0.1, 0.2, "ood", name)), {"ood": name})
        for name in ("noise", "svhn")
    ]
    assert sweep_table(others).splitlines()[1].split("   ")[-2:] == [
        "confidence on noise",
        "confidence on svhn",
    ]
    paper = [
        Done(
            record(
                method="odin-as_in_paper",
                protocol="paper",
                metrics=of_both("mmc", 0.1, 0.2, "ood", name),
            ),
            {"ood": name},
        )
        for name in ("noise", "svhn")
    ]
    rows = [line.split("0.")[0].strip(" –") for line in sweep_table(paper).splitlines()[2:-1]]
    assert rows == ["forest (parent)", "odin-as_in_paper ood=noise", "odin-as_in_paper ood=svhn"]


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


def test_other_swept_settings_are_told_apart():
    runs = [
        Done(record(seed), {"dataset.n_train": n, "calibrator.alpha": "0.1", "seed": str(seed)})
        for n in ("10", "20")
        for seed in range(3)
    ]
    text = sweep_table(runs)
    assert [block.splitlines()[0] for block in text.split("\n\n")] == [
        f"spiral dataset.n_train={n} · 3 seeds (0–2) · mean ± standard deviation · prior 0.500"
        for n in (10, 20)
    ]
    assert text.count("\n  forest-kdf calibrator.alpha=0.1") == 2


def test_rows_that_a_setting_tells_apart_have_one_name():
    """The preset's own value is one of those swept, so the labels of the runs differ."""
    found = [("kdf", "0.005"), ("forest-kdf", "0.1")]
    chosen = [
        Done(record(0, label), {"method": "kdf", "calibrator.alpha": alpha})
        for label, alpha in found
    ]
    assert [f"kdf calibrator.alpha={alpha}" in sweep_table(chosen) for _, alpha in found] == [
        True,
        True,
    ]
    assert "forest-kdf" not in sweep_table(chosen)
