"""The table of one run."""

from __future__ import annotations

import pytest

from kdgraph.report.run_table import run_table
from kdgraph.report.sweep_table import SweepRun, sweep_table
from tests.report.table_records import (
    detection_run,
    in_sample,
    of_both,
    record,
    regression_run,
    several_sets,
    warned,
)


def test_the_table_of_a_run():
    assert run_table(record(gate="density"), "outputs/spiral/kdf/1cb9f0a2").splitlines() == [
        (
            "spiral (1,000 train · 430 calibration · 1,000 test) → forest → kdf → density gate     "
            "   seed 0"
        ),
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                                   forest   kdf + density",
        "  error                             0.200           0.100 ◂",
        "  ECE, 15 bins                     0.0502          0.0498 ◂",
        "  mean max confidence where wrong       –           0.500",
        "  confidence at radius 2            0.800           0.500 ◂   prior 0.500",
        "  confidence at radius 5            0.400 ◂         0.620     prior 0.500",
        "outputs/spiral/kdf/1cb9f0a2   2 figures   result.json   predictions.parquet",
    ]


def test_better_ood_confidence_is_closer_to_the_prior():
    lines = run_table(record(), "x").splitlines()
    assert [line for line in lines if "radius 5" in line] == [
        "  confidence at radius 5            0.400 ◂  0.620     prior 0.500"
    ]


def test_of_many_radii_1_2_and_5_are_shown():
    metrics = [
        entry
        for r in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
        for entry in of_both("mmc", 0.5, 0.5, "ood", "sphere", radius=r)
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


def test_sets_have_auroc_of_confidence_without_a_detector():
    lines = run_table(
        detection_run() | {"detector": "none", "calibrator": "kdf"}, "x"
    ).splitlines()[3:-1]
    shown = [
        f"{what} on {name}" for what in ("confidence", "AUROC") for name in ("kmnist", "noise")
    ]
    assert [line.split("  ")[1] for line in lines] == ["error", *shown]


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
    record = several_sets()
    more = [
        of_both(metric, 0.9, 0.8, "ood", "near", k=k)
        for metric in ("mmc", "auroc")
        for k in (1.0, 2.0)
    ]
    record["metrics"] += [each for pair in more for each in pair]
    lines = run_table(record, "x").splitlines()[6:-1]
    assert [line.split()[0:3] for line in lines][-2:] == [["near,", "k", "1"], ["near,", "k", "2"]]
    assert all(
        len([cell for cell in line.replace("◂", "").split() if "." in cell]) == 4 for line in lines
    )


def test_scores_of_sets_are_not_compared_with_scores_of_rows():
    record = several_sets("tood", method="none")
    for each in record["metrics"]:
        each |= (
            {"n_of": "sets of 20 rows"}
            if each["of"] == "calibrated" and each["metric"] in ("auroc", "fpr95")
            else {}
        )
    assert run_table(record, "x").splitlines()[-5:-1] == [
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
        "  coverage, level 0.9    0.810        0.900",
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
    assert "AUROC on kmnist   AUROC of sets of 20 rows on kmnist" in sweep_table([SweepRun(run)])


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
        "  my_score, k 3          0.200       0.100",  # without a known direction
        "  confidence on kmnist   0.900       0.900",  # nor what the prior is
        "x   2 figures   result.json   predictions.parquet",
    ]


def test_numbers_on_calibration_rows_have_a_note():
    lines = run_table(in_sample(), "x").splitlines()
    assert (
        lines[2]
        == "  calibration rows are in sample: what was fitted on these rows is judged by them"
    )
    assert [line.split("  ")[1] for line in lines[4:-1]] == [
        "error",
        "error on calibration rows (in sample)",
        "ECE, 15 bins",
        "ECE on calibration rows (in sample)",
        "my_score, k 3",
    ]
    assert "in sample" not in run_table(in_sample(protocol="paper"), "x")


def test_the_parent_alone_is_one_column():
    lines = run_table(record(method="none"), "x").splitlines()
    assert lines[0].endswith(" → forest        seed 0")
    assert lines[2:4] == [
        "                                   forest",
        "  error                             0.200",
    ]


def test_the_paper_protocol_has_a_note_in_every_table():
    paper = {"method": "global_pit-as_in_paper", "protocol": "paper"}
    sentence = (
        "fitted on test rows, or by the rows out of distribution, where the method's paper does so"
        " (protocol=paper), so that its numbers "
    )
    sentence += "are no estimate for new rows"
    assert run_table(regression_run(**paper), "x").splitlines()[2] == f"  {sentence}"
    lines = sweep_table(
        [SweepRun(regression_run()), SweepRun(regression_run(**paper))]
    ).splitlines()
    assert [line.partition("  ")[0] for line in map(str.strip, lines[2:5])] == [
        "linear (parent)",
        "global_pit",
        "global_pit (paper protocol)",
    ]
    assert " ".join(map(str.strip, lines[5:])) == f"(paper protocol): {sentence}"
    swept = [SweepRun(regression_run(**paper), {"method": "global_pit", "recalibrator.k": "3"})]
    assert "  global_pit (paper protocol) recalibrator.k=3 " in sweep_table(swept)


def test_warnings_of_a_run_stand_below_its_numbers():
    lines = run_table(warned(0, "it learnt nothing").record, "outputs/x").splitlines()
    assert lines[-2] == "  warning (fit): it learnt nothing"


@pytest.mark.parametrize("width", [70, 80, 140])
@pytest.mark.parametrize("run", [record(gate="density"), regression_run(), several_sets("tood")])
def test_lines_of_a_run_fit_into_the_terminal(run, width):
    wide, narrow = (
        run_table(run, "outputs/a/b/1cb9f0a2"),
        run_table(run, "outputs/a/b/1cb9f0a2", width),
    )
    assert max(map(len, narrow.splitlines())) <= width
    assert set(narrow.split()) == set(wide.split())
