"""Deviations of networks and of divisions of the rows, and how both are computed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.p4 import crime, divisions
from experiments.p4.stopping import configs_of, entries_behind
from kdgraph.runner import stages
from tests.openml_data import require_cached

DIVISIONS, NETWORKS = 200, 8


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Two methods whose networks deviate by .1 and .2, and whose divisions deviate by .3 and 0."""
    rng = np.random.default_rng(0)
    rows = []
    for division in range(DIVISIONS):
        for method, networks, of_division in (
            ("none", 0.1, rng.normal(0.6, 0.3)),
            ("histogram", 0.2, 0.5),
        ):
            for seed in range(NETWORKS):
                value = rng.normal(of_division, networks)
                both = {"division": division, "method": method, "seed": seed}
                rows.append(both | {"metric": "group_mce", "value": value})
                rows.append(both | {"metric": "ece", "value": 1 - value})
                rows.append(both | {"metric": "nll_top", "value": rng.uniform()})
    return pd.DataFrame(rows)


def test_deviations_of_networks_and_divisions_are_separated(frame) -> None:
    """With 200 divisions an estimated deviation is off by a twentieth of itself (one sigma)."""
    result = divisions.components(frame)
    np.testing.assert_allclose(result.networks, [0.1, 0.2], rtol=0.1)
    assert result.divisions["none"] == pytest.approx(0.3, rel=0.2)
    assert result.divisions["histogram"] < 0.05
    wide = frame[(frame.metric == "group_mce") & (frame.method == "none")]
    means = wide.groupby("division").value.mean()
    assert result["mean"]["none"] == pytest.approx(means.mean(), rel=1e-12)
    assert (result.least["none"], result.most["none"]) == (means.min(), means.max())


def test_correlations_are_within_a_division(frame) -> None:
    result = divisions.correlations(frame)
    np.testing.assert_allclose(result["ece"], -1, rtol=1e-12)
    assert result.shape == (DIVISIONS, 2) and abs(result["nll_top"].mean()) < 0.1
    text = divisions.table2(frame)
    assert "| ece | .102 | −1.00 | −1.00 to −1.00 | 0 of 200 |" in text


def test_tables_have_the_means_of_divisions_as_seeds(frame) -> None:
    rows = frame[frame.method == "histogram"]
    result = divisions.tables(rows)
    assert set(result.variant) == {divisions.TITLE}
    first = result[result["item"] == "Table 1"].sort_values("seed").value.to_numpy()
    expected = rows[rows.metric == "group_mce"].groupby("division").value.mean()
    np.testing.assert_allclose(first, expected, rtol=1e-12)
    assert len(result[result.metric == "ECE in percent"]) == DIVISIONS


def test_table_1_has_the_printed_deviation_beside_both(frame) -> None:
    text = divisions.table1(frame)
    assert "| none | .588 ± .107 | " in text and "| histogram | .515 ± .081 | " in text


def test_networks_of_a_division_share_rows_and_differ_in_weights() -> None:
    require_cached(42730)
    """Methods without an embedding; a run of the study with this seed has the same rows."""
    configs = configs_of(["none", "histogram"], crime.EXPERIMENT)
    for name, config in configs.items():
        parent = {**config.parent, "max_epochs": 1}
        configs[name] = type(config)(**{**vars(config), "parent": parent})
    result = pd.DataFrame(divisions.entries_of(configs, 3, 2))
    assert set(result.metric) == set(divisions.MEASURED) and set(result.division) == {3}
    wide = result[result.metric == "brier_top"].pivot(
        index="seed", columns="method", values="value"
    )
    assert wide.shape == (2, 2) and wide.none.nunique() == 2
    splits = stages.split(configs["none"].dataset, 3)
    parent = stages.fit(
        configs["none"].parent,
        splits.train,
        preprocess=configs["none"].preprocess,
        has_missing=splits.has_missing,
        seed=1,
        n_jobs=1,
    )
    wanted = {"brier_top": configs["none"].measures["test"]["brier_top"]}
    again = list(
        entries_behind(
            parent,
            splits,
            configs,
            1,
            {"test": wanted, "calibration": {}, "ood": {}, "grid": {}},
        )
    )
    assert [entry["value"] for entry in again] == wide.loc[1, ["none", "histogram"]].tolist()
