"""Leave-one-out NLL against leaving rows out, and its best bandwidth against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.calibration.top_label.kernel_density import leave_one_out_bandwidth, leave_one_out_nll
from kdgraph.calibration.top_label.kernel_sums import Boundary, KernelSum


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.beta(5, 1.3, size=n)
    correct = rng.random(n) < score**2
    correct[:2] = [True, False]
    return score, correct, rng.integers(1, 3, size=n).astype(float)


def kernels(score, correct, weight, boundary: Boundary = "none") -> tuple[KernelSum, KernelSum]:
    right, wrong = (
        KernelSum.from_scores(score[own], weight[own], boundary) for own in (correct, ~correct)
    )
    return right, wrong


def naive(score, correct, weight, bandwidth: float, boundary: str) -> float:
    """Row by row, with the row taken away."""
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
def test_it_is_the_mean_over_rows_that_are_taken_away(seed, n, bandwidth, boundary):
    rows = drawn(n, seed)
    found = leave_one_out_nll(kernels(*rows, boundary), *rows, bandwidth)
    assert found == pytest.approx(
        naive(*rows, bandwidth, boundary), abs=1e-8
    )  # logs are known to 1e-9


@pytest.mark.parametrize(("n", "seed"), [(30, 0), (150, 1)])
def test_no_other_bandwidth_is_better(n, seed):
    rows = drawn(n, seed)
    found = leave_one_out_bandwidth(kernels(*rows), *rows, step=0.005)
    every = 0.005 + 0.005 * np.arange(200)
    losses = [leave_one_out_nll(kernels(*rows), *rows, b) for b in every]
    assert found == pytest.approx(every[np.argmin(losses)], abs=1e-12)


def test_of_equals_it_is_the_widest():
    """One right and one wrong row: whoever is left out, the other is all there is."""
    rows = np.array([0.6, 0.7]), np.array([True, False]), np.ones(2)
    assert leave_one_out_bandwidth(kernels(*rows), *rows) == pytest.approx(1, abs=1e-9)


def test_a_row_that_is_far_from_all_others_costs_no_underflow():
    score, correct = np.array([0.1, 0.5, 0.9]), np.array([False, True, False])
    sums = kernels(score, correct, np.ones(3))
    # 0.1 is judged by the nearer right row, 0.5 by wrong ones alone, 0.9 by the nearer right row:
    # all wrong, as far as the clip goes
    assert leave_one_out_nll(sums, score, correct, np.ones(3), 0.005) == pytest.approx(
        -np.log(1e-12), rel=1e-4
    )
