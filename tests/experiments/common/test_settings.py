"""Runs whose settings are not equal are told apart."""

from __future__ import annotations

from typing import Any

from experiments.common.settings import by_size, differing_settings


def run(n_train: int | None, found: int, **config: Any) -> dict:
    rows = {"n_train": found, "n_calibration": 10, "n_test": 1}
    return {
        "dataset": rows,
        "config": {"dataset": {"name": "a", "n_train": n_train, "scale": "none"}, **config},
    }


def test_runs_are_grouped_by_their_configured_rows() -> None:
    large, one, other = run(4000, 4000), run(None, 98), run(None, 101)
    assert by_size([large, one, other]) == {
        "98 to 101 training rows, 10 calibration rows, 1 test row": [one, other],
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
