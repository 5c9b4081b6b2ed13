"""The weight of MMCE: which one calibration rows choose, and what the tables say of it."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from experiments.p4 import crime, mmce
from experiments.p4.stopping import configs_of
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.runner import stages
from tests.openml_data import require_cached


@pytest.fixture
def frame() -> pd.DataFrame:
    """Calibration rows prefer 8 in seed 0 and 2 in seed 1; test rows always prefer 16."""
    least = {0: 8.0, 1: 2.0}
    rows = []
    for seed, best in least.items():
        for weight in mmce.WEIGHTS:
            for on, good in (("calibration", best), ("test", 16.0)):
                value = 0.1 if weight == good else 0.2 + weight / 100
                rows += [
                    {"on": on, "weight": weight, "seed": seed, "method": "mmce"}
                    | {"metric": metric, "value": value}
                    for metric in mmce.SHOWN
                ]
    return pd.DataFrame(rows)


def test_calibration_rows_choose_the_weight_and_test_rows_do_not(frame) -> None:
    result = mmce.chosen(frame)
    weights = result.drop_duplicates("seed").set_index("seed").weight
    assert weights.to_dict() == {0: 8.0, 1: 2.0} and set(result.on) == {"test"}
    other = frame.assign(value=frame.value.where(frame.on != "test", 1 - frame.value))
    assert mmce.chosen(other).weight.tolist() == result.weight.tolist()


def test_the_chosen_weight_is_a_variant_of_tables_1_and_3(frame) -> None:
    result = mmce.tables(frame)
    assert set(result.variant) == {mmce.CHOSEN} and set(result.method) == {"mmce"}
    ece = result[result.metric == "ECE in percent"].sort_values("seed")
    assert ece.value.tolist() == pytest.approx([28.0, 22.0], rel=1e-12)
    assert set(result["item"]) == {"Table 1", "Table 3"} and len(result) == 2 * 4


def test_the_table_has_all_weights_and_the_published_numbers(frame) -> None:
    lines = mmce.table(frame).splitlines()
    assert len(lines) == 2 + 2 * len(mmce.WEIGHTS) + 2
    assert lines[-2].startswith("| chosen (2 in 1, 8 in 1) | test | 25.0 ± 4.2 |")
    assert lines[-1] == "| published | test | 4.4 | – | .43 | .14 | .526 |"


def test_numbers_are_those_of_the_network_with_that_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    require_cached(42730)
    monkeypatch.setattr(mmce, "WEIGHTS", (4.0,))
    config = configs_of(["mmce"], crime.EXPERIMENT)["mmce"]
    short = replace(config, parent={**config.parent, "max_epochs": 2})
    result = pd.DataFrame(mmce.entries_of(short, 5))
    splits = stages.split(short.dataset, 5)
    network = stages.fit(
        {**short.parent, "mmce_weight": [4.0]},
        splits.train,
        preprocess=short.preprocess,
        has_missing=splits.has_missing,
        seed=5,
        n_jobs=1,
    )
    rows = splits.calibration
    expected = nll_top(rows.y, TopLabel.from_proba(network.predict_proba(rows.X)), clip=1e-12)
    own = result[(result.on == "calibration") & (result.metric == "nll_top")].value.item()
    assert own == float(expected) and len(result) == 2 * len(mmce.SHOWN)
