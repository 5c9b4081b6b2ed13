"""What the paper prints: every cell of its tables is there once, and the numbers agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.published import cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p4"
SETTINGS = ["crime", "celeba_hair_color", "celeba_hair_type"]
CELLS = {"Table 1": 9 * 3, "Table 2": 6 * 3, "Table 3": 7 * 9, "Table 4": 6 * 4}
"""Methods or metrics by settings or metrics, as printed."""
GLOBAL = ["temperature", "histogram", "isotonic", "mmce"]


@pytest.fixture(scope="module")
def published():
    return read_published(HERE)


@pytest.fixture(scope="module")
def fairness(published):
    """Max group MCE of each method (rows) and setting."""
    return published[published.item == "Table 1"].pivot(index="method", columns="dataset", values="value")


def test_no_cell_is_missing(published) -> None:
    counts = published.item.value_counts()
    assert {table: counts[table] for table in CELLS} == CELLS
    assert counts["Figure 2"] == 6
    for table, of in (("Table 1", 9), ("Table 2", 6), ("Table 3", 21)):
        assert published[published.item == table].dataset.value_counts().to_dict() == dict.fromkeys(SETTINGS, of)
    assert (published.source.str.len() > 10).all()


def test_a_mean_has_its_spread_where_the_paper_gives_one(published) -> None:
    given = published.spread.notna()
    assert set(published.item[given]) == {"Table 1", "Table 3"}
    assert given[published.item.isin(["Table 1", "Table 3"])].all()
    assert (published.spread[given] > 0).all()


@pytest.mark.parametrize(
    ("item", "dataset", "metric", "method", "printed"),
    [
        ("Table 1", "crime", "max group MCE", "none", ".588"),
        ("Table 1", "celeba_hair_type", "max group MCE", "LoRe PCA", ".154"),
        ("Table 2", "celeba_hair_color", "correlation with max group MCE", "ECE", "-.061"),
        ("Table 3", "crime", "ECE in percent", "histogram", "3.300"),
        ("Table 3", "celeba_hair_type", "Brier", "LoRe PCA", ".538"),
        ("Table 4", "imagenet", "PRR", "LoRe t-SNE", ".575"),
        ("Figure 2", "imagenet", "mean LCE of the worst bin", "none", ".051"),
    ],
)
def test_they_can_stand_in_a_table(published, item, dataset, metric, method, printed) -> None:
    chosen = (published.item == item) & (published.dataset == dataset) & (published.metric == metric) & (published.method == method)
    assert cell(published[chosen]) == printed


def test_the_best_are_marked(published) -> None:
    """Bold is the best of a column, with ties; in Table 3 these are the cells whose mean and spread the text version runs together."""
    for table in CELLS:
        for _, column in published[published.item == table].groupby(["dataset", "metric"]):
            best = column.value.max() if table == "Table 2" or column.metric.iloc[0] == "PRR" else column.value.min()
            assert ((column.best == "yes") == (column.value == best)).all()
    together = published.note.fillna("").str.startswith("mean and sd run together")
    assert together.sum() == 9
    assert (published.best[together] == "yes").all()
    for row in published[together].itertuples():
        runs = row.note.split(": ")[1]
        digits = {f"{row.value:.{k}f}{row.spread:.{m}f}".replace("0.", ".", i) for k in (1, 2, 3) for m in (1, 2, 3) for i in (0, 1, 2)}
        assert runs in digits


def test_what_does_not_fit_is_said(published) -> None:
    (odd,) = published[published.note.fillna("").str.contains("sic")].itertuples()
    assert (odd.dataset, odd.metric, odd.method, odd.value, odd.spread) == ("crime", "Brier", "histogram", 0.15, 0.1)
    crime = published[(published.dataset == "crime") & published.metric.isin(["training rows", "calibration rows", "test rows"])]
    assert crime.value.sum() == 2494 and crime.note.str.contains("1,994").all()


def test_percentages_of_the_text_are_those_of_table_1(published, fairness) -> None:
    said = published[published.item == "reductions"].set_index("metric").value
    over_none = 1 - fairness.loc["LoRe t-SNE"] / fairness.loc["none"]
    over_next = 1 - fairness.loc["LoRe t-SNE"] / fairness.loc[GLOBAL].min()
    assert 100 * over_none.mean() == pytest.approx(said["mean reduction of max group MCE over none in percent"], abs=0.5)
    assert 100 * over_next.mean() == pytest.approx(said["mean reduction of max group MCE over the best global method in percent"], abs=0.5)


def test_sizes_agree_with_each_other(published) -> None:
    value = published.groupby(["dataset", "metric"]).value.first()
    rows = ["training rows", "calibration rows", "test rows"]
    assert sum(value["celeba", name] for name in rows) == value["celeba", "images"]
    assert value["crime", "rows that recalibrate"] == value["crime", "calibration rows"]
    assert value["crime", "networks"] == value["crime", "seeds"]
    assert value["celeba", "networks of each setting"] == value["celeba_hair_color", "seeds"] == value["celeba_hair_type", "seeds"]
    assert value["celeba_hair_color", "classes"] == value["celeba_hair_type", "groups"]
