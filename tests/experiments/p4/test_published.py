"""What the paper prints: every number of its tables and sentences is there once, and the numbers
agree with each other.

The text of the paper has no marks of pages. Where a page ends was counted from what the break
leaves: a sentence that a blank line or a figure cuts in two, and how much a full page holds. Pages
to 12 are sure but for the two ends of Section 3.2, those from 13 on (figures alone) to one page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from experiments.common.published import cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p4"
SETTINGS = ["crime", "celeba_hair_color", "celeba_hair_type"]
CELLS = {"Table 1": 9 * 3, "Table 2": 6 * 3, "Table 3": 7 * 3 * 3, "Table 4": 6 * 4}
"""Methods (Table 2: metrics) by settings, or by settings and metrics, or by metrics; none is left
blank.
"""
SENTENCES = {
    "Table 1, caption": 3,  # seeds of each setting
    "Figure 1": 1,  # where MLCE begins
    "Figure 1, caption": 3,  # dimensions of each map
    "Figure 2": 2 * 2 + 3,  # two errors of two bins; bandwidth, dimensions before and after t-SNE
    "Figure 2, caption": 1,  # bandwidth
    "Figure 3, caption": 1,  # bandwidth
    "Figure 5, caption": 2,  # dimensions left and right
    "Figure 6, caption": 2,
    "Figure 7, caption": 2 + 2,  # dimensions, and where LoRe is the best and ties
    **{f"Figure {k}, caption": 1 for k in (8, 9, 16, 17, 18, 19)},  # dimensions
    "Section 3.2": (
        1
        + 2
        + 1
        + 2 * 2
        # bins; two bandwidths; dimensions of Inception-v3, of t-SNE and PCA in general, and of Figure 1
        + 2
    ),
    "Section 4": 2,  # bandwidths of LoRe
    "Section 5": 1,  # data sets
    "Section 5.1": (
        (2 + 3) + 3 + (2 + 3)
    ),  # classes or attributes and images, and rows of the three splits
    "Section 5.3": 3 * 3 + 2,  # seeds, classes and groups of each setting; two reductions
    "Section 5.4": 2 + 2,  # costs; PRR of the best and of random rejection
    "Appendix A": 3 + 1,  # bins of each data set, rows that recalibrate
    "Appendix A.1": 2,  # dimensions
    "Appendix A.2": 6 + 2,  # network and training; dimensions
    "Appendix A.3": 6 + 2,
}
"""Numbers in prose and captions; one that a section prints twice counts once."""
FOUND = {
    "Figure 1": 1,
    "Figure 2": 2 * 2,  # two errors of two bins
    "Figure 7, caption": 2,  # where LoRe is the best and ties
    "Section 5.3": 2,  # reductions
    "Appendix A.3": 1,  # minutes
}
"""Of these the measured numbers; the others are settings."""
GLOBAL = ["temperature", "histogram", "isotonic", "mmce"]
PAGES = 19
"""At most: the proofs of Appendix D, which have no numbers, end on it."""


@pytest.fixture(scope="module")
def published():
    return read_published(HERE)


@pytest.fixture(scope="module")
def fairness(published):
    """Max group MCE of each method (rows) and setting."""
    return published[published.item == "Table 1"].pivot(
        index="method", columns="dataset", values="value"
    )


def test_no_cell_is_missing(published) -> None:
    assert published.item[published.kind == "table"].value_counts().to_dict() == CELLS
    assert published.item[published.kind == "text"].value_counts().to_dict() == FOUND
    assert (
        published.item[published.kind.isin(["text", "setting"])].value_counts().to_dict()
        == SENTENCES
    )
    assert len(published) == sum(CELLS.values()) + sum(
        SENTENCES.values()
    )  # no figure is read off, and no stored number is known
    for table, of in (("Table 1", 9), ("Table 2", 6), ("Table 3", 21)):
        assert published[published.item == table].dataset.value_counts().to_dict() == dict.fromkeys(
            SETTINGS, of
        )
    assert not published.duplicated(["item", "dataset", "metric", "method"]).any()
    assert (published.source.str.len() > 10).all()


def test_every_row_and_column_of_a_table_cross_once(published) -> None:
    tables = published[published.kind == "table"]
    for item, table in tables.groupby("item"):
        assert (
            table.row.nunique() * table.column.nunique()
            == len(table.drop_duplicates(["row", "column"]))
            == CELLS[str(item)]
        )
    assert (
        tables.source
        == tables.item
        + ', row "'
        + tables.row
        + '", column "'
        + tables.column.str.replace(" / ", ", ")
        + '"'
    ).all()
    labels = tables.drop_duplicates(["method", "row"])
    assert (
        labels.row[labels.method != "LoRe t-SNE"].is_unique
        and labels.method[labels.row != "LoRe (ours)"].is_unique
    )
    assert published[published.kind != "table"][["row", "column"]].isna().all(axis=None)


def test_pages_follow_the_items(published) -> None:
    assert published.page.between(1, PAGES).all() and published.page.dtype == int
    for family in ("Table", "Figure", "Section", "Appendix"):
        mine = published[published.item.str.match(rf"{family} [\w.]+$")]
        places = mine.item.map(place)
        assert (
            places.is_monotonic_increasing
            and mine.sort_values("page", kind="stable").item.map(place).is_monotonic_increasing
        )


def place(item: str) -> tuple[str | int, ...]:
    """What an item is sorted by.

    >>> place("Section 5.3"), place("Appendix A.1")
    ((5, 3), ('A', 1))
    """
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"[ .]", item)[1:])


def test_a_number_that_is_lost_is_noted(published) -> None:
    """None is."""
    assert (
        published.value.notna().all() and not published.note.fillna("").str.startswith("lost").any()
    )


def test_a_published_means_have_their_published_spread(published) -> None:
    given = published.spread.notna()
    assert set(published.item[given]) == {"Table 1", "Table 3"}
    assert given[published.item.isin(["Table 1", "Table 3"])].all()
    assert (published.spread[given] > 0).all()
    assert (published.spread_is[given] == "sd").all() and published.spread_is[~given].isna().all()


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
def test_records_of_both_versions_can_be_in_a_table(
    published, item, dataset, metric, method, printed
) -> None:
    chosen = (
        (published.item == item)
        & (published.dataset == dataset)
        & (published.metric == metric)
        & (published.method == method)
    )
    assert cell(published[chosen]) == printed


def test_the_best_are_marked(published) -> None:
    """Bold is the best of a column, with ties; in Table 3 these are the cells whose mean and spread
    the text version runs together.
    """
    for table in CELLS:
        for _, column in published[published.item == table].groupby(["dataset", "metric"]):
            best = (
                column.value.max()
                if table == "Table 2" or column.metric.iloc[0] == "PRR"
                else column.value.min()
            )
            assert ((column.best == "yes") == (column.value == best)).all()
    together = published.note.fillna("").str.startswith("mean and sd run together")
    assert together.sum() == 9
    assert (published.best[together] == "yes").all()
    for row in published[together].itertuples():
        runs = row.note.split(": ")[1]
        digits = {
            f"{row.value:.{k}f}{row.spread:.{m}f}".replace("0.", ".", i)
            for k in (1, 2, 3)
            for m in (1, 2, 3)
            for i in (0, 1, 2)
        }
        assert runs in digits


def test_curves_that_do_not_fit_are_refused(published) -> None:
    (odd,) = published[published.note.fillna("").str.contains("sic")].itertuples()
    assert (odd.dataset, odd.metric, odd.method, odd.value, odd.spread) == (
        "crime",
        "Brier",
        "histogram",
        0.15,
        0.1,
    )
    crime = published[
        (published.dataset == "crime")
        & published.metric.isin(["training rows", "calibration rows", "test rows"])
    ]
    assert crime.value.sum() == 2494 and crime.note.str.contains("1,994").all()
    contradict = published[published.note.fillna("").str.startswith("contradicts")]
    assert contradict[["item", "value"]].to_numpy().tolist() == [
        ["Section 3.2", 15],
        ["Appendix A", 5],
    ]


def test_percentages_of_the_text_are_those_of_table_1(published, fairness) -> None:
    text = published[published.metric.str.startswith("mean reduction")].set_index("metric")
    reductions = {
        "mean reduction of max group MCE over none in percent": (
            1 - fairness.loc["LoRe t-SNE"] / fairness.loc["none"]
        ),
        "mean reduction of max group MCE over the best global method in percent": (
            1 - fairness.loc["LoRe t-SNE"] / fairness.loc[GLOBAL].min()
        ),
    }
    assert set(text.index) == set(reductions)
    for metric, by_setting in reductions.items():
        assert 100 * by_setting.mean() == pytest.approx(text.value[metric], abs=0.5)
        parts = [float(number) for number in re.findall(r"\d+\.\d", text.note[metric])]
        assert parts == pytest.approx((100 * by_setting[SETTINGS]).tolist(), abs=0.05)


def test_sizes_agree_with_each_other(published) -> None:
    value = published.groupby(["dataset", "metric"]).value.first()
    rows = ["training rows", "calibration rows", "test rows"]
    assert sum(value["celeba", name] for name in rows) == value["celeba", "images"]
    assert value["crime", "rows that recalibrate"] == value["crime", "calibration rows"]
    assert value["crime", "networks"] == value["crime", "seeds"]
    assert (
        value["celeba", "networks of each setting"]
        == value["celeba_hair_color", "seeds"]
        == value["celeba_hair_type", "seeds"]
    )
    assert value["celeba_hair_color", "classes"] == value["celeba_hair_type", "groups"]


def test_numbers_of_two_places_agree(published) -> None:
    """But for the bins, for which Section 3.2 has no exception."""
    twice = published[
        (published.kind != "table") & published.dataset.isin(["imagenet", *SETTINGS])
    ].groupby(["dataset", "metric", "method"], dropna=False)
    assert (twice.value.nunique() == 1).all() and (twice.size() > 1).sum() > 5


def test_every_figure_is_drawn_or_has_what_is_missing(published) -> None:
    figures = pd.read_csv(HERE / "figures.csv")
    assert list(figures.columns) == [
        "figure",
        "page",
        "shows",
        "drawn_by",
        "files",
        "caption",
        "missing",
    ]
    assert figures.figure.tolist() == list(range(1, 20))
    assert figures.page.is_monotonic_increasing and figures.page.between(1, PAGES).all()
    assert (figures.shows.str.split().str.len() <= 15).all()
    assert (figures.drawn_by.notna() | figures.missing.notna()).all() and (
        figures.drawn_by.notna() == figures.files.notna()
    ).all()
    assert figures.figure[figures.missing.isna()].tolist() == [
        5,
        17,
    ]  # of the paper's own data, with all its methods
    captions = published[
        published.item.str.endswith(", caption") & published.item.str.startswith("Figure")
    ]
    page = figures.set_index("Figure " + figures.figure.astype(str)).page
    assert (captions.page == captions.item.str.removesuffix(", caption").map(page)).all()


def test_every_claim_has_a_test_or_a_way_to_test_it() -> None:
    claims = pd.read_csv(HERE / "claims.csv")
    assert (
        claims.claim.is_unique
        and claims.page.is_monotonic_increasing
        and claims.page.between(1, PAGES).all()
    )
    assert (claims.quote.str.split().str.len() <= 40).all() and claims.note.notna().all()
