from __future__ import annotations

import pytest

from kdgraph.results.estimate import RunTimes


def record(dataset: str, method: str, from_store: tuple[str, ...] = (), **seconds: float) -> dict:
    return {
        "dataset": {"name": dataset},
        "method": method,
        "seconds": seconds,
        "from_store": list(from_store),
    }


RECORDS = [
    record("wine", "kdf", fit=2.0, calibrate=1.0),
    record("wine", "kdf", fit=4.0, calibrate=1.0),
    record("iris", "kdf", fit=1.0, calibrate=1.0),
    record("iris", "isotonic", ("fit",), fit=1.0, calibrate=0.5),
]


@pytest.mark.parametrize(
    ("dataset", "method", "seconds"),
    [
        ("wine", "kdf", 4.0),  # the mean of its like
        ("iris", "isotonic", 0.5),  # what was in the store cost nothing
        ("spiral", "kdf", 10 / 3),  # of its method on other data
        ("wine", "sigmoid", 4.0),  # of other methods on its data
        ("spiral", "sigmoid", None),
    ],
)
def test_the_nearest_that_is_known_is_expected(dataset, method, seconds):
    times = RunTimes.of(RECORDS)
    assert times.expected(dataset, method) == (None if seconds is None else pytest.approx(seconds))
    assert times.n_runs == 4
