"""Table 2 by the width of the network."""

from __future__ import annotations

import pytest

from experiments.p5 import width
from experiments.p5.table2 import by_share, named

LOCAL = "mc_dropout_50_local_radius"
PRINTED = {"smis": 0.874, "mse_y": 75.06, "coverage": 0.99}


def record(units: int, seed: int, epochs: int = 15, method: str = LOCAL) -> dict:
    """MC dropout has an sMIS that comes nearer to .874 by half with each doubling from 64 units on,
    and an MSE that is as far off with 128 units as with 64.
    """
    near = 64 / units
    values = {"smis": PRINTED["smis"] + near, "mse_y": PRINTED["mse_y"] + 9, "coverage": 0.95}
    entries = [
        {"of": of, "on": "test", "metric": metric, "value": value + seed / 1000}
        for of in ("parent", "calibrated")
        for metric, value in values.items()
    ]
    parent = {"hidden": [units, units], "max_epochs": epochs, "dropout": 0.5, "masks": 100}
    return {
        "method": "mc_dropout-local_pit",
        "parent": "mc_dropout",
        "seed": seed,
        "overrides": [f"method=paper/p5/table2/{method}", f"seed={seed}"],
        "config": {"parent": parent},
        "metrics": entries,
    }


@pytest.fixture(scope="module")
def frame():
    runs = [record(units, seed) for units in (64, 128, 256) for seed in range(2)]
    return width.by_width([*runs, record(512, 0), record(512, 0, epochs=30)])


def test_a_run_of_another_size_has_the_row_of_its_preset() -> None:
    """Its label is that of its components, as no preset has this size."""
    made = record(64, 0)
    assert named(made)["method"] == LOCAL and made["method"] == "mc_dropout-local_pit"
    assert named({"method": "wsir_50"}) == {"method": "wsir_50"}
    assert set(by_share([made]).method) == {"mc_dropout", "mc_dropout_local_radius"}


def test_another_share_of_dropout_is_left_out(frame) -> None:
    other = record(64, 0)
    other["config"]["parent"]["dropout"] = 0.05
    assert width.by_width([other]).empty and not frame.empty


def test_table_has_a_column_a_width_and_a_part_a_training(frame) -> None:
    text = width.table(frame)
    assert (
        "| 15 epochs | metric | 64 units (2) | 128 units (2) | 256 units (2) | 512 units (1) |"
        in text
    )
    assert "| 30 epochs | metric | 512 units (1) | published |" in text
    assert (
        "| MC dropout | sMIS | 1.875 ± .001 | 1.375 ± .001 | 1.125 ± .001 | .999 | .874 |" in text
    )


def test_claims_hold_for_numbers_nearer_with_each_width(frame) -> None:
    tested = {claim.text: claim for claim in width.claims(frame)}
    assert not any("30 epochs" in text for text in tested)
    nearer = tested[
        "MC dropout, 15 epochs: with each wider network the sMIS is nearer to the printed .874"
    ]
    assert nearer.holds and nearer.measured.endswith("512 units .999, 1 seed")
    text = "MC dropout, 15 epochs: with each wider network the MSE is nearer to the printed 75.1"
    assert not tested[text].holds


def test_without_a_run_there_is_a_sentence() -> None:
    expected = "no run of the networks on Rosenbrock's function is there"
    assert width.compare_with_published([]) == expected
