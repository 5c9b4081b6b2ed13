"""Runs with different settings are distinguished."""

from __future__ import annotations

from typing import Any

from experiments.common.settings import Values, by_size, differing_settings


def run(n_train: int | None, result: int, **config: Any) -> dict:
    rows = {"n_train": result, "n_calibration": 10, "n_test": 1}
    return {
        "dataset": rows,
        "config": {"dataset": {"name": "a", "n_train": n_train, "scale": "none"}, **config},
    }


def test_runs_are_grouped_by_their_configured_rows() -> None:
    large, each, other = run(4000, 4000), run(None, 98), run(None, 101)
    assert by_size([large, each, other]) == {
        "98 to 101 training rows, 10 calibration rows, 1 test row": [each, other],
        "4,000 training rows, 10 calibration rows, 1 test row": [large],
    }
    full = run(5000, 4000)
    assert by_size([large, full]) == {
        "4,000 training rows, 10 calibration rows, 1 test row": [large, full]
    }, "none is lost"
    assert by_size([]) == {}


def test_differing_settings_of_runs_of_one_line() -> None:
    records = [
        run(10, 10, parent={"name": "p", "max_epochs": 3, "device": "cuda"}, seed=0),
        run(10, 10, parent={"name": "p", "max_epochs": 5, "device": "cpu"}, seed=1),
        run(
            20,
            20,
            parent={"name": "p", "max_epochs": 5},
            detector={"encoder": {"k": 4}},
            metrics={"test": {}},
        ),
        run(20, 20, parent={"name": "q"}),
    ]
    assert differing_settings(records, ["a"] * 3 + ["b"]) == [
        "parent.max_epochs=3",
        "parent.max_epochs=5",
        "parent.max_epochs=5, detector.encoder.k=4",
        "",
    ]
    assert differing_settings(records, ["a"] * 4, ["detector"]) == [
        "",
        "",
        "detector.encoder.k=4",
        "",
    ]
    assert differing_settings(records, range(4)) == [""] * 4


def test_values_are_keys_positions_or_derived() -> None:
    values = Values({"config": {"parent": {"hidden": [5, 3]}}, "parent": "mlp"})
    assert values["config.parent.hidden.0"] == 5 and values["config.parent.hidden.-1"] == 3
    assert values["config.parent.k"] is None and values["config.gate.k"] is None
    assert values["layers of network"] == 2 and values["layers are alike"] is False
    assert values.meet({"parent": "mlp", "config.parent.hidden": True, "layers are alike": False})
    assert not values.meet({"parent": "mlp", "config.parent.k": True})
    assert not values.meet({"parent": "cnn"})
