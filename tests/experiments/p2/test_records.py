"""The table of records from what finished runs say, against rows that are filled and intervals by
hand.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator

from experiments.p2.cifar10h import scores
from experiments.p2.records import by_split, claim, entries, main, table
from kdgraph.calibration.top_label import TemperatureScaling
from kdgraph.config import plan
from kdgraph.metrics import TopLabel, nll, nll_top
from kdgraph.parents import PrecomputedScores


def record(
    calibrator: str,
    seed: int,
    metrics: dict[str, float | None],
    parent: dict[str, float],
    chosen: str | None = None,
) -> dict:
    printed = [
        {"metric": name, "of": of, "on": "test", "value": value}
        for of, values in (("calibrated", metrics), ("parent", parent))
        for name, value in values.items()
    ]
    about = {"name": "record", "n_test": 100, "n_calibration": 200}
    return {
        "dataset": about,
        "seed": seed,
        "calibrator": calibrator,
        "metrics": printed,
        "learnt": {"calibrator": {"chosen": chosen}},
    }


def drawn(chosen_wins: int = 20) -> list[dict]:
    """Twenty splits of three calibrators; the chosen one is better in so many of them."""
    rng, result = np.random.default_rng(0), []
    for seed in range(20):
        binary = {"sts": 0.5 + 0.01 * rng.normal(), "temperature": 0.52}
        binary["best_top_label"] = binary["sts"] + (-0.01 if seed < chosen_wins else 0.01)
        parent = {"nll_top": 0.6, "nll": 2.0 + 0.1 * rng.random(), "nll_top_clipped": 0.0}
        for name, value in binary.items():
            full = 1.9 if name == "temperature" else None
            result.append(
                record(
                    name,
                    seed,
                    {"nll_top": value, "nll": full, "nll_top_clipped": 1.0},
                    parent,
                    "tswa_ridge",
                )
            )
    return result


def test_the_full_nll_of_a_confidence_is_that_of_filled_rows():
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(5), size=400)
    y = np.where(rng.random(400) < 0.5, X.argmax(axis=1), rng.integers(5, size=400))
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    model = TemperatureScaling(parent, by_class=True, fill_proba=True).fit(
        X, y, X_calibration=X, y_calibration=y
    )
    binary = nll_top(y, TopLabel(X.argmax(axis=1), model.predict_confidence(X)))
    item = record(
        "csts",
        0,
        {"nll_top": binary, "nll": None},
        {"nll_top": nll_top(y, X), "nll": nll(y, X, clip=1e-12)},
    )
    result = by_split(pd.DataFrame(entries([item])))["full_nll"]
    assert result.loc[0, "csts"] == pytest.approx(
        nll(y, model.predict_proba(X), clip=1e-12), rel=1e-12
    )
    assert result.loc[0, "none"] == nll(y, X, clip=1e-12)


def test_the_table_has_a_row_for_each_calibrator_and_the_parent():
    lines = table(pd.DataFrame(entries(drawn(chosen_wins=17)))).splitlines()
    head, *rows = [
        [cell.strip() for cell in text.strip("| ").split("|")]
        for text in lines
        if "---" not in text
    ]
    assert head == [
        "calibrator",
        "binary NLL",
        "full NLL",
        "beats sts",
        "beats temperature",
        "clipped",
    ]
    result = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert next(iter(result)) == "best_top_label" and set(result) == {
        "best_top_label",
        "sts",
        "temperature",
        "none",
    }
    assert result["best_top_label"]["beats sts"] == "17/20" and result["sts"]["beats sts"] == "–"
    assert result["best_top_label"]["binary NLL"].startswith("**") and result["none"][
        "full NLL"
    ].startswith("2.0")
    assert result["temperature"]["full NLL"] == "**1.9000**" and result["sts"][
        "full NLL"
    ].startswith("*1.9")
    assert (
        result["temperature"]["binary NLL"].startswith(".5200 ± ")
        and result["best_top_label"]["clipped"] == "1.0"
    )


@pytest.mark.parametrize(("wins", "holds"), [(20, True), (18, True), (17, False)])
def test_chosen_method_must_win_in_eighteen_of_twenty_splits(wins, holds):
    records = drawn(wins)
    printed = claim("record", pd.DataFrame(entries(records)), records)
    assert printed is not None and printed.holds == holds
    assert printed.measured.startswith(f"{wins} of 20, by ") and printed.measured.endswith(
        "chosen: tswa_ridge 20"
    )
    without = [each for each in records if each["calibrator"] != "sts"]
    assert claim("record", pd.DataFrame(entries(without)), without) is None


def test_votes_are_shares():
    counts = np.array([[3, 1, 0], [0, 0, 5]])
    np.testing.assert_array_equal(scores(counts), [[0.75, 0.25, 0], [0, 0, 1]])
    with pytest.raises(
        ValueError,
        match=r"^every row needs votes, and no fewer than 0 for a class; row 1 has \[0, 0, 0\]$",
    ):
        scores(counts * np.array([[1], [0]]))


@pytest.mark.slow
def test_the_experiment_runs_and_its_table_is_printed(kdg, tmp_path, monkeypatch, capsys):
    """Two calibrators, two splits of a record of a few rows that differ."""
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(3), size=200)
    y = np.where(rng.random(200) < X.max(axis=1), X.argmax(axis=1), rng.integers(3, size=200))
    np.savez(tmp_path / "few.npz", predictions=X, ground_truth=y)
    words = [
        "experiment=paper/p2/records",
        f"dataset.path={tmp_path / 'few.npz'}",
        "method=sts,best_top_label",
        "seed=0,1",
        f"out={tmp_path}",
    ]
    assert len(plan(words).jobs) == 4
    code, _, err = kdg("run", "-m", *words, "hydra/launcher=basic")
    assert code == 0, err
    records = [json.loads(path.read_text()) for path in tmp_path.glob("few/*/*/result.json")]
    assert (
        len(records) == 4 and len({r["dataset"]["fingerprint"] for r in records}) == 2
    )  # each seed divides the rows anew
    monkeypatch.setattr("sys.argv", ["records", str(tmp_path)])
    main()
    printed = capsys.readouterr().out
    assert (
        "100 calibration rows, 100 test rows, 2 splits" in printed
        and "| best_top_label |" in printed
    )
    assert "few: chosen by cross-validated binary NLL beats sts" in printed
