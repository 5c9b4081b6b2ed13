"""Stacked perceptrons train exactly as separate networks would."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits, make_moons
from torch import nn

from kdgraph.base.network_access import access_network
from kdgraph.errors import ParameterError
from kdgraph.geometry import partition_of
from kdgraph.parents.networks import MultilayerPerceptronEnsemble
from kdgraph.parents.networks.ensembles import StackedPerceptrons

SMALL = {
    "hidden": (16,),
    "learning_rate": 0.02,
    "batch_size": 16,
    "device": "cpu",
    "random_state": 0,
}


def moons(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    return make_moons(n, noise=0.2, random_state=0)


def make_separate_member(module: StackedPerceptrons, member: int) -> nn.Sequential:
    """Return the member as a module of torch layers with the same weights."""
    parts: list[nn.Module] = []
    for stacked in module.layers:
        linear = nn.Linear(*stacked.weight.shape[1:])
        with torch.no_grad():
            linear.weight.copy_(stacked.weight[member].T)
            linear.bias.copy_(stacked.bias[member, 0])
        parts += [linear, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def test_members_train_as_separate_networks():
    torch.manual_seed(0)
    stacked = StackedPerceptrons([5, 8, 6, 3], members=4, combine="mean")
    single = [make_separate_member(stacked, m) for m in range(4)]
    optimizers = [torch.optim.Adam(module.parameters(), lr=0.01) for module in (stacked, *single)]
    stacked.train()
    for _ in range(20):
        rows, labels = torch.randn(4, 7, 5), torch.randint(3, (4, 7))
        outputs = [
            stacked(rows.flatten(0, 1)),
            *(module(own) for module, own in zip(single, rows, strict=True)),
        ]
        for optimizer, output, target in zip(
            optimizers, outputs, (labels.flatten(), *labels), strict=True
        ):
            optimizer.zero_grad()
            nn.functional.cross_entropy(output, target).backward()
            optimizer.step()
    for m, module in enumerate(single):
        for stacked_layer, linear in zip(stacked.layers, module[::2], strict=True):
            # sums of float32 in another order, and Adam divides by gradients that may be nearly 0
            torch.testing.assert_close(stacked_layer.weight[m].T, linear.weight, rtol=0, atol=1e-4)
            torch.testing.assert_close(stacked_layer.bias[m, 0], linear.bias, rtol=0, atol=1e-4)


def test_initial_weights_match_torch():
    torch.manual_seed(0)
    stacked_layer = StackedPerceptrons([64, 50, 10], members=30, combine="mean").layers[0]
    layer = nn.Linear(64, 50)
    for stacked_parameter, parameter in (
        (stacked_layer.weight, layer.weight),
        (stacked_layer.bias, layer.bias),
    ):
        assert stacked_parameter.abs().max().item() <= 1 / 8
        # 1,500 numbers and more, uniform on [-1/8, 1/8]: their standard deviation is known to 4 %
        # (bias of torch, 50 numbers: 15 %)
        assert stacked_parameter.std().item() == pytest.approx(0.25 / 12**0.5, rel=0.04)
        assert parameter.std().item() == pytest.approx(0.25 / 12**0.5, rel=0.15)


@pytest.mark.parametrize("combine", ["mean", "mean_logs", "sum_logs"])
def test_combines_members_by_each_rule(combine):
    X, y = moons()
    model = MultilayerPerceptronEnsemble(members=3, combine=combine, max_epochs=3, **SMALL).fit(
        X, y
    )
    members = model.member_log_proba(X)
    member_proba = np.stack(
        [
            softmax(
                make_separate_member(model.module_, m)(torch.tensor(X, dtype=torch.float32))
                .detach()
                .numpy(),
                axis=1,
            )
            for m in range(3)
        ]
    )
    np.testing.assert_allclose(np.exp(members), member_proba, atol=1e-5)  # float32
    expected = {
        "mean": member_proba.mean(axis=0),
        "mean_logs": softmax(np.log(member_proba).mean(axis=0), axis=1),
        "sum_logs": softmax(np.log(member_proba).sum(axis=0), axis=1),
    }
    np.testing.assert_allclose(model.predict_proba(X), expected[combine], atol=1e-5)
    np.testing.assert_allclose(
        log_softmax(model.logits(X), axis=1), np.log(expected[combine]), atol=1e-4
    )


def test_members_differ_and_the_ensemble_is_better():
    X, y = load_digits(return_X_y=True)
    model = MultilayerPerceptronEnsemble(
        members=5,
        hidden=(32,),
        learning_rate=3e-3,
        max_epochs=30,
        patience=None,
        device="cpu",
        random_state=0,
    ).fit(X[:600] / 16, y[:600])
    members = model.member_log_proba(X[600:] / 16)
    test = y[600:]
    single = -members[:, np.arange(len(test)), test].mean(axis=1)
    together = -np.log(model.predict_proba(X[600:] / 16)[np.arange(len(test)), test]).mean()
    assert len(np.unique(single)) == 5
    assert together < single.mean()  # by Jensen's inequality, so it cannot fail but by a wrong mean
    assert model.score(X[600:] / 16, test) > 0.88


def test_every_member_draws_rows_with_replacement():
    """Train on one batch of all rows.

    Without replacement every member would see the same batch.
    """
    X, y = moons(64)
    calls: list[torch.Tensor] = []

    class Watched(StackedPerceptrons):
        def forward(self, rows):
            if self.training:
                calls.append(rows)
            return super().forward(rows)

    class Ensemble(MultilayerPerceptronEnsemble):
        def _make_module(self, input_shape, n_outputs):
            return Watched([2, n_outputs], self.members, self.combine)

    Ensemble(
        members=3, max_epochs=2, patience=None, device="cpu", batch_size=64, random_state=0
    ).fit(X, y)
    assert [rows.shape for rows in calls] == [(3 * 64, 2)] * 2
    batches = [member for rows in calls for member in rows.unflatten(0, (3, 64))]
    distinct = [len(batch.unique(dim=0)) for batch in batches]
    # 64 draws out of 64 have 41 distinct values on average, with standard deviation 2.4.
    assert all(25 < n < 55 for n in distinct)
    assert len({batch.sum().item() for batch in batches}) == 6


def test_interrupted_training_resumes_to_the_same_bits(tmp_path):
    X, y = moons()
    options = {**SMALL, "members": 3, "max_epochs": 6, "patience": None}
    uninterrupted = MultilayerPerceptronEnsemble(**options).fit(X, y)

    def stop(progress):
        if progress.epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MultilayerPerceptronEnsemble(**options, checkpoint=tmp_path / "part", report=stop).fit(X, y)
    resumed = MultilayerPerceptronEnsemble(**options, checkpoint=tmp_path / "part").fit(X, y)
    np.testing.assert_array_equal(resumed.predict_proba(X), uninterrupted.predict_proba(X))


def test_layers_and_gradients_are_accessible():
    X, y = moons()
    model = MultilayerPerceptronEnsemble(members=3, max_epochs=2, **SMALL).fit(X, y)
    inside = access_network(model)
    assert inside.features(X).shape == (200, 3 * 16)
    first = model.transform(X, "layers.0").reshape(200, 3, 16)
    weight, bias = (
        model.module_.layers[0].weight.detach().numpy(),
        model.module_.layers[0].bias.detach().numpy(),
    )
    np.testing.assert_allclose(first, np.einsum("nd,mdh->nmh", X, weight) + bias[:, 0], atol=1e-5)
    np.testing.assert_allclose(inside.features(X).reshape(200, 3, 16), first.clip(0), atol=1e-6)
    step = 1e-3
    gradient = inside.input_gradient(X[:5], lambda logits: logits[:, 0])
    numeric = [
        (model.logits(X[:5] + step * e)[:, 0] - model.logits(X[:5] - step * e)[:, 0]) / (2 * step)
        for e in np.eye(2)
    ]
    # The tolerance covers float32 differences; a kink of ReLU is rare.
    np.testing.assert_allclose(gradient, np.transpose(numeric), rtol=0.05, atol=0.02)


def test_partition_combines_all_members():
    X, y = moons(60)
    model = MultilayerPerceptronEnsemble(members=2, max_epochs=2, **SMALL).fit(X, y)
    codes = partition_of(model).locate(X).codes
    active = model.transform(X, "layers.0") > 0
    same_active_units = (active[:, None] == active[None]).all(axis=2)
    np.testing.assert_array_equal((codes[:, None] == codes[None]).all(axis=2), same_active_units)


def test_rejects_invalid_parameters():
    with pytest.raises(ParameterError, match=r"members must be in \[1, inf\), got 0"):
        MultilayerPerceptronEnsemble(members=0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(
        ParameterError, match="combine must be one of mean, mean_logs, sum_logs, got 'vote'"
    ):
        MultilayerPerceptronEnsemble(combine="vote").fit([[0.0], [1.0]], [0, 1])
