"""What the paper prints, as far as its text has it: every number is there once, and tables agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.published import cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p3"
CELLS = {
    "Table 1": 7,  # of 12, the others are lost
    "Table 2": 4,  # of 20
    "Table 3": 2 * 3 * 3,
    "Table 4": 5 * 2 * 2,
    "Table 5": 2 * 7 * 3,
    "Table 6": 6 * 3 * 4,
    "Appendix E, table 1": 10 * 3,
    "Appendix E, table 2": 10 * 3 + 2 + 1,
    "Appendix E, table 3": 13 * 3,
    "Appendix E, table 4": 14 * 3,
    "Appendix E, table 5": 12 * 3,
    "Appendix E, table 6": 4 * 3 + 2,
    "Appendix E, table 7": 2 * 2,
    "Appendix E, table 8": 3 * 3 + 2,
    "Appendix E, table 9": 3 + 2,
    "Appendix E, table 10": 3 + 2 * 2,
    "Appendix B": 1,
    "Appendix C": 7,
}
"""Numbers of each table that are in the text; of table 11 of the appendix there is none."""


@pytest.fixture(scope="module")
def published():
    return read_published(HERE)


def test_no_number_is_missing(published) -> None:
    assert published.item.value_counts().to_dict() == CELLS
    assert (published.source.str.len() > 10).all()


def test_numbers_are_percentages(published) -> None:
    measured = published[published.metric.isin(["AUROC", "AUPR", "FPR95", "FPR90"])]
    assert len(measured) == sum(CELLS.values()) - CELLS["Appendix B"] - CELLS["Appendix C"]
    assert measured.value.between(0, 100).all()
    assert (measured.ood != measured.dataset).all()


@pytest.mark.parametrize(
    ("item", "dataset", "ood", "metric", "method", "printed"),
    [
        ("Table 1", "diabetes130us", "electricity", "AUROC", "TOOD", "100.000"),
        ("Table 3", "mnist", "qmnist", "FPR95", "TOOD", "96.400"),
        ("Table 3", "fashion_mnist", "kuzushiji_mnist", "AUPR", "TOOD", "99.100"),
        ("Table 4", "mnist", "notmnist", "AUROC", "MSP", "87.000"),
        ("Table 5", "cifar100", "mean of all", "FPR95", "energy fine-tuning", "47.600"),
        ("Table 6", "newsgroups_politics", "newsgroups_sports", "FPR90", "TOOD", ".900"),
        ("Appendix E, table 8", "cifar10", "lsun_crop", "FPR95", "TOOD", ".130"),
    ],
)
def test_they_can_stand_in_a_table(published, item, dataset, ood, metric, method, printed) -> None:
    chosen = published[["item", "dataset", "ood", "metric", "method"]].eq([item, dataset, ood, metric, method]).all(axis=1)
    assert cell(published[chosen]) == printed


def test_a_number_of_the_text_is_that_of_the_appendix(published) -> None:
    """Tables 1 to 4 show what the appendix has set by set; TOOD has one number in both wherever the text has both."""
    keys = ["dataset", "ood", "metric", "method"]
    body = published[published.item.isin(["Table 2", "Table 3", "Table 4"])].set_index(keys).value
    first = published[published.setting.isin(["first of two"]) | (published.item == "Appendix E, table 5")].set_index(keys).value
    shared = body.index.intersection(first.index)
    assert len(shared) == 4 + 3 + 2 + 5 * 2  # four pairs of texts; QMNIST and KMNIST in Fashion-MNIST; five sets in MNIST, AUROC and AUPR
    assert (body[shared] == first[shared]).all()


def test_what_is_inferred_is_said(published) -> None:
    said = published.note.fillna("")
    assert said.str.contains("inferred").sum() == 3
    assert set(said[published.item == "Table 4"]) == {"the data set in distribution is not in the text: MNIST, as in Appendix E"}
    pairs = ["item", "dataset", "ood"]
    partly = published[said.str.startswith("two of three")].groupby(pairs).metric.apply(set)
    assert len(partly) == 8 and all(metrics == {"AUROC", "AUPR"} for metrics in partly)
    with_fpr = published[published.metric == "FPR95"].set_index(pairs).index
    assert not partly.index.isin(with_fpr).any()
