"""What the paper prints: every number is there once, with the words of its text; its figures
and sentences are listed.

The paper is there as the text of a page of the web, which has no marks of pages: ``page`` is empty,
and items and sources name sections.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import norm

from experiments.common.published import LOST, cell, read_published
from experiments.p5 import figures

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p5"
CELLS = {  # in the order of the paper
    "Section 2": 1,
    # settings: rows, three shares, layer and neighbours, the highlighted point; then what the line
    # says there, and Frosini's test
    "Section 4.1": (1 + 3 + 2 + 2) + (3 + 1),
    "Table 1": 3 * 4,
    # rows, three shares; depth, four widths, dropout, epochs, rate, batch; draws of both samples,
    # radius
    "Section 4.2": (1 + 3) + (1 + 4 + 4) + (2 + 1),
    "Table 2": 5 * 3,
    # four sizes, three shares; inputs, depth, widths, rates; layers, k, eps; density estimation,
    # sizes of k-NN; then time, MSE, memory
    "Section 4.3": (4 + 3) + (1 + 1 + 3 + 2) + (2 + 3 + 3) + (2 + 2) + (1 + 1 + 2),
    # rows, three shares, three widths, layer and neighbours; then two prices
    "Section 4.4": (1 + 3 + 3 + 2) + 2,
    "Table 3": 8 * (1 + 3),
}
SETTINGS = {"Section 4.1": 8, "Section 4.2": 16, "Section 4.3": 26, "Section 4.4": 9 + 2}
"""Of these numbers, settings that made a result."""


@pytest.fixture(scope="module")
def numbers():
    return read_published(HERE)


def _listed(name: str) -> pd.DataFrame:
    return pd.read_csv(HERE / name, keep_default_na=False, dtype={"section": str})


def test_every_number_is_there(numbers):
    assert numbers.groupby("item", sort=False).size().to_dict() == CELLS
    assert list(dict.fromkeys(numbers.item)) == list(CELLS)
    settings = numbers[numbers.kind == "setting"]
    assert settings.groupby("item").size().to_dict() == SETTINGS


def test_a_numbers_are_of_a_table_or_of_a_sentence(numbers):
    """No figure of the paper could be read, and nothing of it is stored; it prints no deviation,
    and nothing is lost.
    """
    table = numbers.item.str.startswith("Table")
    assert (numbers.kind[table] == "table").all() and set(numbers.kind[~table]) == {
        "text",
        "setting",
    }
    for name in ("row", "column"):
        assert (numbers[name].notna() == table).all()
    assert not numbers[table].duplicated(["item", "row", "column"]).any()
    for item, rows in numbers[table].groupby("item"):
        assert len(rows) == rows.row.nunique() * rows.column.nunique(), item
    assert all(
        f'row "{row}"' in source
        for row, source in numbers[table][["row", "source"]].itertuples(index=False)
    )
    assert (numbers.source.str.len() > 5).all()
    assert numbers[["page", "spread", "spread_is"]].isna().all(axis=None)
    assert numbers.value.notna().all() and not numbers.note.fillna("").str.startswith(LOST).any()


def test_labels_agree_with_the_keys(numbers):
    """Each printed row is one method, each printed column one metric at one level."""
    table = numbers[numbers.item.str.startswith("Table")].fillna({"level": 0})
    assert (table.groupby(["item", "row"]).method.nunique() == 1).all()
    assert (table.groupby(["item", "method"]).row.nunique() == 1).all()
    assert (table.groupby(["item", "column"])[["metric", "level"]].nunique() == 1).all(axis=None)
    assert (table.groupby(["item", "metric", "level"]).column.nunique() == 1).all()
    observed = table[table.metric == "coverage"]
    assert [
        f"Observed Coverage / {100 * level:.0f}%" for level in observed.level
    ] == observed.column.tolist()


def test_shares_are_shares_and_percent_are_percent(numbers):
    assert numbers[numbers.metric == "coverage"].value.between(0.85, 1).all()
    assert numbers[numbers.metric == "coverage (%)"].value.between(85, 100).all()
    assert set(numbers[numbers.metric.isin(["coverage", "coverage (%)", "sMIS"])].level) == {
        0.9,
        0.95,
        0.99,
    }
    assert (numbers.value >= 0).all()
    shares = numbers[
        numbers.metric.isin(["training rows (%)", "validation rows (%)", "test rows (%)"])
    ]
    assert (shares.groupby("item").value.sum() == 100).all() and shares.item.nunique() == 4


def test_statements_of_the_text_on_the_tables(numbers):
    """Sections 4.1, 4.2 and 4.4: local recalibration is best in every measure of Table 1, both
    recalibrated rows of Table 2 are nearest to the truth, and in Table 3 it alone lowers the
    network's error.
    """
    table = {
        item: numbers[numbers.item == item].set_index(["metric", "method"]).value
        for item in ("Table 1", "Table 2")
    }
    for metric in ("MSE", "KL divergence", "sMIS"):
        assert table["Table 1"][metric].idxmin() == "local_pit"
    assert (table["Table 1"]["coverage (%)"] - 95).abs().idxmin() == "local_pit"
    for metric in ("MSE", "sMIS"):
        order = table["Table 2"][metric].sort_values().index.tolist()
        assert order[0] == "truth" and set(order[1:3]) == {"wsir-local_pit", "mc_dropout-local_pit"}
    error = (
        numbers[(numbers.item == "Table 3") & (numbers.metric == "RMSE")].set_index("method").value
    )
    networks = error[error.index.str.startswith("gamma_network")]
    assert (
        networks < networks["gamma_network"]
    ).sum() == 1 and networks.idxmin() == "gamma_network-local_pit"
    assert (
        cell(numbers[(numbers.method == "gamma_glm-local_pit") & (numbers.metric == "RMSE")], 1)
        == "751.2"
    )


def test_contradictions_of_text_and_table_have_a_note(numbers):
    """Section 4.2: "the closest to nominal coverage [was] attained by the MC Dropout method", which
    is the farthest.
    """
    covered = numbers[(numbers.item == "Table 2") & (numbers.metric == "coverage (%)")].set_index(
        "method"
    )
    assert (covered.value - 95).abs().idxmax() == "mc_dropout"
    assert (
        covered.note["mc_dropout"].startswith("farthest of the five")
        and covered.note.notna().sum() == 1
    )


def test_the_highlighted_point_has_a_normal_pit_value(numbers):
    text = numbers[numbers.item == "Section 4.1"].set_index("metric").value
    pit = norm(text["mean"], text["SD"]).cdf(text["y of the highlighted point"])
    assert pit == pytest.approx(text["PIT value"], abs=5e-5)  # printed to four digits


def test_every_figure_is_drawn_or_listed_as_missing():
    listed = _listed("figures.csv")
    assert listed.figure.tolist() == [1, 2, 3, 4, 5] and (listed.page == "").all()
    assert (listed.shows.str.split().str.len() <= 15).all()
    assert ((listed.drawn_by != "") | (listed.missing != "")).all()
    assert ((listed.drawn_by != "") == (listed.files != "")).all()
    assert {words.split(" --only ")[1] for words in listed.drawn_by} == set(figures.FIGURES)
    assert listed.drawn_by.str.startswith(f"python -m {figures.__name__} ").all()


def test_every_claim_has_a_test_or_a_possible_one():
    listed = _listed("claims.csv")
    assert listed.claim.is_unique and listed.quote.is_unique and (listed.page == "").all()
    assert (listed.quote.str.split().str.len() <= 40).all() and (listed.note.str.len() > 20).all()
    assert set(listed.section) == {"Abstract", "1", "2", "3", "4.1", "4.2", "4.3", "4.4", "5"}
