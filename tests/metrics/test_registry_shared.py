"""The cache of metrics: one computation for equal inputs, and none shared between others."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.metrics import TopLabel, cache_scope, score, tabulate
from kdgraph.metrics import local_calibration as errors
from kdgraph.metrics.registry import IdentityKey, scope_cache

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = RNG.integers(2, size=80)
TOP = TopLabel(RNG.integers(2, size=80), RNG.uniform(0.5, 1, 80), 2)
AVAILABLE_INPUTS = {"y": Y, "top_label": TOP, "X": X}
NUMBERS = ("lce", "mlce", "lce_n_eff")


@pytest.fixture
def computed_bandwidths(monkeypatch) -> list[list[float]]:
    """Record the bandwidths of every computation."""
    result = []

    def counting(*arrays, bandwidths, **options):
        result.append(list(bandwidths))
        return computed(*arrays, bandwidths=bandwidths, **options)

    computed = errors.local_errors
    monkeypatch.setattr(errors, "local_errors", counting)
    return result


def compute_all() -> list:
    tables = [tabulate(name, AVAILABLE_INPUTS) for name in ("lce_by_bandwidth", "lce_map")]
    return [*tables, *(score(name, AVAILABLE_INPUTS) for name in NUMBERS)]


def test_metrics_share_one_computation_with_equal_bits(computed_bandwidths) -> None:
    separate = compute_all()
    assert len(computed_bandwidths) == 5
    computed_bandwidths.clear()
    with cache_scope():
        assert compute_all() == separate
    assert len(computed_bandwidths) == 1 and 0.2 in computed_bandwidths[0]
    assert (
        compute_all() == separate and len(computed_bandwidths) == 6
    )  # the cache ends with its scope


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"X": X.copy()}, {}),
        ({"y": 1 - Y}, {}),
        ({"top_label": TopLabel(TOP.predicted, TOP.confidence[::-1], 2)}, {}),
        ({"top_label": TopLabel(1 - TOP.predicted, TOP.confidence)}, {}),
        ({}, {"bins": 10}),
        ({}, {"scale": "none"}),
        ({}, {"leave_one_out": True}),
        ({}, {"bandwidth": 0.3}),
    ],
    ids=["X", "y", "confidence", "predicted", "bins", "scale", "leave_one_out", "bandwidth"],
)
def test_cache_distinguishes_rows_models_and_options(computed_bandwidths, change, options) -> None:
    expected = score("mlce", AVAILABLE_INPUTS | change, options)
    with cache_scope():
        score("mlce", AVAILABLE_INPUTS)
        computed_bandwidths.clear()
        assert score("mlce", AVAILABLE_INPUTS | change, options) == expected
    assert len(computed_bandwidths) == 1


def test_only_new_bandwidths_are_computed(computed_bandwidths) -> None:
    with cache_scope():
        score("lce", AVAILABLE_INPUTS, {"bandwidth": 0.4})
        score("lce_n_eff", AVAILABLE_INPUTS, {"bandwidth": 0.4, "min_count": 3})
        tabulate("lce_by_bandwidth", AVAILABLE_INPUTS, {"bandwidths": [0.2, 0.4, 0.8]})
    assert computed_bandwidths == [[0.4], [0.2, 0.8]]


def test_nested_scope_has_a_separate_cache() -> None:
    with cache_scope():
        scope_cache("a")["k"] = 1
        with cache_scope():
            assert scope_cache("a") == {}
        assert scope_cache("a") == {"k": 1}
    assert scope_cache("a") == {}


def test_large_inputs_are_compared_by_identity() -> None:
    array = [1, 2]
    assert IdentityKey(array) == IdentityKey(array) and hash(IdentityKey(array)) == hash(
        IdentityKey(array)
    )
    assert IdentityKey(array) != IdentityKey([1, 2]) and IdentityKey(array) != array
