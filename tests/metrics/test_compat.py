"""Rules of binning against the libraries that they are named after, on predictions where the
libraries disagree.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.errors import ParameterError
from kdgraph.metrics import ece, reliability_bins
from kdgraph.metrics.compat import RULES, bin_edges, bin_of, intervals_of
from tests.metrics.samples import two_classes

TOLERANCE = {"torchmetrics": 5e-6}
"""It adds 10,000 rows in single precision: 3e-6 off. The others differ from us by the order of
adding: 1e-11.
"""

# What each library says of `y, proba = two_classes(name, bins)`, with c = proba[:, 0], right = (y
# == 0).astype(int), t = torch.from_numpy:
#   right             uncertainty-calibration 0.1.4  get_ece(proba, y, num_bins=bins)
#   netcal            netcal 1.4.0                   ECE(bins).measure(c, right)
# torchmetrics      torchmetrics 1.9.0             multiclass_calibration_error(t(proba), t(y),
# num_classes=2, n_bins=bins)
# torchmetrics_f64                                 binary_calibration_error(t(c), t(right),
# n_bins=bins)
#   relplot           relplot 1.0.3                  metrics.binnedECE(c, right, bins)
# mapie             MAPIE 1.6.0                    expected_calibration_error(right, c,
# num_bins=bins, split_strategy="uniform")
# with numpy 2.4.6, torch 2.13.0, scikit-learn 1.9.1.
LIBRARIES = ["right", "netcal", "torchmetrics", "torchmetrics_f64", "relplot", "mapie"]
THEY_SAY = {
    ("continuous", 15): [
        0.07561598918429968,
        0.07561598918429963,
        0.07561609148979187,
        0.07561598918429961,
        0.07561598918429967,
        0.038648408204081185,
    ],
    ("votes", 10): [
        0.06418799999999994,
        0.058167999999995904,
        0.051107678562402725,
        0.0511079999999941,
        0.058168,
        0.019563999999999946,
    ],
    ("votes", 15): [
        0.07584799999999997,
        0.07032800000000398,
        0.07032645493745804,
        0.07032800000000372,
        0.07032799999999995,
        0.03835600000000003,
    ],
    ("votes", 25): [
        0.06957800000000003,
        0.03807400000000016,
        0.04045011103153229,
        0.03807399999999991,
        0.038073999999999976,
        0.029702000000000044,
    ],
    ("atom", 15): [
        0.0157208300798255,
        0.01572083007982783,
        0.06087854132056236,
        0.06087916992017574,
        0.060879169920174364,
        0.0157208300798255,
    ],
}


@pytest.mark.parametrize("edges", LIBRARIES)
@pytest.mark.parametrize(("name", "bins"), THEY_SAY)
def test_a_rule_gives_the_number_of_its_library(name: str, bins: int, edges) -> None:
    y, proba = two_classes(name, bins)
    theirs = dict(zip(LIBRARIES, THEY_SAY[name, bins], strict=True))
    assert ece(y, proba, bins=bins, edges=edges) == pytest.approx(
        theirs[edges], abs=TOLERANCE.get(edges, 1e-11)
    )


def test_no_two_rules_are_the_same() -> None:
    """On one of the predictions or another: so none of the rules could stand for another in the
    test above.
    """
    found = {
        rule: [ece(*two_classes(name, bins), bins=bins, edges=rule) for name, bins in THEY_SAY]
        for rule in RULES
    }  # type: ignore[arg-type]
    assert len({tuple(np.round(values, 5)) for values in found.values()}) == len(RULES)


def test_left_is_right_seen_from_the_other_end() -> None:
    votes = np.arange(101) / 100
    for bins in (5, 10, 15, 20, 25):
        left = [
            sum(m * 100 <= v * bins < (m + 1) * 100 for v in range(101)) + (m == bins - 1)
            for m in range(bins)
        ]
        assert reliability_bins(votes, np.ones(101), bins=bins, edges="left").count.tolist() == left
        assert (
            reliability_bins(votes, np.ones(101), bins=bins, edges="right").count.tolist()
            == left[::-1]
        )


@pytest.mark.parametrize(
    ("edges", "count"),
    [
        ("right", [2, 1, 0, 3]),
        ("left", [2, 1, 0, 3]),
        ("netcal", [2, 1, 0, 3]),
        ("mapie", [1, 2, 0, 3]),
    ],
)
def test_who_has_0_and_1(edges, count: list[int]) -> None:
    found = reliability_bins(
        np.array([0.0, 0.01, 0.3, 0.99, 1.0, 1.0]), np.ones(6), bins=4, edges=edges
    )
    assert found.count.tolist() == count


@pytest.mark.parametrize("edges", ["torchmetrics", "torchmetrics_f64", "relplot"])
def test_1_is_alone(edges) -> None:
    found = reliability_bins(
        np.array([0.0, 0.9999, 1.0, 1.0]), np.array([0, 1, 0, 1]), bins=4, edges=edges
    )
    assert found.count.tolist() == [1, 0, 0, 1, 2]
    assert (found.lower[-1], found.upper[-1], found.accuracy[-1]) == (1, 1, 0.5)


@pytest.mark.parametrize(
    ("rule", "dtype"), [("torchmetrics", torch.float32), ("torchmetrics_f64", torch.float64)]
)
def test_edges_of_torchmetrics_are_those_of_torch(rule: str, dtype: torch.dtype) -> None:
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("torch rounds twice on this processor")
    for bins in (*range(1, 60), 100, 255):
        np.testing.assert_array_equal(
            RULES[rule](bins).edges[:-1], torch.linspace(0, 1, bins + 1, dtype=dtype).numpy()
        )


@given(st.integers(1, 200), st.integers(1, 500))
@settings(max_examples=100, deadline=None)
def test_relplot_takes_the_integer_part(bins: int, trees: int) -> None:
    votes = np.arange(trees + 1) / trees
    index = intervals_of(votes, bins, edges="relplot").index(votes)
    np.testing.assert_array_equal(index, (votes / (1 / bins)).astype(int))  # its own formula


@given(st.sampled_from(sorted(RULES)), st.integers(2, 60), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_bins_hold_what_they_say(edges, bins: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.random(20), rng.integers(101, size=20) / 100, np.arange(bins + 1) / bins]
    )
    found = intervals_of(values, bins, edges=edges)
    index = found.index(values)
    seen = values.astype(found.edges.dtype)
    assert index.min() >= 0 and index.max() < len(found) and (np.diff(found.edges) >= 0).all()
    assert ((found.edges[index] <= seen) & (seen <= found.edges[index + 1])).all()
    inside = (
        (found.edges[index] < seen) if found.closed == "right" else (seen < found.edges[index + 1])
    )
    assert (inside | (seen == (0 if found.closed == "right" else 1))).all()


def test_edges_alone_are_ours() -> None:
    confidence = np.array([0.5, 0.6, 0.7, 0.7])
    np.testing.assert_array_equal(bin_edges(confidence, 5, "uniform"), [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert bin_of(confidence, np.array([0, 0.5, 0.7, 1.0])).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"edges": "both"},
            "edges must be one of right, left, netcal, torchmetrics, torchmetrics_f64, relplot, mapie, got 'both'",
        ),
        (
            {"edges": "left", "strategy": "mass"},
            "edges must be right with strategy mass, got 'left'; other rules are of bins of equal width",
        ),
        (
            {"edges": "mapie", "bins": 1},
            "bins must be at least 2 with edges mapie, got 1: they count edges, and make one interval fewer",
        ),
    ],
)
def test_rules_that_there_are_not(options: dict, message: str) -> None:
    with pytest.raises(ParameterError) as raised:
        ece([0], [[1.0]], **options)
    assert str(raised.value) == message
