"""Supervised contrastive loss against loops over Eq. 2, its invariances, and the pretraining."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from experiments.p1.contrastive import (
    ContrastiveEncoder,
    ContrastiveViews,
    SupervisedContrastiveLoss,
)
from kdgraph.parents.networks import EncoderNetwork, OutlierExposure


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


def test_views_are_random_only_in_training():
    images = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    views = ContrastiveViews(torch.nn.Flatten(), augment=True)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        trained = views(images)
        assert trained.shape == (4, 2, 64)
        assert not torch.equal(trained[:, 0], trained[:, 1])
    assert torch.equal(views.eval()(images), images.reshape(4, 1, 64))
    assert ContrastiveViews(torch.nn.Flatten())(images).shape == (4, 1, 64)


OPTIONS = {
    "model_options": {"depth": 8, "width": 4},
    "embedding_size": 5,
    "hidden": (7,),
    "max_epochs": 2,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "random_state": 0,
    "device": "cpu",
}


def network(**changes) -> ContrastiveEncoder:
    return ContrastiveEncoder(**{**OPTIONS, "pretrain_epochs": 2, **changes})


def make_half_bright_images(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images with a bright left or right half, and their labels in {3, 8}."""
    rng = np.random.default_rng(0)
    right = rng.integers(0, 2, n).astype(bool)
    X = rng.uniform(0, 0.4, (n, 1, 16, 16))
    X[right, ..., 8:] += 0.5
    X[~right, ..., :8] += 0.5
    return X.astype(np.float32), np.where(right, 8, 3)


def state(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_is_determined_by_the_seed_and_pickles():
    X, y = make_half_bright_images()
    first = network(augment=True).fit(X, y)
    assert np.array_equal(first.logits(X), clone(first).fit(X, y).logits(X))
    assert np.array_equal(pickle.loads(pickle.dumps(first)).logits(X), first.logits(X))
    other_seed = clone(first).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(first.logits(X), other_seed.logits(X))


def test_freeze_fixes_the_encoder_and_the_pretrained_projection():
    X, y = make_half_bright_images()
    # With patience, held-out rows would be missing from max_epochs=3.
    before, after = (
        network(freeze=True, patience=None, max_epochs=epochs).fit(X, y).module_
        for epochs in (0, 3)
    )
    assert equal(state(before.encoder), state(after.encoder))
    assert equal(state(before.embedding), state(after.embedding))
    assert not equal(state(before.head), state(after.head))


def test_contrastive_pretraining_separates_the_classes():
    X, y = make_half_bright_images(64)
    options = {"max_epochs": 0, "freeze": True, "batch_size": 32}
    plain = EncoderNetwork(**{**OPTIONS, **options}).fit(X, y)
    trained = network(**options, pretrain_epochs=3).fit(X, y)

    def loss(fitted) -> float:
        return SupervisedContrastiveLoss()(
            torch.tensor(fitted.transform(X, "embedding")), torch.tensor(y)
        ).item()

    assert loss(trained) < loss(plain) - 0.1
    assert equal(state(plain.module_.head), state(trained.module_.head))
    assert [entry["epoch"] for entry in trained.pretraining_history_] == [1, 2, 3]


def test_both_phases_report_their_progress():
    reports = []
    network(pretrain_epochs=3, report=reports.append).fit(*make_half_bright_images())
    assert [(p.stage, p.epoch, p.max_epochs) for p in reports] == [
        ("pretraining", e, 3) for e in (1, 2, 3)
    ] + [("training", e, 2) for e in (1, 2)]


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("cut", [("pretraining", 2), ("training", 2)])
def test_interrupted_phases_resume_to_the_same_bits(tmp_path, monkeypatch, cut):
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    X, y = make_half_bright_images()
    options = {"augment": True, "pretrain_epochs": 3, "max_epochs": 3}
    uninterrupted = network(**options).fit(X, y)
    epochs = []

    def watch(progress):
        epochs.append((progress.stage, progress.epoch))
        if epochs.count(cut) == 1 and epochs[-1] == cut and len(epochs) == epochs.index(cut) + 1:
            raise Interrupted

    resumed = network(checkpoint=tmp_path / "state", report=watch, **options)
    with pytest.raises(Interrupted):
        resumed.fit(X, y)
    assert list(tmp_path.iterdir())
    before = len(epochs)
    resumed.fit(X, y)
    assert epochs[before] == (cut[0], 3)  # the epoch after the cut, not the first
    assert np.array_equal(resumed.logits(X), uninterrupted.logits(X))
    assert not list(tmp_path.iterdir())


def test_an_exposure_tunes_the_pretrained_network():
    X, y = make_half_bright_images(16)
    tuned = OutlierExposure(start="trained", epochs=1)
    fitted = network(pretrain_epochs=1, max_epochs=1, exposure=tuned).fit(X, y)
    assert len(fitted.pretraining_history_) == len(fitted.exposure_history_) == 1
