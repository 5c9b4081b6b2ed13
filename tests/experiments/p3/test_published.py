"""What the paper prints: every number has its row, those that its text has lost too, and tables
agree with each other.

The paper is there as the text of a page of the web, which has no marks of pages: ``page`` is empty,
``section`` says where a row is from.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from experiments.common.published import LOST, cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p3"
IMAGES, TEXTS, COLOUR = (
    15 * 3,
    5 * 4 * 3,
    7 * 3,
)  # a table of Appendix E: sets out of distribution, AUROC AUPR FPR95
CELLS = {
    "Section 3.1": 3 + 1 + 1,  # distances of the example, its APHD, that of the other three samples
    "Section 3.2": 2 + 1,  # APHD of both panels of Figure 2, a threshold
    "Section 4": 1,
    "Section 5": 2 + 2,  # two numbers, and what each is rounded to
    "Table 1": 3 * 5 - 3,  # none of a table against itself
    "Table 2": 5 * 5 - 5,
    "Table 3": 3 * 3 * 2,  # two numbers a cell
    "Table 4": 5 * 2 * 2,
    "Section 5.2": 3,
    "Table 5": 2 * 7 * 3,
    "Table 6": 6 * 3 * 4,
    "Section 6": 1 + 1,
    "Appendix A": 1 + 1,
    "Appendix B": 2 + 1,
    "Appendix C": 3,
    # encoder, pooling and decoder of two autoencoders; epochs of four data sets, and of two of them
    # on each test set; word vectors
    "Appendix C.1": (4 + 4 + 1 + 3 + 3) + (5 + 5 + 5 + 6 + 6 + 5) + (4 + 2) + 2,
    "Appendix C.2": 2 + 2 + 3,
    **{f"Appendix E, table {i}": IMAGES for i in range(1, 5)},
    "Appendix E, table 5": TEXTS,
    **{f"Appendix E, table {i}": COLOUR for i in range(6, 12)},
}
"""All that is printed, in the order of the paper; of a list or a range that is lost, one."""
IN_THE_TEXT = {
    "Section 4": 1,
    "Table 1": 3 + 4,  # the 100 of the third row stands for one of two cells
    "Table 2": 1 + 2 + 1,
    "Table 3": 3 * 3 * 2,
    "Table 4": 5 * 2 * 2,
    "Table 5": 2 * 7 * 3,
    "Table 6": 6 * 3 * 4,
    "Section 6": 1,
    "Appendix B": 1,
    "Appendix C.1": 1 + (4 + 2) + 2,
    "Appendix E, table 1": 11 * 3,
    "Appendix E, table 2": 11 * 3 + 2 + 1,
    "Appendix E, table 3": 13 * 3,
    "Appendix E, table 4": 14 * 3,
    "Appendix E, table 5": 12 * 3,
    "Appendix E, table 6": 4 * 3 + 2,
    "Appendix E, table 7": 2 * 2,
    "Appendix E, table 8": 3 * 3 + 2,
    "Appendix E, table 9": 3 + 2,
    "Appendix E, table 10": 3 + 2 * 2,
}
"""Those that can be read; of table 11 of the appendix none."""
METRICS = ["AUROC", "AUPR", "FPR95", "FPR90"]
SECTIONS = ["3.1", "3.2", "4", "5", "5.1", "5.2", "6", "A", "B", "C", "C.1", "C.2", "E"]
MEDMNIST = [
    f"{part}mnist"
    for part in ("breast", "chest", "oct", "organa", "organc", "organs", "pneum", "tissue")
]
FIGURES = 7


@pytest.fixture(scope="module")
def published():
    return read_published(HERE)


def test_no_number_is_missing(published) -> None:
    assert published.item.value_counts(sort=False).to_dict() == CELLS
    assert list(dict.fromkeys(published.item)) == list(CELLS), "in the order of the paper"
    assert published.item[published.value.notna()].value_counts().to_dict() == IN_THE_TEXT


def test_every_row_has_its_source(published) -> None:
    tables = published.item.str.contains("able ")
    assert set(published.kind[tables]) == {"table"} and set(published.kind[~tables]) == {
        "text",
        "setting",
    }
    assert published[["row", "column"]].notna().all(axis=1).eq(tables).all()
    assert not published[tables].duplicated(["item", "row", "column"]).any(), "a cell is there once"
    assert (published.source.str.len() > 10).all()
    assert published.page.isna().all(), "the text has no marks of pages"
    assert list(dict.fromkeys(published.section)) == SECTIONS, "in the order of the paper"
    assert set(published.said) == {"exactly", "about"}
    assert (published.said == "about").sum() == 2, "close to 1, twice"


def test_settings_are_separated_from_results(published) -> None:
    """Section 5 and Appendices A to C say how it was done; so do a threshold that is chosen and the
    dimensions of a figure.
    """
    settings = published[published.kind == "setting"]
    whole = {
        item: CELLS[item]
        for item in (
            "Section 5",
            "Appendix A",
            "Appendix B",
            "Appendix C",
            "Appendix C.1",
            "Appendix C.2",
        )
    }
    assert settings.item.value_counts().to_dict() == {**whole, "Section 3.2": 1, "Section 6": 1}
    assert (published.kind == "text").sum() == 5 + 2 + 1 + 3 + 1  # Sections 3.1, 3.2, 4, 5.2 and 6


def test_tables_are_whole(published) -> None:
    """Every row of a table has every column, but for a data set against itself."""
    for item, of in published[published.kind == "table"].groupby("item"):
        against_itself = (
            set(zip(*[of.row.unique()] * 2, strict=True))
            if item in {"Table 1", "Table 2"}
            else set()
        )
        whole = {
            (row, column) for row in of.row.unique() for column in of.column.unique()
        } - against_itself
        assert set(zip(of.row, of.column, strict=True)) == whole, item


def test_lost_numbers_have_a_note(published) -> None:
    lost = published.note.fillna("").str.startswith(LOST)
    assert lost.eq(published.value.isna()).all()
    assert published[["spread", "spread_is"]].isna().all(axis=None), (
        "the text has no deviation, though Appendix E printed them"
    )
    text = published.note[lost].str
    assert text.contains("an AUROC or an AUPR, and the text does not say which").sum() == 2 * (
        1 + 5
    ), "one number for two cells"
    assert text.contains("100 stands for").sum() == 2


def test_numbers_are_percentages(published) -> None:
    measured = published[published.metric.isin(METRICS)]
    assert (
        len(measured)
        == sum(n for item, n in CELLS.items() if "able " in item) + CELLS["Section 5.2"]
    )
    assert measured.value.dropna().between(0, 100).all()
    assert (measured.ood != measured.dataset).all()


@pytest.mark.parametrize(
    ("item", "dataset", "ood", "metric", "method", "printed"),
    [
        ("Table 1", "diabetes130us", "electricity", "AUROC", "TOOD", "100.000"),
        ("Table 1", "electricity", "gaussian", "AUROC", "TOOD", "–"),
        ("Table 3", "mnist", "qmnist", "FPR95", "TOOD", "96.400"),
        ("Table 3", "fashion_mnist", "kuzushiji_mnist", "AUPR", "TOOD", "99.100"),
        ("Table 4", "mnist", "notmnist", "AUROC", "MSP", "87.000"),
        ("Table 5", "cifar100", "mean of all", "FPR95", "energy fine-tuning", "47.600"),
        ("Table 6", "newsgroups_politics", "newsgroups_sports", "FPR90", "TOOD", ".900"),
        ("Appendix E, table 2", "fashion_mnist", "tissuemnist", "FPR95", "TOOD", ".000"),
        ("Appendix E, table 8", "cifar10", "lsun_crop", "FPR95", "TOOD", ".130"),
        ("Appendix E, table 11", "cifar100", "svhn", "AUROC", "TOOD", "–"),
    ],
)
def test_records_of_both_versions_can_be_in_a_table(
    published, item, dataset, ood, metric, method, printed
) -> None:
    chosen = (
        published[["item", "dataset", "ood", "metric", "method"]]
        .eq([item, dataset, ood, metric, method])
        .all(axis=1)
    )
    assert chosen.sum() == 1 and cell(published[chosen]) == printed


def test_a_numbers_of_the_text_are_in_the_appendix(published) -> None:
    """Tables 1 to 4 show what the appendix has set by set; TOOD has one number in both wherever the
    text has both.
    """
    keys = ["dataset", "ood", "metric", "method"]
    there = published[published.value.notna()]
    body = there[there.item.isin(["Table 2", "Table 3", "Table 4"])].set_index(keys).value
    first = (
        there[there.setting.isin(["first of two"]) | (there.item == "Appendix E, table 5")]
        .set_index(keys)
        .value
    )
    shared = body.index.intersection(first.index)
    assert (
        len(shared) == 4 + 3 + 2 + 5 * 2
    )  # four pairs of texts; QMNIST and KMNIST in Fashion-MNIST; five sets in MNIST, AUROC and AUPR
    assert (body[shared] == first[shared]).all()


@pytest.mark.parametrize(
    ("dataset", "lost"),
    [("mnist", {"breastmnist", "organamnist"}), ("fashion_mnist", {"chestmnist", "organamnist"})],
)
def test_a_means_of_table_3_are_in_the_first_appendix_tables(published, dataset, lost) -> None:
    """Two of the eight FPR95 of MedMNIST are lost: they cannot be negative, so the mean is at least
    that of the others.
    """
    of = published[(published.dataset == dataset) & (published.metric == "FPR95")]
    mean = of.value[of.ood == "medmnist"].item()
    eight = of[(of.setting == "first of two") & of.ood.isin(MEDMNIST)]
    assert len(eight) == 8 and set(eight.ood[eight.value.isna()]) == lost
    assert eight.value.sum() <= 8 * (mean + 0.005)
    others = of[(of.setting == "second of two") & of.ood.isin(MEDMNIST)]
    assert abs(others.value.mean() - mean) > 0.03, "those of the second tables are other numbers"


def test_inferred_numbers_have_a_note(published) -> None:
    text = published.note.fillna("")
    assert text.str.contains("which is lost is inferred").sum() == 3
    assert (
        text[published.item.isin(["Table 1", "Table 2"]) & published.value.notna()]
        .str.contains("AUROC is taken")
        .all()
    )
    assert set(text[published.item == "Table 4"]) == {
        "the data set in distribution is not in the text: MNIST, as in Appendix E"
    }
    pairs = ["item", "dataset", "ood"]
    partly = published[text.str.startswith("two of three")].groupby(pairs).metric.apply(set)
    assert len(partly) == 8 and all(metrics == {"AUROC", "AUPR"} for metrics in partly)
    with_fpr = (
        published[(published.metric == "FPR95") & published.value.notna()].set_index(pairs).index
    )
    assert not partly.index.isin(with_fpr).any()


def test_figures_are_those_of_the_text() -> None:
    figures = pd.read_csv(HERE / "figures.csv", keep_default_na=False)
    assert figures.columns.tolist() == [
        "figure",
        "page",
        "shows",
        "drawn_by",
        "files",
        "caption",
        "missing",
        "section",
    ]
    assert figures.figure.tolist() == list(range(1, FIGURES + 1)) and (figures.page == "").all()
    assert figures.shows.str.split().str.len().between(3, 15).all()
    assert (figures.drawn_by != "").all()


def test_a_claim_has_its_quote_and_its_rule() -> None:
    claims = pd.read_csv(HERE / "claims.csv").fillna("")
    assert claims.claim.is_unique and claims.quote.is_unique
    assert claims.quote.str.split().str.len().between(4, 40).all()
    assert (claims.note.str.len() > 5).all()
