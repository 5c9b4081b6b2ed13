"""What the paper prints: every number is there once, fits a table, and agrees with the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.common.published import cell, read_published

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p2"
PRINTED = {"phanns": 15, "mnist": 33, "any": 9, "genomes": 3}
"""How many numbers the text, the captions and the appendix have of each; all results are curves and bars, which have none."""


@pytest.fixture(scope="module")
def published():
    return read_published(HERE)


def test_no_number_is_missing(published) -> None:
    assert published.dataset.value_counts().to_dict() == PRINTED
    assert set(published.said) == {"exactly", "about", "almost", "at most"}
    assert (published.source.str.len() > 10).all()


@pytest.mark.parametrize(
    ("metric", "method", "printed"),
    [
        ("precision of Minor capsid", "Conf1", ".070"),
        ("right rows of 0 below that score", "10000 steps", "4.000"),
        ("wrong rows of 0", "10000 steps", "11.000"),
        ("bound of the ECE with 10 bins and 1000 rows", "histogram", ".180"),
        ("accuracy on test set 2 in percent", "under-trained", "88.000"),
        ("accuracy on test set 2 in percent", "fully trained", "99.700"),
    ],
)
def test_they_can_stand_in_a_table(published, metric, method, printed) -> None:
    assert cell(published[(published.metric == metric) & (published.method == method)]) == printed


def test_numbers_agree_with_each_other(published) -> None:
    value = published[published.said == "exactly"].groupby(["dataset", "metric"]).value.first()
    assert value["mnist", "inputs"] == value["mnist", "side of an image in pixels"] ** 2
    assert value["mnist", "training rows"] + value["mnist", "rows of test set 1"] == value["mnist", "training examples of the data set"]
    assert value["phanns", "groups for cross-validation"] + value["phanns", "groups for test"] == value["phanns", "groups of sequences"]
