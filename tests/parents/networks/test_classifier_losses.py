"""MMCE as a loss: the value of the metric, its gradient, and weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.metrics import mmce, nll
from kdgraph.parents.networks import classifier as losses
from kdgraph.parents.networks.classifier import MMCE_EPSILON, MmceLoss, batch_mmce, cross_entropy
from kdgraph.parents.networks.ensembles import MemberMeanLoss


def make_batch(
    n: int, k: int = 3, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return logits and weights in double precision, which checks of gradients require."""
    rng = np.random.default_rng(seed)
    logits = torch.tensor(2 * rng.normal(size=(n, k)), requires_grad=True)
    return logits, torch.from_numpy(rng.integers(k, size=n)), torch.ones(n, dtype=torch.float64)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 1000))
def test_mmce_equals_the_metric(n, k, seed):
    logits, y, weights = make_batch(n, k, seed)
    proba = logits.detach().softmax(dim=1).numpy()
    assert batch_mmce(logits, y, weights).item() ** 2 == pytest.approx(
        mmce(y.numpy(), proba) ** 2 + MMCE_EPSILON, rel=1e-9
    )


def test_blocks_change_only_the_order_of_a_sum(monkeypatch):
    logits, y, weights = make_batch(100)
    in_one_block = batch_mmce(logits, y, weights).item()
    monkeypatch.setattr(losses, "MMCE_BLOCK_ROWS", 7)
    assert batch_mmce(logits, y, weights).item() == pytest.approx(in_one_block, rel=1e-12)


def test_gradient_matches_finite_differences():
    logits, y, _ = make_batch(9)
    weights = torch.linspace(0.5, 1.5, 9, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: batch_mmce(z, y, weights), logits)
    assert torch.autograd.gradcheck(lambda z: MmceLoss(4.0)(z, y, weights), logits)


def test_weight_two_repeats_a_row_and_weight_zero_removes_it():
    """Compare sums over pairs of gaps: the mean is over rows, so it is multiplied by their numbers."""
    logits, y, _ = make_batch(6)
    doubled, twice = torch.tensor([2.0, 1, 1, 1, 1, 0]).double(), [0, 0, 1, 2, 3, 4]
    result = batch_mmce(logits, y, doubled).item() ** 2 - MMCE_EPSILON
    expected_square = (
        batch_mmce(logits[twice], y[twice], torch.ones(6).double()).item() ** 2 - MMCE_EPSILON
    )
    assert result == pytest.approx(expected_square, rel=1e-9)


def test_gradient_is_finite_for_correct_confident_batches():
    logits = torch.tensor([[60.0, 0.0], [0.0, 60.0]], requires_grad=True)
    loss = batch_mmce(logits, torch.tensor([0, 1]), torch.ones(2))
    loss.backward()
    assert (
        loss.item() == pytest.approx(MMCE_EPSILON**0.5)
        and logits.grad is not None
        and logits.grad.isfinite().all()
    )


def test_loss_is_cross_entropy_plus_weighted_mmce():
    logits, y, weights = make_batch(20)
    parts = cross_entropy(logits, y, weights) + 4 * batch_mmce(logits, y, weights)
    assert MmceLoss(4.0)(logits, y, weights).item() == pytest.approx(parts.item(), rel=1e-12)
    assert MmceLoss(0.0)(logits, y, weights).item() == cross_entropy(logits, y, weights).item()
    assert cross_entropy(logits, y, weights).item() == pytest.approx(
        nll(y.numpy(), logits.detach().softmax(1).numpy()), rel=1e-9
    )


def test_each_ensemble_member_has_a_separate_error():
    logits, y, weights = make_batch(24)
    parts = [MmceLoss(2.0)(logits[i : i + 8], y[i : i + 8], weights[i : i + 8]) for i in (0, 8, 16)]
    together = MemberMeanLoss(MmceLoss(2.0), 3)
    assert together(logits, y, weights).item() == pytest.approx(
        torch.stack(parts).mean().item(), rel=1e-12
    )
    constant_logits = logits.detach()  # of all members together
    assert (
        together(constant_logits, y, weights).item()
        == MmceLoss(2.0)(constant_logits, y, weights).item()
        != together(logits, y, weights).item()
    )
