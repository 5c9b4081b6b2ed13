"""Tables from records, on records written by hand."""

from __future__ import annotations

import pytest

from kdgraph.report.metrics_text import far_field
from kdgraph.report.options import listing
from kdgraph.report.run_table import run_table
from kdgraph.report.sweep_table import MOST_WARNINGS, Done, sweep_table, sweep_warnings


def entry(metric, of, value, on="test", ood=None, **params):
    return {"metric": metric, "of": of, "on": on, "ood": ood, "params": params, "value": value, "n": 10, "stderr": None}


def record(seed=0, method="kdf", calibrated=0.1, parent=0.2, gate="none", **more):
    metrics = [
        entry("error", "parent", parent),
        entry("error", "calibrated", calibrated),
        entry("ece", "parent", 0.0502),
        entry("ece", "calibrated", 0.0498),
        entry("mmc_wrong", "parent", None),
        entry("mmc_wrong", "calibrated", 0.5),
    ]
    for radius, (a, b) in {0.5: (0.9, 0.8), 2.0: (0.8, 0.5), 5.0: (0.4, 0.62)}.items():
        metrics += [
            entry("mmc", "parent", a, "ood", "sphere", radius=radius),
            entry("mmc", "calibrated", b, "ood", "sphere", radius=radius),
        ]
    return {
        "dataset": {"name": "spiral", "n_train": 1000, "n_calibration": 430, "n_test": 1000, "prior": [0.5, 0.5]},
        "parent": "forest",
        "calibrator": method,
        "gate": gate,
        "method": method,
        "seed": seed,
        "config": {"metrics": {"test": {"error": {}, "ece": {"bins": 15, "norm": "l1"}, "mmc_wrong": {}}, "ood": {"mmc": {}}}},
        "metrics": metrics,
        "warnings": [],
        "files": {"predictions": "predictions.parquet", "figures": ["figures/a.svg", "figures/a.png", "figures/b.svg"]},
        "seconds": {"split": 0.01, "fit": 1.1},
        "from_store": ["fit"],
        **more,
    }


def test_the_table_of_a_run():
    assert run_table(record(gate="density"), "outputs/spiral/kdf/1cb9f0a2").splitlines() == [
        "spiral (1,000 train · 430 calibration · 1,000 test) → forest → kdf → density gate        seed 0",
        "  split 0.0 s   fit 1.1 s        1 of 2 stages from the store",
        "                                   forest   kdf + density",
        "  error                             0.200           0.100 ◂",
        "  ECE (15 bins)                     0.050           0.050",
        "  mean max confidence where wrong       –           0.500",
        "  confidence at radius 2            0.800           0.500 ◂   prior 0.500",
        "  confidence at radius 5            0.400 ◂         0.620     prior 0.500",
        "outputs/spiral/kdf/1cb9f0a2   2 figures   result.json   predictions.parquet",
    ]


def test_in_the_far_field_the_better_one_is_nearer_to_the_prior():
    lines = run_table(record(), "x").splitlines()
    assert [line for line in lines if "radius 5" in line] == ["  confidence at radius 5            0.400 ◂ 0.620     prior 0.500"]


def test_of_many_radii_1_2_and_5_are_shown():
    found = [entry("mmc", "parent", 0.5, "ood", "sphere", radius=r) for r in (0, 0.5, 1, 1.5, 2, 3, 5)]
    assert [e["params"]["radius"] for e in far_field(found, at_most=3)] == [1, 2, 5]
    assert [e["params"]["radius"] for e in far_field(found, at_most=1)] == [2]
    others = [entry("oce", "parent", 0.5, "ood", "box", low=-2.0)]
    assert far_field(others, at_most=1) == others


def test_the_table_of_a_sweep():
    runs = [
        Done(record(0, "kdf", 0.10), {"method": "kdf", "seed": "0"}),
        Done(record(1, "kdf", 0.14, 0.22), {"method": "kdf", "seed": "1"}),
    ]
    runs += [Done(record(seed, "none", value, value), {"method": "none", "seed": str(seed)}) for seed, value in enumerate((0.2, 0.22))]
    runs += [Done(record(0, "isotonic", 0.3), {"method": "isotonic", "seed": "0"})]
    assert sweep_table(runs).splitlines() == [
        "spiral · 2 seeds (0, 1) · mean ± standard deviation · prior 0.500",
        "                             error   ECE (15 bins)   confidence at radius 2   confidence at radius 5",
        "  forest (parent)    0.210 ± 0.014   0.050 ± 0.000            0.800 ± 0.000            0.400 ± 0.000",
        "  kdf                0.120 ± 0.028   0.050 ± 0.000            0.500 ± 0.000            0.620 ± 0.000",
        "  isotonic                   0.300           0.050                    0.500                    0.620",
    ]


def warned(seed, *messages):
    return Done(record(seed, warnings=[{"stage": "fit", "message": message} for message in messages]))


def test_warnings_of_a_run_stand_below_its_numbers():
    lines = run_table(warned(0, "it learnt nothing").record, "outputs/x").splitlines()
    assert lines[-2] == "  warning (fit): it learnt nothing"


def test_warnings_of_a_sweep_are_gathered():
    runs = [warned(seed, "it learnt nothing") for seed in (0, 1, 1, 2, 3, 4)] + [warned(5, "odd"), warned(6)]
    assert sweep_warnings(runs).splitlines() == [
        "warning, spiral seed 0, spiral seed 1, spiral seed 2 and 2 more: it learnt nothing",
        "warning, spiral seed 5: odd",
    ]
    assert sweep_warnings([warned(0)]) == ""
    many = sweep_warnings([warned(0, *map(str, range(MOST_WARNINGS + 2)))]).splitlines()
    assert (len(many), many[-1]) == (MOST_WARNINGS + 1, "2 more warnings are in the records")


def test_other_swept_settings_are_told_apart():
    runs = [
        Done(record(seed), {"dataset.n_train": n, "calibrator.alpha": "0.1", "seed": str(seed)}) for n in ("10", "20") for seed in range(3)
    ]
    text = sweep_table(runs)
    assert [block.splitlines()[0] for block in text.split("\n\n")] == [
        f"spiral dataset.n_train={n} · 3 seeds (0–2) · mean ± standard deviation · prior 0.500" for n in (10, 20)
    ]
    assert text.count("\n  forest-kdf calibrator.alpha=0.1") == 2


def test_rows_that_a_setting_tells_apart_have_one_name():
    """The preset's own value is one of those swept, so the labels of the runs differ."""
    found = [("kdf", "0.005"), ("forest-kdf", "0.1")]
    chosen = [Done(record(0, label), {"method": "kdf", "calibrator.alpha": alpha}) for label, alpha in found]
    assert [f"kdf calibrator.alpha={alpha}" in sweep_table(chosen) for _, alpha in found] == [True, True]
    assert "forest-kdf" not in sweep_table(chosen)


def test_listing_prefers_the_first_folder_and_skips_directives(tmp_path):
    for folder, line in (("ours", "# @package _global_\n# First\n"), ("theirs", "# Second\n")):
        (tmp_path / folder / "method").mkdir(parents=True)
        (tmp_path / folder / "method" / "kdf.yaml").write_text(line)
    (tmp_path / "theirs" / "method" / "own.yaml").write_text("a: 1\n")
    assert listing([tmp_path / "ours", tmp_path / "theirs"]) == "method\n  kdf  First\n  own"
    with pytest.raises(ValueError, match="no group named 'metod'; did you mean 'method'"):
        listing([tmp_path / "ours"], "metod")
