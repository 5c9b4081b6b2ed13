"""What the paper prints: every number is there once, and says what its text says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.published import cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p5"
CELLS = {"Table 1": 3 * 4, "Table 2": 5 * 3, "Table 3": 8 * 4, "Figure 1": 4, "Figure 4": 1, "Figure 5": 2}


@pytest.fixture(scope="module")
def numbers():
    return read_published(HERE)


def test_every_cell_is_there(numbers):
    assert numbers.groupby("item").size().to_dict() == CELLS


def test_shares_are_shares_and_percent_are_percent(numbers):
    assert numbers[numbers.metric == "coverage"].value.between(0.85, 1).all()
    assert numbers[numbers.metric == "coverage (%)"].value.between(85, 100).all()
    assert set(numbers[numbers.metric.isin(["coverage", "coverage (%)", "sMIS"])].level) == {0.9, 0.95, 0.99}
    assert (numbers.value > 0).all()


def test_what_the_text_says_of_the_tables(numbers):
    """Sections 4.1, 4.2 and 4.4: local recalibration is best in every measure of Table 1, both recalibrated rows of Table 2 are nearest to
    the truth, and in Table 3 it alone lowers the network's error.
    """
    table = {item: numbers[numbers.item == item].set_index(["metric", "method"]).value for item in ("Table 1", "Table 2")}
    for metric in ("MSE", "KL divergence", "sMIS"):
        assert table["Table 1"][metric].idxmin() == "local_pit"
    for metric in ("MSE", "sMIS"):
        order = table["Table 2"][metric].sort_values().index.tolist()
        assert order[0] == "truth" and set(order[1:3]) == {"wsir-local_pit", "mc_dropout-local_pit"}
    error = numbers[(numbers.item == "Table 3") & (numbers.metric == "RMSE")].set_index("method").value
    networks = error[error.index.str.startswith("gamma_network")]
    assert (networks < networks["gamma_network"]).sum() == 1 and networks.idxmin() == "gamma_network-local_pit"
    assert cell(numbers[(numbers.method == "gamma_glm-local_pit") & (numbers.metric == "RMSE")], 1) == "751.2"
