"""What the paper prints, draws and claims: every number, figure and sentence has its row, and what
was computed from stored numbers is.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from experiments.common.published import read_published
from experiments.p1.cc18.__main__ import PARTS
from experiments.p1.cc18.published import published_numbers
from experiments.p1.cc18.sizes import at_sizes, improvement_by_size
from experiments.p1.figures.__main__ import FIGURES
from kdgraph.config.yaml_files import option_files, read_text

ROOT = Path(__file__).resolve().parents[3]
PAPER = ROOT / "experiments" / "p1"
KINDS = {"table", "text", "figure", "stored", "setting"}
PAGES = 22
COUNTS = {
    ("Section 5", "setting"): 2,
    ("Section 5.1.1", "setting"): 8,
    ("Section 5.1.1", "text"): 1,
    ("Section 5.1.2", "setting"): 4,
    ("Figure 1, caption", "setting"): 2,
    # each of 5 simulations has 2 parents, of which error (method; the forest too) at 2 sizes,
    # Hellinger distance of 3 models at 2 sizes;
    # the first radius at the prior of KDF on each, and once with Euclidean distances
    ("Figure 1", "figure"): 5 * ((2 + 1) * 2 + 2 * 3 * 2) + 5 + 1,
    ("Figure 2, caption", "setting"): 1,
    # improvements at 5 sizes of 11 curves; at the largest sample medians of 5 models (error) and 6
    # (ECE), 4 counts, 2 × 3 quartiles of
    # geodesic distances and 2 medians of Euclidean; confidence of 5 models on test rows, 3 at
    # radius 1, 7 at radius 5, and 1 count there
    ("Figure 2", "stored"): 5 * 11 + 5 + 6 + 4 + 2 * 3 + 2 + 5 + 3 + 7 + 1,
    ("Figure 3, caption", "setting"): 5,
    ("Section 5.2.1", "setting"): 22,
    ("Section 5.2.2", "text"): 1,
    ("Section 6", "text"): 1,
    ("Table 1", "table"): 6 * 7,
    ("Appendix B", "setting"): 2,
    ("Appendix C", "setting"): (
        1 + 2 * 3 + 3 + 3 + 1 + 3
    ),  # how many, XOR, spiral, circle, sinewave, polynomial
    ("Figure 4, caption", "setting"): 5,
    ("Table 2", "setting"): 5,
    ("Table 3", "setting"): 6 - 1,  # the optimizer is a word
    ("Table 4", "table"): 6 * 7,
    ("Appendix F", "setting"): 4,
    # of 45 tables 2 parents and their kernel density methods: error, ECE, confidence far away
    ("Figures 5 to 8", "stored"): 45 * 4 * 3,
}
"""Of each item, in the paper's order."""
STORED = {
    "kdf geodesic": ("kdf_reference", "random_forest"),
    "isotonic on random_forest": ("isotonic", "random_forest"),
    "sigmoid on random_forest": ("sigmoid", "random_forest"),
    "kdn geodesic": ("kdn_reference", "mlp"),
    "isotonic on relu network": ("isotonic", "mlp"),
    "sigmoid on relu network": ("sigmoid", "mlp"),
}
"""A method of ``published.csv`` → what the stored tables call it, and its parent there."""
QUARTILES = {"lower quartile": 0.25, "median": 0.5, "upper quartile": 0.75}
ROUNDED = 6e-4
"""What was computed is written with three decimals."""


@pytest.fixture(scope="module")
def numbers() -> pd.DataFrame:
    return read_published(PAPER)


def test_every_number_is_there_once_in_order(numbers) -> None:
    assert numbers.groupby(["item", "kind"], sort=False).size().to_dict() == COUNTS
    assert list(dict.fromkeys(numbers.item)) == list(dict.fromkeys(item for item, _ in COUNTS))
    assert set(numbers.kind) == KINDS
    assert numbers.page.is_monotonic_increasing and numbers.page.between(1, PAGES).all()
    assert numbers.groupby("item").page.nunique().loc[lambda pages: pages > 1].to_dict() == {
        "Section 5.1.2": 2
    }
    assert numbers.value.notna().all()  # nothing is lost in the text


def test_numbers_have_their_place(numbers) -> None:
    printed = numbers[numbers.source.str.startswith("Table ")]
    assert not printed.duplicated(["item", "row", "column"]).any() and printed[
        ["row", "column"]
    ].notna().all(axis=None)
    assert numbers.drop(printed.index)[["row", "column"]].isna().all(axis=None)
    assert numbers.source.notna().all() and numbers[["metric", "source"]].notna().all(axis=None)
    assert numbers[numbers.spread.notna()].groupby("item").size().to_dict() == {
        "Table 1": 42,
        "Table 4": 42,
        "Section 5.2.2": 1,
    }
    assert numbers.spread_is.isna().all()  # the paper does not say it of any
    for item in ("Table 1", "Table 4"):
        table = printed[printed.item == item].pivot_table(
            index="row", columns="column", values="value"
        )
        assert table.shape == (6, 7) and table.notna().all(axis=None)


def test_the_quoted_words_have_the_number(numbers) -> None:
    words = {
        1: ("one", "x¹", "[-1,1]"),
        2: ("two", "n²", "[-2,2]"),
        3: ("x³",),
        5: ("five",),
        6: ("six",),
    }
    for row in numbers[numbers.kind.isin(["text", "setting"]) & numbers.row.isna()].itertuples():
        digits = re.findall(
            r"-?\d+(?:\.\d+)?", row.source.replace("0,000", "0000").replace("5,000", "5000")
        )
        assert row.value in map(float, digits) or any(
            word in row.source for word in words[row.value]
        ), (row.item, row.metric)


def test_medians_of_improvements_are_the_stored_ones(numbers) -> None:
    everything = published_numbers()
    curves = numbers[(numbers.kind == "stored") & numbers.n_train.notna()]
    sizes = sorted(curves.n_train.unique())
    for (metric, method), rows in curves.groupby(["metric", "method"]):
        measure = metric.removeprefix("relative improvement in ").removesuffix(", median of tables")
        name, parent = STORED[method]
        result = improvement_by_size(everything[everything.parent == parent], measure, threshold=0)
        at = dict(zip(sizes, at_sizes(result.curves[name], result.sizes, sizes), strict=True))
        for row in rows.itertuples():
            median, tables_there = at[row.n_train]
            assert median == pytest.approx(row.value, abs=ROUNDED), (metric, method)
            assert row.note.startswith(f"of {tables_there} tables,")


def test_medians_at_the_largest_samples_are_the_stored_ones(numbers) -> None:
    stored = read_published(PAPER / "cc18").dropna(subset="n_train")
    stored = stored[stored.n_train == stored.groupby("dataset").n_train.transform("max")]
    medians = numbers[numbers.item == "Figure 2"]
    for row in medians[medians.n_train.isna() & medians.radius.isna()].itertuples():
        measure = "ece_by_edges" if "ece_by_edges" in row.metric else "error"
        at = stored[stored.metric == measure].pivot_table(
            index="dataset", columns="method", values="value"
        )
        method, parent = (
            at[row.method],
            at["random_forest" if re.search("forest|kdf", row.method) else "relu network"],
        )
        improvement = (parent - method) / parent
        expected = {
            f"{measure}, median of tables": method.median(),
            "error no higher than the parent's, tables": (method <= parent).sum(),
            "ece_by_edges lower than the parent's, tables": (method < parent).sum(),
            **{
                f"relative improvement in {measure}, {name} of tables": improvement.quantile(q)
                for name, q in QUARTILES.items()
            },
        }
        assert expected[row.metric] == pytest.approx(row.value, abs=ROUNDED), (
            row.metric,
            row.method,
        )


def test_far_confidence_is_that_of_the_stored_numbers(numbers) -> None:
    far = read_published(PAPER / "cc18").query("metric == 'mmc'")
    for row in numbers[(numbers.item == "Figure 2") & numbers.radius.notna()].itertuples():
        at = far[far.radius == row.radius].pivot_table(
            index="dataset", columns="method", values="value"
        )
        if row.metric.startswith("mmc, median"):
            assert at[row.method].median() == pytest.approx(row.value, abs=ROUNDED), row.method
        else:
            assert (at.random_forest - at[row.method] <= 0.02).sum() == row.value


def test_curves_of_tables_end_at_the_stored_numbers(numbers) -> None:
    stored = read_published(PAPER / "cc18")
    largest = stored.groupby("dataset").n_train.transform("max")
    ends = stored[(stored.n_train == largest) | ((stored.radius == 5) & largest.notna())]
    ends = ends[~ends.method.str.contains("euclidean|isotonic|sigmoid")]
    ids = {
        path.stem: result[1]
        for path in option_files(ROOT / "conf" / "dataset" / "cc18")
        if (result := re.search(r"^id: (\d+)", read_text(path), re.MULTILINE))
    }
    own = numbers[numbers.item == "Figures 5 to 8"].copy()
    own["dataset"] = own.dataset.map(ids)
    keys = ["dataset", "method", "metric"]
    both = ends.set_index(keys).value.to_frame().join(own.set_index(keys).value, rsuffix="_ours")
    assert len(both) == len(own) and both.notna().all(axis=None)
    # Written with four decimals.
    assert (both.value - both.value_ours).abs().max() <= 5.1e-5


def test_every_figure_is_drawn_or_names_what_is_missing() -> None:
    figures = pd.read_csv(PAPER / "figures.csv")
    assert list(figures.columns) == [
        "figure",
        "page",
        "shows",
        "drawn_by",
        "files",
        "caption",
        "missing",
    ]
    assert figures.figure.tolist() == list(range(1, 9)) and figures.page.is_monotonic_increasing
    assert (figures.drawn_by.notna() | figures.missing.notna()).all() and (
        figures.drawn_by.notna() == figures.files.notna()
    ).all()
    assert figures.shows.str.split().str.len().max() <= 15
    commands = figures.drawn_by.dropna().str.split()
    parts = {"experiments.p1.figures": FIGURES, "experiments.p1.cc18": PARTS}
    assert all(command[-2] == "--only" and command[-1] in parts[command[2]] for command in commands)
    captions = read_published(PAPER).query("item.str.endswith(', caption')").drop_duplicates("item")
    pages = dict(
        zip("Figure " + figures.figure.astype(str) + ", caption", figures.page, strict=True)
    )
    assert {row.item: row.page for row in captions.itertuples()} == {
        item: pages[item] for item in captions.item
    }


def test_every_claim_has_a_quote_and_a_rule() -> None:
    claims = pd.read_csv(PAPER / "claims.csv")
    assert (
        claims.claim.is_unique
        and claims.page.is_monotonic_increasing
        and claims.page.between(1, PAGES).all()
    )
    assert claims.quote.str.split().str.len().max() <= 40 and claims.note.notna().all()
