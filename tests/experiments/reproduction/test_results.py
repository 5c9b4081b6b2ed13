"""The published page of this repository: its numbers are those of the stored measurements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.common.published import ABOUT, read_published
from experiments.p1.cc18 import archive as p1_archive
from experiments.p1.cc18.published import figure2_numbers
from experiments.reproduction.papers import NAMES, paper
from experiments.reproduction.stored_page import read_stored_page
from experiments.reproduction.verdicts import Measurement, cells_of

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.fixture(scope="module")
def cells() -> pd.DataFrame:
    return pd.read_csv(RESULTS / "cells.csv", low_memory=False)


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    return pd.read_csv(RESULTS / "measurements.csv", low_memory=False)


@pytest.mark.slow
def test_random_cells_follow_from_stored_measurements(cells, measured) -> None:
    """Twenty cells with measurements, of any paper, are computed again from the values by seed."""
    rng = np.random.default_rng()  # another twenty each time
    by_paper = []
    for name in NAMES:
        of, published = paper(name), read_published(paper(name).folder)
        keys = [column for column in published if column not in ABOUT | of.about]
        mine = measured[measured.paper == name].reindex(columns=[*measured, *keys])
        mine = mine.loc[:, ~mine.columns.duplicated()]
        joined = {item: study.joined for study in of.studies for item in study.items}
        if mine.empty:
            continue
        shown = cells[(cells.paper == name) & (cells.n > 0)].reindex(columns=[*cells, *keys])
        shown = shown.loc[:, ~shown.columns.duplicated()]
        merged = dict(list(mine.groupby([*keys, "variant"], dropna=False, sort=False)))
        for key, rows in shown.groupby([*keys, "variant"], dropna=False, sort=False):
            same = [result for other, result in merged.items() if _same(key, other)]
            if same:
                assert len(rows) == len(same) == 1
                by_paper.append((rows.iloc[0], same[0], joined.get(key[0], "mean")))
    assert len(by_paper) >= 20
    for i in rng.choice(len(by_paper), 20, replace=False):
        cell, rows, join = by_paper[i]
        again = Measurement.from_rows(rows, join)
        # Both are read from decimal text, which has all digits of a double.
        assert (again.mean, again.n) == (pytest.approx(cell.ours, rel=1e-12, abs=1e-15), cell.n)
        assert again.sd == pytest.approx(cell.sd, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.slow
def test_figure_2_of_p1_follows_from_its_archive(measured) -> None:
    """Statistics of many tables are computed again from the numbers of each table and seed."""
    archive = p1_archive.read(RESULTS / p1_archive.archive_path(Path()).name)
    keys = ["metric", "method", "n_train", "radius", "variant", "seed"]
    again = figure2_numbers(archive).replace({"variant": {"": np.nan}})
    stored = measured[(measured.paper == "p1") & (measured["item"] == "Figure 2")]
    both = stored.merge(again, on=keys, suffixes=("", "_again"), how="outer", indicator=True)
    assert (both._merge == "both").all() and len(both) > 200
    for name in ("value", "comparable"):
        assert both[f"{name}_again"].to_numpy() == pytest.approx(
            both[name].to_numpy(), rel=1e-9, abs=1e-12, nan_ok=True
        )


def _same(each: tuple, other: tuple) -> bool:
    """Return whether two keys are alike; a missing part is none."""
    return all((a == b) or (pd.isna(a) and pd.isna(b)) for a, b in zip(each, other, strict=True))


def test_stored_verdicts_follow_from_the_rules(cells) -> None:
    """What the page has is what the rules have of the stored means, deviations and seeds."""
    page = read_stored_page(RESULTS, "workstation")
    for name in NAMES:
        of, published = paper(name), read_published(paper(name).folder)
        again = cells_of(of, published, pd.DataFrame(), None, page.measurements(of, published))
        stored = cells[(cells.paper == name) & cells.variant.isna()]
        # The page has settings after the other numbers of an item, so both are sorted by it.
        tested = [
            (cell.published["item"], cell.verdict) for cell in again if cell.measured is not None
        ]
        shown = stored[stored.n > 0]
        assert sorted(tested) == sorted(zip(shown["item"], shown.verdict, strict=True)), name


def test_matches_have_the_same_sign_and_a_narrow_interval(cells) -> None:
    judged = cells[(cells.verdict == "match") & (cells.weak == False)]  # noqa: E712
    target = judged.comparable.fillna(judged.value)
    rounding = 10.0**-judged.decimals
    assert len(judged) > 400 and (judged.ours * target >= -rounding * target.abs()).all()
