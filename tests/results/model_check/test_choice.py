"""The choice among methods: against scipy's bootstrap, and on losses whose best is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from kdgraph.results.model_check.choice import choose_by_loss


def losses_of(n=600, gain=0.1, seed=0):
    rng = np.random.default_rng(seed)
    parent = rng.exponential(1.0, n)
    return {"none": parent, "a": parent - gain + 0.3 * rng.normal(size=n)}


def test_the_interval_is_that_of_a_paired_bootstrap():
    losses = losses_of()
    difference = losses["none"] - losses["a"]
    expected = stats.bootstrap(
        (difference,), np.mean, n_resamples=4000, method="percentile", rng=1
    ).confidence_interval
    gain = choose_by_loss(losses, "none", draws=4000).methods["a"].gain
    assert gain.value == pytest.approx(difference.mean())
    # Quantiles of 4,000 resamples have a standard error of .04 of the standard error of the mean.
    tolerance = 5 * 0.04 * difference.std() / np.sqrt(600)
    assert gain.low == pytest.approx(expected.low, abs=tolerance)
    assert gain.high == pytest.approx(expected.high, abs=tolerance)


def test_best_of_clearly_different_methods_is_chosen():
    choice = choose_by_loss(losses_of(gain=0.5), "none")
    assert (choice.chosen, choice.as_good) == ("a", ("a",))
    assert choice.methods["a"].chosen_share == 1.0
    assert choice.methods["none"].behind.low > 0


def test_gain_outside_resamples_is_not_optimistic():
    """Twenty methods that differ from the reference by noise alone, with a mean gain of 0."""
    rng = np.random.default_rng(3)
    parent = rng.exponential(1.0, 300)
    noise = rng.normal(size=(20, 300))
    noise -= noise.mean(axis=1, keepdims=True)
    methods = {f"m{k}": parent + row for k, row in enumerate(noise)}
    in_sample, out_of_sample = [], []
    for start in range(30):
        rows = np.random.default_rng(start).choice(300, 150, replace=False)
        losses = {"none": parent[rows], **{name: loss[rows] for name, loss in methods.items()}}
        choice = choose_by_loss(losses, "none", draws=200, seed=start)
        in_sample.append(choice.methods[choice.chosen].gain.value)
        out_of_sample.append(choice.gain.value)
    assert np.mean(in_sample) > 0.1
    # The mean over 30 halves of the rows has a standard error of .01.
    assert np.mean(out_of_sample) < 0.4 * np.mean(in_sample)


def test_of_equal_methods_the_first_is_chosen():
    losses = losses_of()
    twice = {"none": losses["none"], "a": losses["a"], "again": losses["a"].copy()}
    choice = choose_by_loss(twice, "none")
    assert choice.chosen == "a"
    assert choice.methods["again"].chosen_share == 0.0
    assert choice.as_good == ("a", "again")


def test_rows_of_one_unit_are_drawn_together():
    """Ten copies of each row are worth one: the interval is that of single rows."""
    losses = losses_of(n=200)
    copies = {name: np.repeat(loss, 10) for name, loss in losses.items()}
    units = np.repeat(np.arange(200), 10)
    alone = choose_by_loss(losses, "none").methods["a"].gain
    together = choose_by_loss(copies, "none", units=units).methods["a"].gain
    apart = choose_by_loss(copies, "none").methods["a"].gain
    np.testing.assert_allclose(
        [together.value, together.low, together.high], [alone.value, alone.low, alone.high]
    )
    assert apart.high - apart.low < 0.5 * (alone.high - alone.low)


def test_blocks_of_resamples_change_nothing(monkeypatch):
    whole = choose_by_loss(losses_of(), "none")
    monkeypatch.setattr("kdgraph.results.model_check.choice._BLOCK_CELLS", 600 * 7)
    parts = choose_by_loss(losses_of(), "none")
    assert parts.methods["a"].chosen_share == whole.methods["a"].chosen_share
    np.testing.assert_allclose(parts.methods["a"].gain.low, whole.methods["a"].gain.low)


@settings(max_examples=40, deadline=None)
@given(
    values=st.tuples(st.integers(2, 4), st.integers(1, 12)).flatmap(
        lambda shape: arrays(np.float64, shape, elements=st.floats(0, 5))
    )
)
def test_fractions_sum_to_one_and_least_loss_is_chosen(values):
    losses = {f"m{k}": row for k, row in enumerate(values)}
    choice = choose_by_loss(losses, "m0", draws=50)
    assert sum(method.chosen_share for method in choice.methods.values()) == pytest.approx(1)
    least = min(method.loss for method in choice.methods.values())
    assert choice.methods[choice.chosen].loss == pytest.approx(least)
    assert choice.chosen in choice.as_good
    assert choice.methods["m0"].gain.value == 0.0


@pytest.mark.parametrize("losses", [{"none": np.empty(0)}, {"none": np.ones(3), "a": np.ones(4)}])
def test_losses_of_other_rows_are_refused(losses):
    with pytest.raises(ValueError, match="losses must be of the same rows, at least one, got"):
        choose_by_loss(losses, "none")
