"""Runs with guaranteed intervals: by subgroup, of new rows too, and with too few rows for a
guarantee.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

LINE = (
    "intervals of level 0.95 are the whole line where there are too few calibration rows to promise"
    " less, and have no width or score;"
)
METHOD = [
    "method=conformal_local_pit",
    "recalibrator.recalibrator.k=60",
    "figures=none",
    "dataset.path=t.csv",
    "dataset.target=y",
]


def table(n: int) -> pd.DataFrame:
    """Noise three times as large in the south, which no feature determines."""
    rng = np.random.default_rng(0)
    region, x = rng.choice(["north", "south"], n, p=[0.75, 0.25]), rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "x": x,
            "region": region,
            "y": 2 * x + np.where(region == "south", 3, 1) * rng.normal(size=n),
        }
    )
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.mark.filterwarnings("always:intervals of level")  # goes into the record
def test_each_subgroup_is_covered_and_new_rows_have_intervals(tmp_path, kdg):
    """Coverage of the south, with about 80 rows for its correction: 4 standard errors are 0.1.

    With one correction for all rows, four of five are covered there.
    """
    frame, south = table(3000), {}
    arguments = [
        "dataset=table",
        "dataset.task=regression",
        "dataset.group=region",
        "dataset.drop=[region]",
        *METHOD,
    ]
    for by_group in ("false", "true"):
        code, out, err = kdg("run", *arguments, f"recalibrator.by_group={by_group}", "--json")
        assert code == 0, err
        record = json.loads(out)
        assert record["learnt"]["recalibrator"]["cells"] == 1 + (by_group == "true")
        (folder,) = [
            each.parent
            for each in (tmp_path / "outputs").rglob("predictions.parquet")
            if record["run_id"] in str(each)
        ]
        known = pd.read_parquet(folder / "predictions.parquet")
        inside = (known["calibrated_low0.95"] <= known["y"]) & (
            known["y"] <= known["calibrated_high0.95"]
        )
        assert inside.mean() == next(
            m["value"]
            for m in record["metrics"]
            if (m["metric"], m["of"]) == ("coverage", "calibrated")
        )
        assert "parent_low0.95" not in known
        assert (
            kdg("predict", "--run", str(folder), "--input", "t.csv", "--output", "new.csv")[0] == 0
        )
        new = pd.read_csv("new.csv")
        assert list(new)[-4:] == ["low0.5", "high0.5", "low0.95", "high0.95"]
        inside = (new["low0.95"] <= frame["y"]) & (frame["y"] <= new["high0.95"])
        south[by_group] = inside[frame["region"] == "south"].mean()
    assert south["false"] < 0.88 and 0.9 < south["true"] < 1


def test_groups_must_be_known(kdg):
    table(200)
    code, _, err = kdg(
        "run", "dataset=table", "dataset.task=regression", *METHOD, "recalibrator.by_group=true"
    )
    assert (
        code == 2
        and "has no groups, and ConformalPit does something for each of them; name their column: dataset.group="
        in err
    )


@pytest.mark.filterwarnings("always:intervals of level")  # goes into the record
def test_too_few_rows_are_reported(kdg):
    table(200)
    sizes = ["dataset.n_calibration=30", "dataset.n_test=60", "dataset.n_train=100"]
    code, out, err = kdg(
        "run",
        "dataset=table",
        "dataset.task=regression",
        *METHOD,
        *sizes,
        "recalibrator.recalibrator.k=10",
        "--json",
    )
    assert code == 0, err
    record = json.loads(out)
    values = {m["metric"]: m["value"] for m in record["metrics"] if m["of"] == "calibrated"}
    assert (
        code == 0
        and values["coverage"] == 1
        and values.get("interval_score") is None
        and np.isfinite(values["crps"])
    )
    assert any(each["message"].startswith(LINE) for each in record["warnings"])
    assert record["learnt"]["recalibrator"]["highest_level"] == 15 / 16
