"""What the paper prints: every number is there once, fits a table, and agrees with the others; its
figures and sentences are listed.

The text of the paper has no marks of pages. Its columns are cut in the middle of a sentence, or by
a figure, and columns of some 3,000 letters make the 14 pages that it is known to have: ``page`` is
from there.
"""

from __future__ import annotations

import inspect
import re
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from experiments.common.published import LOST, cell, read_published
from experiments.p2 import label_shift
from experiments.p2.figures import __main__ as of_phanns
from experiments.p2.figures import claims as on_phanns
from experiments.p2.figures.study import ORDER
from experiments.p2.mnist import claims as on_mnist
from experiments.p2.phanns_scores import PREDICTED

HERE = Path(__file__).resolve().parents[3] / "experiments" / "p2"
PAGES = 14
# in the order of the paper; there is no table, and of its curves and bars no number is printed
CELLS = {
    "Abstract": 1,
    # of PhANNs and of MNIST: networks and highest score; classes; test sets and rows
    "Section II": 2 * 2 + 1 + 2,
    "Section III": 1 + 1,  # rows, and the precision of Minor capsid
    "Figure 1": 3 * 11 * 11,  # counts, shares of the true class, shares of the predicted class
    # rows of a class, twice; bound and how often it holds; bins, twice; test sets and their rows;
    # rows of PhANNs and of Other
    "Section IV": 2 + 2 + 2 + 2 + 2,
    "Figure 4": 1 + 1,
    "Section VI": 2 + 1,  # where the two ways of counting differ, twice; the highest score
    "Section IX": 1 + 2 + 2,  # a parameter; temperatures up and down; of HTJ and of all
    "Section XII": 1 + 3,  # b_mon, and b_mon2 in three words
    "Section XIII.A": 2 + 1,
    "Section XIII.B": 2 + 1 + 3,  # rows of HTJ; percent; groups
    # most rows and their score; right rows of 0, below which score, wrong rows; cutoffs; where
    # plots begin
    "Section XIII.D": 2 + 3 + 2 + 2,
    "Figure 16": 10 * 10,
    "Section XV": 1,
    "Appendix, MNIST dataset preparation": 2 + 1 + 2,  # the data set; its images; the split
    # batch; inputs, two layers, outputs; rate; steps and accuracy of two recipes
    "Appendix, Network training": 1 + 4 + 1 + 2 * 2,
    "Appendix, Ensemble Sampling": 1 + 1,
    "Appendix, Calibration method tuning": 1 + 2,  # parameters; local minima of two rules
    "Appendix, MNIST results": 1 + 1 + 3,  # ensembles; methods; parameters of three of them
}
STORED = {"joint count": 11, "share of the predicted class": 11}
"""Of Figure 1 the diagonals, which the repository of PhANNs gives; all else of both figures is
lost.
"""
RESULTS = {
    "Section III": 1,  # the precision of Minor capsid
    "Section IX": 4,  # temperatures up and down, of HTJ, of all
    "Section XIII.D": 1 + 2 + 2,  # the score of most rows; right and wrong rows of 0; cutoffs
    "Appendix, Network training": 2,  # accuracies
}
"""Of the text what was found; all else of it is how it was done, or was found by others."""


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return read_published(HERE)


def _listed(name: str) -> pd.DataFrame:
    return pd.read_csv(HERE / name, keep_default_na=False)


def test_no_number_is_missing(published) -> None:
    assert published.groupby("item", sort=False).size().to_dict() == CELLS
    assert list(dict.fromkeys(published.item)) == list(CELLS)
    assert set(published.said) == {
        "exactly",
        "about",
        "almost",
        "at most",
        "at least",
        "above",
        "below",
    }
    assert (published.source.str.len() > 5).all()


def test_pages_follow_each_other(published) -> None:
    assert published.page.between(1, PAGES).all() and published.page.is_monotonic_increasing
    drawn = _listed("figures.csv").set_index("figure").page
    assert {
        int(item.split()[1]): page
        for item, page in published[["item", "page"]].itertuples(index=False)
        if "Figure" in item
    } == {number: drawn[number] for number in (1, 4, 16)}


def test_a_number_is_of_the_text_or_of_a_figure(published) -> None:
    """A caption is text, most of which says how it was done; what a picture says is stored
    elsewhere, or lost.
    """
    matrices = published.item.isin(["Figure 1", "Figure 16"])
    assert set(published[~matrices].kind) == {"text", "setting"}
    assert (
        published[published.kind == "text"].groupby("item", sort=False).size().to_dict() == RESULTS
    )
    assert published[published.kind == "stored"].metric.value_counts().to_dict() == STORED
    assert set(published[matrices].kind) == {"stored", "figure"}
    assert (published.kind.eq("figure") | published.value.notna()).all()
    assert (published.value.isna() == published.note.fillna("").str.startswith(LOST)).all()
    assert published[["spread", "spread_is"]].isna().all(axis=None)
    assert published[~matrices][["row", "column"]].isna().all(axis=None)


def test_matrices_have_every_pair_of_classes(published) -> None:
    labels = {"Figure 1": list(ORDER), "Figure 16": [str(k) for k in range(10)]}
    pairs = published[published.item.isin(labels)]
    for (item, _), cells in pairs.groupby(["item", "metric"], sort=False):
        wanted = [(true, predicted) for true in labels[item] for predicted in labels[item]]
        assert list(zip(cells.true_class, cells.predicted_class, strict=True)) == wanted
    assert (
        published[~published.item.isin(labels)][["true_class", "predicted_class"]]
        .isna()
        .all(axis=None)
    )
    assert (pairs.row == pairs.true_class).all() and (
        pairs.column == pairs.metric + ", predicted as " + pairs.predicted_class
    ).all()
    stored = pairs[pairs.kind == "stored"]
    assert (stored.true_class == stored.predicted_class).all()


def test_shares_follow_from_the_counts(published) -> None:
    """The row of HTJ is lost but for its diagonal, so no sum of a column is complete."""
    cells = published[published.item == "Figure 1"].set_index(
        ["metric", "true_class", "predicted_class"]
    )
    counts, shares = (
        cells.value[metric].unstack() for metric in ("joint count", "share of the true class")
    )
    legible = counts.drop(index="HTJ")
    assert counts.loc["HTJ"].notna().sum() == 1 and legible.notna().all(axis=None)
    # The text has 2228 in the corner, where the stored count is 2227, and so in other rows.
    expected = legible.div(legible.sum(axis=1), axis=0)
    assert (expected - shares.drop(index="HTJ")).abs().max(axis=None) < 0.0052
    of_column = cells.value["share of the predicted class"].unstack()
    sums = pd.Series(PREDICTED)
    assert (counts.div(sums, axis=1) - of_column).abs().max(axis=None) < 0.0052
    complete = counts.drop(index="HTJ").sum()
    assert (complete <= 1.01 * sums[complete.index]).all()


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
def test_records_of_both_versions_can_be_in_a_table(published, metric, method, printed) -> None:
    assert cell(published[(published.metric == metric) & (published.method == method)]) == printed


def test_numbers_agree_with_each_other(published) -> None:
    value = (
        published[published.said == "exactly"].groupby(["dataset", "metric"]).value.last()
    )  # the Appendix, where two places differ
    assert value["mnist", "inputs"] == value["mnist", "side of an image in pixels"] ** 2
    assert (
        value["mnist", "training rows"] + value["mnist", "rows of test set 1"]
        == value["mnist", "training examples of the data set"]
    )
    assert (
        value["phanns", "groups for cross-validation"] + value["phanns", "groups for test"]
        == value["phanns", "groups of sequences"]
    )
    published_twice = (
        published[published.kind.isin(["text", "setting"])]
        .groupby(["dataset", "metric", "method"], dropna=False)
        .value
    )
    differ = [key[:2] for key, values in published_twice if values.nunique() > 1]
    assert differ == [("mnist", "training rows"), ("phanns", "test rows")]
    assert (
        published.note.fillna("").str.startswith("contradicts").sum() == 2
    )  # both places of the training rows


def test_stored_numbers_agree_with_the_text(published) -> None:
    stored = published[published.kind == "stored"].set_index(["metric", "true_class"]).value
    text = published[published.kind.isin(["text", "setting"])].set_index("metric").value
    assert (
        stored["share of the predicted class", "Minor capsid"] == text["precision of Minor capsid"]
    )
    assert stored["joint count", "HTJ"] < text["true rows of HTJ"]
    predicted = (
        stored["joint count"] / stored["share of the predicted class"]
    )  # shares are printed to two digits
    off = (0.005 * predicted / stored["share of the predicted class"]).sum()
    assert abs(predicted.sum() - 46801) <= off


def test_each_picture_has_one_figure_and_each_figure_a_command() -> None:
    listed = _listed("figures.csv")
    assert listed.page.between(1, PAGES).all() and listed.page.is_monotonic_increasing
    assert (listed.shows.str.split().str.len() <= 15).all()
    assert (listed.drawn_by != "").all()
    names = [name for files in listed.files for name in files.split()]
    assert len(names) == len(set(names)) and set(names) == {
        f"pictures/{path.stem}" for path in (HERE / "pictures").iterdir()
    }
    only = {
        name
        for command in listed.drawn_by
        for words in command.split("--only ")[1:]
        for name in takewhile(lambda word: word.startswith("figure"), words.split())
    }
    assert only == set(of_phanns.FIGURES)


def test_every_claim_has_a_test_or_a_possible_one() -> None:
    listed = _listed("claims.csv")
    assert listed.claim.is_unique and listed.quote.is_unique
    assert listed.page.between(1, PAGES).all() and listed.page.is_monotonic_increasing
    assert (listed.quote.str.split().str.len() <= 40).all() and (listed.note.str.len() > 20).all()


def test_a_claim_is_tested_in_the_words_of_its_note() -> None:
    tested = [
        row
        for row in _listed("claims.csv").itertuples(index=False)
        if row.tested_by and row.note.startswith("tested as")
    ]
    assert tested
    for row in tested:
        words = [quoted for quoted in re.findall(r'"([^"]+)"', row.note) if len(quoted) > 15]
        assert words, row.claim
        for quoted in words:
            assert any(
                quoted in _strings(module) for module in (on_phanns, on_mnist, label_shift)
            ), quoted


def _strings(module: ModuleType) -> str:
    return re.sub(r'"\s*\n\s*f?"', "", inspect.getsource(module))
