"""Tables of a setting: what stands in them, beside what was published, against scipy's and numpy's
own numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.p4 import crime
from experiments.p4.setting import by_group_and_overall, correlations, entries, paired

SEEDS = 6
METHODS = ["none", "histogram", "lore_pca_spread-as_in_paper"]
METRICS = ["group_mce", "group_mce_10", "ece", "mce", "nll_top", "brier_top"]


def record(
    method: str,
    seed: int,
    dataset: str = "crime",
    metrics: list[str] = METRICS,
    patience: int | None = 10,
) -> dict:
    """Numbers are drawn; those of the parent are the same in every record of a seed. Rows of
    calibration have others.
    """
    own, parents = (
        np.random.default_rng((seed, len(name))) for name in (method, "the parent's own")
    )
    test = [
        {"of": of, "on": "test", "metric": name, "value": float(rng.uniform(0.1, 0.9))}
        for of, rng in (("parent", parents), ("calibrated", parents if method == "none" else own))
        for name in metrics
    ]
    parent = {"stop_on": "validation_accuracy", "patience": patience, "max_epochs": 10}
    rows = {"n_train": 994, "n_calibration": 500, "n_test": 500}
    held = [entry | {"on": "calibration", "value": 7.0} for entry in test]
    return {
        "method": method,
        "seed": seed,
        "dataset": {"name": dataset, **rows},
        "config": {"parent": parent},
        "metrics": [*held, *test],
    }


@pytest.fixture(scope="module")
def records():
    return [record(method, seed) for method in METHODS for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def frame(records):
    return pd.DataFrame(entries(records))


def rows_of(table: str) -> dict[str, list[str]]:
    """First cell → the others, of a table of markdown."""
    cells = [
        [cell.strip() for cell in each.strip("|").split("|")]
        for each in table.splitlines()
        if each.startswith("|")
    ]
    return {row[0]: row[1:] for row in cells[2:]}


def values(frame: pd.DataFrame, method: str, metric: str) -> np.ndarray:
    return (
        frame[(frame.method == method) & (frame.metric == metric)]
        .sort_values("seed")
        .value.to_numpy()
    )


def test_parent_with_mmce_is_not_the_parent_without_a_method() -> None:
    trained = record("mmce", 0)
    trained["config"]["parent"]["loss"] = "mmce"
    assert {row["method"] for row in entries([trained])} == {"mmce"}
    assert {row["method"] for row in entries([record("isotonic", 0)])} == {"none", "isotonic"}


def test_there_is_one_number_of_each_on_test_rows(frame) -> None:
    assert set(frame.method) == {"none", "histogram", "lore_pca_spread"}
    assert (
        len(frame)
        == 3 * SEEDS * len(METRICS)
        == len(frame.drop_duplicates(["method", "seed", "metric"]))
    )
    assert frame.value.max() < 1


def test_measured_numbers_have_the_published_keys(frame) -> None:
    rows = rows_of(by_group_and_overall(frame, crime.SETTING))
    assert list(rows) == ["none", "histogram", "lore_pca_spread"]
    result = values(frame, "histogram", "group_mce")
    assert rows["histogram"][0] == f"{result.mean():.3f} ± {result.std(ddof=1):.3f}".replace(
        "0.", "."
    )
    assert rows["histogram"][1] == ".515 ± .081"
    ece = 100 * values(frame, "lore_pca_spread", "ece")
    assert rows["lore_pca_spread"][3:5] == [
        f"{ece.mean():.1f} ± {ece.std(ddof=1):.1f}",
        "4.5 ± 1.4",
    ]
    assert rows["none"][6] == ".96 ± .25"


def test_pairs_are_tested_seed_by_seed(frame) -> None:
    table = paired(frame, crime.SETTING, 0.4)
    lines = [line for line in table.splitlines()[2:] if line.startswith("|")]
    against = {
        row[0]: row[1:]
        for row in ([c.strip() for c in each.strip("|").split("|")][1:] for each in lines)
    }
    assert set(against) == {"none", "histogram"}
    p = []
    for method, cells in against.items():
        first, second = (
            values(frame, "lore_pca_spread", "group_mce"),
            values(frame, method, "group_mce"),
        )
        interval = stats.ttest_rel(first, second).confidence_interval(0.95)
        bounds = [float(part.replace("−", "-")) for part in cells[1].split(" to ")]
        np.testing.assert_allclose(
            bounds, [interval.low, interval.high], atol=6e-4
        )  # three digits are printed
        wider = [float(part.replace("−", "-")) for part in cells[2].split(" to ")]
        np.testing.assert_allclose(
            np.ptp(wider), np.ptp(bounds) * np.sqrt(1 + SEEDS * 0.4), atol=2e-3
        )
        assert cells[3] == f"{(first < second).sum()} of {SEEDS}"
        p.append(stats.wilcoxon(first, second).pvalue)
        assert float(cells[4]) == pytest.approx(p[-1], rel=0.05)  # and two of p
    corrected = [float(cells[5]) for cells in against.values()]
    expected = max(2 * min(p), *p), min(1.0, 2 * min(p))
    np.testing.assert_allclose(
        sorted(corrected, reverse=True), [min(1.0, expected[0]), expected[1]], rtol=0.05
    )


def test_correlations_are_over_runs_and_within_methods(frame) -> None:
    rows = rows_of(correlations(frame, crime.SETTING))
    assert list(rows) == [
        "ECE",
        "MCE",
        "NLL",
        "Brier",
        "max group MCE over cells of ten rows or more",
    ]
    methods = ["none", "histogram", "lore_pca_spread"]
    first, second = (
        np.stack([values(frame, method, metric) for method in methods])
        for metric in ("mce", "group_mce")
    )
    r = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    within = np.corrcoef(
        *((each - each.mean(axis=1, keepdims=True)).ravel() for each in (first, second))
    )[0, 1]
    assert float(rows["MCE"][0].replace("−", "-")) == pytest.approx(r, abs=0.006)
    assert float(rows["MCE"][2].replace("−", "-")) == pytest.approx(within, abs=0.006)
    low, high = (float(part.replace("−", "-")) for part in rows["MCE"][1].split(" to "))
    assert low < r < high
    assert rows["MCE"][3] == ".233"
    assert rows["MCE"][4:] == [
        rows["MCE"][0],
        rows["MCE"][2],
    ]  # all of these methods are the paper's


def test_methods_not_in_the_paper_have_a_column_of_their_own(records) -> None:
    variants = pd.DataFrame(
        entries([*records, *(record("lore_free", seed) for seed in range(SEEDS))])
    )
    alone, together = (
        rows_of(correlations(pd.DataFrame(each), crime.SETTING))["ECE"]
        for each in (pd.DataFrame(entries(records)), variants)
    )
    assert alone[:4] == together[:4] and alone[4:] != together[4:]


def test_methods_without_runs_show_published_numbers_only(frame) -> None:
    some = replace(crime.SETTING, not_run={"lore_tsne_spread": "LoRe t-SNE"})
    row = rows_of(by_group_and_overall(frame, some))["lore_tsne_spread, not run"]
    assert row == ["–", ".351 ± .084", "–", "–", "3.5 ± 1.1", "–", ".42 ± .02", "–", ".13 ± .01"]


def test_the_heading_says_how_the_network_was_trained(records) -> None:
    assert crime.compare_with_published(records).startswith(
        "## Luo et al., setting 1: 6 seeds, network stopped on validation accuracy, patience 10\n"
    )
    long = [record("none", 0, patience=None)]
    assert crime.compare_with_published(long).startswith(
        "## Luo et al., setting 1: 1 seeds, network trained for 10 epochs\n"
    )
    assert crime.compare_with_published([]) == "no run of Communities and Crime is there"
