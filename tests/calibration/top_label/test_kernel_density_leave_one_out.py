"""Leave-one-out NLL against a loop over rows, and its best bandwidth against a full scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.calibration.top_label.kernel_density import leave_one_out_bandwidth, leave_one_out_nll
from kdgraph.calibration.top_label.kernel_sums import Boundary, KernelSum


def draw_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.beta(5, 1.3, size=n)
    correct = rng.random(n) < score**2
    correct[:2] = [True, False]
    return score, correct, rng.integers(1, 3, size=n).astype(float)


def kernel_sums_of(
    score, correct, weight, boundary: Boundary = "none"
) -> tuple[KernelSum, KernelSum]:
    right, wrong = (
        KernelSum.from_scores(score[mask], weight[mask], boundary) for mask in (correct, ~correct)
    )
    return right, wrong


def nll_by_loops(score, correct, weight, bandwidth: float, boundary: str) -> float:
    """Return the mean NLL of each row given the others, by a loop."""
    images = [score] if boundary == "none" else [score, -score, 2 - score]
    losses = []
    for i in range(len(score)):
        others = np.arange(len(score)) != i
        kernel = (
            sum(np.exp(-(((score[i] - image) / bandwidth) ** 2) / 2) for image in images) * weight
        )
        right, wrong = kernel[others & correct].sum(), kernel[others & ~correct].sum()
        losses.append(
            -np.log(np.clip((right if correct[i] else wrong) / (right + wrong), 1e-12, 1 - 1e-12))
        )
    return float(np.average(losses, weights=weight))


@settings(max_examples=20)
@given(
    st.integers(0, 10_000),
    st.sampled_from([3, 25]),
    st.floats(0.05, 1),
    st.sampled_from(["none", "reflect"]),
)
def test_nll_is_the_mean_over_left_out_rows(seed, n, bandwidth, boundary):
    rows = draw_rows(n, seed)
    nll = leave_one_out_nll(kernel_sums_of(*rows, boundary), *rows, bandwidth)
    assert nll == pytest.approx(
        nll_by_loops(*rows, bandwidth, boundary), abs=1e-8
    )  # log sums are accurate to 1e-9


@pytest.mark.parametrize(("n", "seed"), [(30, 0), (150, 1)])
def test_chosen_bandwidth_has_the_least_nll(n, seed):
    rows = draw_rows(n, seed)
    bandwidth = leave_one_out_bandwidth(kernel_sums_of(*rows), *rows, step=0.005)
    candidates = 0.005 + 0.005 * np.arange(200)
    losses = [leave_one_out_nll(kernel_sums_of(*rows), *rows, b) for b in candidates]
    assert bandwidth == pytest.approx(candidates[np.argmin(losses)], abs=1e-12)


def test_ties_go_to_the_widest_bandwidth():
    """With one correct and one incorrect row, every bandwidth has the same loss."""
    rows = np.array([0.6, 0.7]), np.array([True, False]), np.ones(2)
    assert leave_one_out_bandwidth(kernel_sums_of(*rows), *rows) == pytest.approx(1, abs=1e-9)


def test_isolated_rows_do_not_underflow():
    score, correct = np.array([0.1, 0.5, 0.9]), np.array([False, True, False])
    sums = kernel_sums_of(score, correct, np.ones(3))
    # The confidence of .1 and .9 is that of the nearer, correct row, and that of .5 is that of the
    # incorrect rows: all are at the clip.
    assert leave_one_out_nll(sums, score, correct, np.ones(3), 0.005) == pytest.approx(
        -np.log(1e-12), rel=1e-4
    )
