"""Which number is measured for which published number: keys that the paper has, values of the records, and
nothing without a study or a word why.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import uniform

from experiments.common.published import ABOUT, read_published
from experiments.p5 import claims, line, memory, table1, table2
from experiments.reproduction.papers import paper
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.verdicts import cells_of
from kdgraph.data.simulations import Tran20
from kdgraph.distributions import Normal

PAPER = paper("p5")

PUBLISHED = read_published(PAPER.folder)


def verdicts(measured: pd.DataFrame, item: str) -> dict[str, str]:
    """Metric → verdict of the cells of an item; keys that no published number has are refused."""
    assert set(measured) == {*PUBLISHED.columns} - ABOUT | {"seed", "value", "variant"}
    return {
        str(cell.published["metric"]): cell.verdict
        for cell in cells_of(PAPER, PUBLISHED, measured)
        if cell.published["item"] == item
    }


def test_section_2_is_of_the_runs_of_table_1(monkeypatch, tmp_path) -> None:
    def record(seed: int, value: float) -> dict:
        coverage = {"of": "calibrated", "on": "test", "metric": "coverage", "value": value}
        return {
            "parent": "linear",
            "method": "global_pit",
            "seed": seed,
            "config": {"parent": {}},
            "metrics": [coverage],
        }

    monkeypatch.setattr(
        table1, "runs_of", lambda name, folder: [record(0, 0.949), record(1, 0.953)]
    )
    measured = table1.measured_in_section2(tmp_path)
    assert measured.value.tolist() == pytest.approx([94.9, 95.3])
    assert verdicts(measured, "Section 2") == {"coverage (%)": "match"}


def test_table_2_is_of_one_network(monkeypatch, tmp_path) -> None:
    small, wide = (
        {"config": {"parent": {"hidden": hidden, "max_epochs": n}}}
        for hidden, n in (([256, 256], 15), ([6400, 6400], 75))
    )
    monkeypatch.setattr(table2, "runs_of", lambda name, folder, free: [small, wide, small])
    assert table2.read(tmp_path) == [wide]
    monkeypatch.setattr(table2, "runs_of", lambda name, folder, free: [small, small])
    assert len(table2.read(tmp_path)) == 2


def test_the_highlighted_point_of_a_given_line() -> None:
    text = line.point_numbers(Normal(np.array([1484.01]), np.array([384.41])))
    assert text == pytest.approx({"mean": 1484.01, "SD": 384.41, "PIT value": 0.9575}, abs=5e-5)


def test_frosini_statistic_by_hand_and_under_the_null() -> None:
    """Of 2 values, |.1 - .25| + |.5 - .75| over √2; of many uniform ones, E|B(u)| of a Brownian
    bridge is √(π/32).
    """
    assert line.frosini(np.array([0.5, 0.1])) == pytest.approx(0.4 / np.sqrt(2))
    assert line.frosini_null(400, 400).mean() == pytest.approx(np.sqrt(np.pi / 32), abs=0.04)
    assert (
        line.frosini(uniform(0, 0.8).rvs(400, random_state=0)) > line.frosini_null(400, 400).max()
    )


def test_section_41_in_small(monkeypatch) -> None:
    for name, value in {
        "TRAINING_ROWS": 20_000,
        "CALIBRATION_ROWS": 500,
        "SAMPLES": 2,
        "DRAWS": 1999,
    }.items():
        monkeypatch.setattr(line, name, value)
    result = line.section41()
    assert len(result) == 2 * 4
    by_metric = {
        metric: verdict
        for metric, verdict in verdicts(result, "Section 4.1").items()
        if verdict != "a setting"
    }
    # Frosini's p is below .001 with the paper's 10,000 calibration rows, not with 500.
    assert by_metric.pop("p-value of Frosini's test, at most") == "differs"
    assert set(by_metric.values()) == {"match"} and len(by_metric) == 3


@pytest.mark.parametrize(("largest", "holds"), [(0.001, True), (0.002, False)])
def test_the_largest_p_value_of_frosini_decides(tmp_path, largest, holds) -> None:
    (tmp_path / "computed").mkdir()
    rows = {
        "metric": ["p-value of Frosini's test, at most"] * 2 + ["PIT value"],
        "value": [1e-4, largest, 0.9],
    }
    pd.DataFrame(rows).to_csv(tmp_path / "computed" / "p5_section41.csv")
    (claim,) = claims.line(tmp_path)
    assert (claim.holds, claim.measured, claim.sentences) == (
        holds,
        f"p at most {largest:g}, 2 samples",
        ("frosini",),
    )


def test_memory_grows_with_the_neighbours(monkeypatch) -> None:
    for name, value in {
        "SAMPLES": 1,
        "ROWS": (100, 400),
        "NEIGHBOURS": (50, 100),
        "CALIBRATION_ROWS": 300,
        "TEST_ROWS": 2000,
    }.items():
        monkeypatch.setattr(memory, name, value)
    result = memory.section43().set_index("metric").value
    assert 0.9 < result["exponent of n in the memory of prediction"] < 1.05
    assert 0.5 < result["factor of k in the memory of prediction"] < 2
    models = memory._models(Tran20(), np.random.default_rng(0))
    X = np.zeros((200, 20))
    assert memory.memory(models[100], X) > 1.3 * memory.memory(models[50], X)


def test_every_result_has_a_study_or_a_reason() -> None:
    missing = [reason for reason in reasons_of(PAPER.folder) if reason.kind == MISSING]
    for _, row in PUBLISHED[PUBLISHED.kind != "setting"].iterrows():
        tested = any(reason.applies_to(dict(row)) for reason in missing)
        assert tested or PAPER.study_of(row["item"]), row["item"]
