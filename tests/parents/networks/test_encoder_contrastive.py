"""Supervised contrastive loss against loops over Eq. 2, its invariances, and random views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.parents.networks.convolutional import RandomView, random_view
from kdgraph.parents.networks.encoder import ContrastiveViews, SupervisedContrastiveLoss


def loss_by_loops(embeddings, labels, temperature, weights=None):
    """Compute Eq. 2 of Khosla et al. (2020) term by term.

    The result is the weighted mean over anchors that have a positive.
    """
    z = [row / np.sqrt((row**2).sum()) for row in embeddings]
    total = norm = 0.0
    for i in range(len(z)):
        positives = [p for p in range(len(z)) if p != i and labels[p] == labels[i]]
        if not positives:
            continue
        denominator = sum(np.exp(z[i] @ z[a] / temperature) for a in range(len(z)) if a != i)
        loss = -sum(
            np.log(np.exp(z[i] @ z[p] / temperature) / denominator) for p in positives
        ) / len(positives)
        weight = 1.0 if weights is None else weights[i]
        total, norm = total + weight * loss, norm + weight
    return total / norm if norm else 0.0


def loss_of(embeddings, labels, temperature=0.1, weights=None) -> float:
    weights = None if weights is None else torch.tensor(weights)
    return SupervisedContrastiveLoss(temperature)(
        torch.tensor(embeddings), torch.tensor(labels), weights
    ).item()


@st.composite
def batches(draw):
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    labels = draw(st.lists(st.sampled_from([-1, 0, 3, 7]), min_size=n, max_size=n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return (
        rng.normal(size=(n, m)) * rng.choice([1e-2, 1.0, 1e2]),
        np.array(labels),
        rng.uniform(0, 3, n),
    )


@given(batches(), st.floats(0.02, 10), st.booleans())
@settings(max_examples=60, deadline=None)
def test_loss_is_equation_2(batch, temperature, weighted):
    embeddings, labels, weights = batch
    weights = weights if weighted else None
    # Both are sums of at most 12 terms in float64, of exponents up to 1/0.02.
    assert loss_of(embeddings, labels, temperature, weights) == pytest.approx(
        loss_by_loops(embeddings, labels, temperature, weights), rel=1e-9, abs=1e-9
    )


@given(batches(), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_loss_is_invariant_to_order_length_and_class_names(batch, seed):
    embeddings, labels, weights = batch
    rng = np.random.default_rng(seed)
    order, scale = rng.permutation(len(labels)), rng.uniform(0.1, 10, (len(labels), 1))
    changed = loss_of((embeddings * scale)[order], 5 - labels[order], weights=weights[order])
    assert changed == pytest.approx(
        loss_of(embeddings, labels, weights=weights), rel=1e-9, abs=1e-9
    )


def test_loss_is_0_for_one_class_and_positive_with_a_near_negative():
    opposite, identical = (
        np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]),
        np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]),
    )
    assert loss_of(opposite, [0, 0, 1]) == pytest.approx(np.log1p(np.exp(-20.0)), abs=1e-12)
    assert loss_of(identical, [0, 0, 1]) == pytest.approx(np.log(2.0))


@pytest.mark.parametrize("labels", [[4], [0, 1, 2]])
def test_without_positives_the_loss_and_its_gradient_are_0(labels):
    embeddings = torch.randn(
        len(labels), 3, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    loss = SupervisedContrastiveLoss()(embeddings, torch.tensor(labels))
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(embeddings.grad, torch.zeros_like(embeddings))


def test_row_of_weight_0_is_still_a_negative():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(6, 3)), [0, 0, 1, 1, 2, 2]
    assert loss_of(embeddings, labels, weights=[1.0, 1, 1, 1, 0, 0]) != pytest.approx(
        loss_of(embeddings[:4], labels[:4]), rel=1e-3
    )
    assert loss_of(embeddings, labels, weights=[0.0] * 6) == 0


def test_views_have_the_label_and_weight_of_their_row():
    rng = np.random.default_rng(1)
    views, labels, weights = (
        rng.normal(size=(5, 2, 3)),
        np.array([0, 1, 0, 2, 1]),
        rng.uniform(size=5),
    )
    flat = loss_of(views.reshape(10, 3), labels.repeat(2), weights=weights.repeat(2))
    assert loss_of(views, labels, weights=weights) == pytest.approx(flat, rel=1e-12)


def test_view_is_a_crop_of_the_padded_image_or_mirrored():
    images = torch.arange(1.0, 2 * 3 * 5 * 4 + 1).reshape(2, 3, 5, 4).repeat(40, 1, 1, 1)
    views = random_view(images, 2, torch.Generator().manual_seed(0)).numpy()
    seen_crops = set()
    for image, view in zip(images.numpy(), views, strict=True):
        padded = np.pad(image, ((0, 0), (2, 2), (2, 2)))
        crops = {
            (y, x, flip): padded[:, y : y + 5, x : x + 4][:, :, :: -1 if flip else 1]
            for y in range(5)
            for x in range(5)
            for flip in (0, 1)
        }
        matching_keys = [key for key, crop in crops.items() if np.array_equal(crop, view)]
        assert len(matching_keys) == 1
        seen_crops |= set(matching_keys)
    assert {flip for *_, flip in seen_crops} == {0, 1}
    assert {y for y, *_ in seen_crops} == {x for _, x, _ in seen_crops} == set(range(5))


def test_views_are_determined_by_the_generator():
    images = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    first, repeated, other_seed = (
        random_view(images, generator=torch.Generator().manual_seed(seed)) for seed in (3, 3, 4)
    )
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other_seed)


def test_views_are_random_only_in_training():
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(RandomView().eval()(images), images)
    views = ContrastiveViews(torch.nn.Flatten(), augment=True)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        trained = views(images)
        assert trained.shape == (4, 2, 64)
        assert not torch.equal(trained[:, 0], trained[:, 1])
    assert torch.equal(views.eval()(images), images.reshape(4, 1, 64))
    assert ContrastiveViews(torch.nn.Flatten())(images).shape == (4, 1, 64)
