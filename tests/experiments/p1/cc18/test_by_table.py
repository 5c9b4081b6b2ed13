"""Numbers of single tables, where the curves of Figures 5 to 8 end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.common.published import read_published
from experiments.p1.cc18 import by_table
from experiments.p1.cc18.archive import by_version
from experiments.reproduction.papers import paper
from experiments.reproduction.verdicts import Measurement, cells_of

PAPER = paper("p1")

LETTER = {"openml": 6, "dataset": "letter"}


@pytest.fixture
def of_letter(record):
    """Numbers by version of runs on one table, whose largest sample has so many rows."""

    def make(learn=9000, errors=(0.05, 0.06, 0.1)):
        runs = [
            record(
                **LETTER,
                method=method,
                learn=size,
                seed=seed,
                values={"error": error + 0.2 * (size < learn)},
                of_parent={"error": 0.053 + seed / 1000},
            )
            for method in ("kdf_reference", "isotonic")
            for size in (100, learn)
            for seed, error in enumerate(errors)
        ]
        far = [record(**LETTER, method="kdf_figure1", learn=learn, seed=s) for s in range(3)]
        return by_version(runs, far)

    return make


def test_a_number_is_mean_and_deviation_at_the_largest_sample(of_letter):
    rows = by_table.numbers_by_table(of_letter())
    assert set(rows.method) == {"random_forest", "kdf geodesic"}
    errors = rows[(rows.metric == "error") & (rows.method == "kdf geodesic")]
    result = Measurement.from_rows(errors, "jackknife")
    assert result.n == 3
    assert (result.mean, result.sd) == pytest.approx((0.07, np.std([0.05, 0.06, 0.1], ddof=1)))


def test_confidence_is_of_the_last_radius_in_the_other_version(of_letter):
    rows = by_table.numbers_by_table(of_letter())
    far = rows[rows.metric == "mmc"]
    assert set(far.radius) == {5.0} and set(far.method) == {"random_forest", "kdf geodesic"}
    assert far.value.to_numpy() == pytest.approx(0.7)


def test_a_parts_of_a_table_are_not_compared(of_letter):
    assert len(by_table.numbers_by_table(of_letter(learn=9000)))
    assert by_table.numbers_by_table(of_letter(learn=5000)).empty


def test_numbers_fall_on_published_ones(of_letter):
    published = read_published(by_table.PAPER.parent).query("item == @by_table.BY_TABLE")
    cells = cells_of(PAPER, published, by_table.numbers_by_table(of_letter()))
    ran = [cell for cell in cells if cell.measured is not None]
    assert {cell.published["dataset"] for cell in ran} == {"letter"} and len(ran) == 4


def test_the_largest_share_of_a_split_has_a_hypergeometric_mean():
    """Of two classes of 500 rows, 600 rows stay: the count of one is hypergeometric."""
    y = np.repeat([0, 1], 500)
    counts = np.arange(601)
    weights = stats.hypergeom(1000, 500, 600).pmf(counts)
    larger = np.maximum(counts, 600 - counts) / 600
    mean = float(weights @ larger)
    sd = float(np.sqrt(weights @ (larger - mean) ** 2))
    shares = [by_table.largest_share(y, 400, seed) for seed in range(200)]
    # Four standard errors of a mean of 200.
    assert np.mean(shares) == pytest.approx(mean, abs=4 * sd / np.sqrt(200))
    assert mean > 0.505  # so that a stratified split, with a half each, would fail


def test_shares_are_variants_of_far_confidence(of_letter):
    numbers = of_letter()
    published = read_published(by_table.PAPER.parent).query("item == @by_table.BY_TABLE")
    share = pd.DataFrame(
        {
            "dataset": "letter",
            "metric": "mmc",
            "method": "kdf geodesic",
            "radius": 5.0,
            "seed": [None, 0, 1],
            "value": [0.042, 0.041, 0.043],
            "item": by_table.BY_TABLE,
            "ood": None,
            "variant": by_table.SHARE,
        }
    )
    measured = pd.concat([by_table.numbers_by_table(numbers), share], ignore_index=True)
    (cell,) = (
        cell
        for cell in cells_of(PAPER, published, measured)
        if cell.published["method"] == "kdf geodesic"
        and cell.published["metric"] == "mmc"
        and cell.published["dataset"] == "letter"
    )
    assert cell.variants[by_table.SHARE].mean == pytest.approx(0.042)
