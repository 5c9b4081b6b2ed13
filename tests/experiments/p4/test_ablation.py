"""How a setting of LoRe is chosen, and what the tables say of it, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.p4.ablation import (
    HISTOGRAM,
    LOOKED_AT,
    chosen,
    fewest_bins,
    fixed_table,
    least_brier,
    most_rows,
    rules_table,
)
from kdgraph.calibration.local.lore import _BinTrial, _select_setting

NAME, BINS, WIDEST = HISTOGRAM


def setting(
    seed: int,
    bins: int,
    bandwidth: float,
    chosen_by: float,
    n_eff: float,
    worst: float,
    name: str = NAME,
) -> dict:
    score = {"chosen_by": chosen_by, "standard_error": 0.01, "n_eff": n_eff}
    return {
        "seed": seed,
        "map": name,
        "bins": bins,
        "bandwidth": bandwidth,
        **score,
        "group_mce": worst,
        "brier": chosen_by,
    }


def settings(seed: int) -> list[dict]:
    """The least score is .20; three more are within .01 of it, of which one has no bins and another
    the most rows.
    """
    return [
        setting(seed, 1, 0.1, 0.205, 20, 0.4),
        setting(seed, 1, 0.2, 0.209, 30, 0.3),
        setting(seed, 1, WIDEST, 0.220, 500, 0.1),
        setting(seed, 5, 0.1, 0.200, 10, 0.6),
        setting(seed, BINS, WIDEST, 0.210, 100, 0.5 + seed / 500),
    ]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame([row for seed in range(LOOKED_AT + 4) for row in settings(seed)])


@pytest.mark.parametrize(
    ("rule", "bins", "bandwidth"),
    [(least_brier, 5, 0.1), (most_rows, BINS, WIDEST), (fewest_bins, 1, 0.2)],
)
def test_each_rule_chooses_its_setting(frame, rule, bins, bandwidth):
    result = chosen(frame, rule)
    assert result.seed.tolist() == list(range(LOOKED_AT + 4))
    assert (result.bins == bins).all() and (result.bandwidth == bandwidth).all()


@pytest.mark.parametrize(("simplest", "rule"), [(True, fewest_bins), (False, least_brier)])
@pytest.mark.parametrize("seed", range(3))
def test_lore_follows_the_rules(seed, simplest, rule):
    rng = np.random.default_rng(seed)
    gammas, bins, n = (3.2, 0.4, 0.1), (1, 5, 15), 40
    tried = [
        _BinTrial(
            b,
            gammas,
            rng.uniform(size=(3, n)) + rng.normal(scale=0.05, size=(3, 1)),
            rng.uniform(5, 50, size=3),
        )
        for b in bins
    ]
    table = pd.DataFrame(
        setting(0, each.bins, gamma, squared.mean(), n_eff, 0.0)
        | {"standard_error": squared.std() / np.sqrt(n)}
        for each in tried
        for gamma, squared, n_eff in zip(gammas, each.error, each.n_eff, strict=True)
    )
    result = table.loc[rule(table)]
    assert (result.bandwidth, result.bins) == _select_setting(tried, np.ones(n), simplest=simplest)


def test_setting_is_compared_with_histogram_binning_by_seed(
    frame,
):
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in rules_table(frame).splitlines()
        if line.startswith("|")
    ]
    (simplest,) = [row for row in lines if row[0] == NAME and "simplest" in row[1]]
    assert simplest[2] == ".300" and simplest[5] == "−.223"  # .3 less the mean of .5 to .546
    assert (simplest[8], simplest[13]) == ("24 of 24", "4 of 4")
    (itself,) = [row for row in lines if row[0] == NAME and "most rows" in row[1]]
    assert itself[5:10] == ["+.000", "+.000 to +.000", "+.000 to +.000", "0 of 24", "1"]
    assert rules_table(frame).endswith(
        "Histogram binning: .523 ± .014; one confidence for all rows: .100 ± .000."
    )


def test_bandwidths_with_a_column_are_those_of_the_runs(frame):
    (row,) = [line for line in fixed_table(frame).splitlines() if f"{NAME} | 1 |" in line]
    assert [cell.strip() for cell in row.strip("|").split("|")][2:6] == [
        ".400",
        ".300",
        "–",
        ".400",
    ]
