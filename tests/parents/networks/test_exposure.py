"""Training with outliers: losses against numpy, the search of ACET, checkpoints and files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp
from sklearn.base import clone
from sklearn.datasets import make_blobs
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parents.networks import (
    EncoderNetwork,
    MultilayerPerceptron,
    MultilayerPerceptronEnsemble,
    ResidualNetwork,
    training,
)
from kdgraph.parents.networks.classifier import cross_entropy
from kdgraph.parents.networks.exposure import (
    Acet,
    Ceda,
    EnergyMargin,
    OutlierExposure,
    OutlierLoss,
    energy_margin_loss,
    max_log_probability,
    projected_gradient_ascent,
)
from kdgraph.parents.networks.outlier_sources import DatasetOutliers, NoiseOutliers, row_sampler
from kdgraph.persistence import from_bytes, to_bytes

SMALL = {
    "hidden": (16,),
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 4,
    "device": "cpu",
    "random_state": 0,
}
EXPOSURES = [
    OutlierExposure(),
    Ceda(),
    Acet(steps=2),
    EnergyMargin(epochs=3),
    OutlierExposure(start="trained", epochs=3),
]
NAMES = ["oe", "ceda", "acet", "energy", "oe_tuned"]


def make_rows(n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(
        n, centers=[[0.2, 0.2], [0.8, 0.3], [0.5, 0.8]], cluster_std=0.08, random_state=seed
    )
    return X.astype(np.float32), y


def mlp(**options) -> MultilayerPerceptron:
    return MultilayerPerceptron(**{**SMALL, **options})


def predicts_the_same(a, b) -> bool:
    return np.array_equal(a.logits(make_rows(50, 1)[0]), b.logits(make_rows(50, 1)[0]))


def logits(n: int, seed: int) -> torch.Tensor:
    return torch.tensor(3 * np.random.default_rng(seed).normal(size=(n, 4)))


# what outliers cost


def test_outlier_losses_match_numpy():
    inside, outside, weights = (
        logits(7, 0),
        logits(5, 1),
        torch.tensor(np.random.default_rng(2).random(7)),
    )
    log_p = log_softmax(outside.numpy(), axis=1)
    assert OutlierExposure().outlier_loss(inside, weights, outside).item() == pytest.approx(
        -np.mean([row.sum() / 4 for row in log_p]), rel=1e-12
    )
    assert Ceda().outlier_loss(inside, weights, outside).item() == pytest.approx(
        np.mean([row.max() for row in log_p]), rel=1e-12
    )
    energy_in, energy_out = (-logsumexp(logits.numpy(), axis=1) for logits in (inside, outside))
    by_hand = np.mean(weights.numpy() * np.maximum(0, energy_in + 4) ** 2) + np.mean(
        np.maximum(0, -2 - energy_out) ** 2
    )
    result = energy_margin_loss(inside, weights, outside, margin_in=-4.0, margin_out=-2.0).item()
    assert result == pytest.approx(by_hand, rel=1e-12) and by_hand > 0


def test_uniform_distribution_has_the_lowest_loss():
    """Expect log K for outlier exposure and -log K for CEDA, and gradients towards equal logits."""
    flat = torch.zeros(3, 4, requires_grad=True)
    for exposure, least in ((OutlierExposure(), np.log(4)), (Ceda(), -np.log(4))):
        assert exposure.outlier_loss(flat, torch.ones(3), flat).item() == pytest.approx(
            least, rel=1e-6
        )
        uneven = torch.tensor([[2.0, 0, 0, 0]], requires_grad=True)
        (gradient,) = torch.autograd.grad(
            exposure.outlier_loss(uneven, torch.ones(1), uneven), uneven
        )
        assert gradient[0, 0] > 0 and (gradient[0, 1:] < 0).all()


def linear_twin(X, y, Z, weight, cost_gradient, rate=0.1):
    """Make one step of gradient descent in numpy.

    The model has logits X W' without bias; the loss is cross-entropy + weight × outlier loss of Z.
    """

    def step(W):
        p = np.exp(log_softmax(X @ W.T, axis=1))
        gradient = (p - np.eye(3)[y]).T @ X / len(X) + weight * cost_gradient(
            log_softmax(Z @ W.T, axis=1)
        ).T @ Z / len(Z)
        return W - rate * gradient

    return step


@pytest.mark.parametrize(
    ("exposure", "cost_gradient"),
    [
        (OutlierExposure(weight=0.7), lambda log_p: np.exp(log_p) - 1 / 3),
        (Ceda(weight=0.7), lambda log_p: np.eye(3)[log_p.argmax(axis=1)] - np.exp(log_p)),
    ],
    ids=["oe", "ceda"],
)
def test_step_matches_explicit_gradient_descent(exposure, cost_gradient):
    """Train a linear map by plain descent on full batches, in float32 against float64.

    A momentum of 0.9 has no effect in the first step.
    """
    (X, y), Z = make_rows(30), make_rows(30, 5)[0] + 1
    module = nn.Linear(2, 3, bias=False)
    W = linear_twin(X, y, Z, 0.7, cost_gradient)(module.weight.detach().double().numpy())
    data = training.Examples(torch.from_numpy(X), torch.from_numpy(y), torch.ones(30))
    options = training.TrainingOptions(
        optimizer="sgd", learning_rate=0.1, batch_size=30, max_epochs=1, patience=None
    )
    auxiliary_loss = exposure.auxiliary_loss(
        module, X, lambda n, rng: Z, "cpu", np.random.default_rng(0)
    )
    training.train(module, data, cross_entropy, options, seed=0, auxiliary_loss=auxiliary_loss)
    np.testing.assert_allclose(module.weight.detach().numpy(), W, rtol=1e-5)


def test_batch_norm_statistics_cover_rows_and_outliers():
    """Check the statistics in training and the running ones that inference uses."""
    module, (X, y) = (
        nn.Sequential(nn.BatchNorm1d(2, momentum=1.0, affine=False), nn.Linear(2, 3)),
        make_rows(40),
    )
    data = training.Examples(torch.from_numpy(X), torch.from_numpy(y), torch.ones(40))
    auxiliary_loss = OutlierLoss(lambda n, rng: X[:n] + 10, OutlierExposure().outlier_loss, 1.0)
    training.train(
        module,
        data,
        cross_entropy,
        training.TrainingOptions(batch_size=40, max_epochs=1),
        seed=0,
        auxiliary_loss=auxiliary_loss,
    )
    norm = module[0]
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None
    np.testing.assert_allclose(norm.running_mean.numpy(), X.mean(axis=0) + 5, rtol=1e-5)


# ACET


def test_search_increases_the_objective_within_its_ball():
    network = mlp(max_epochs=20).fit(*make_rows())
    start = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    radius = torch.tensor([0.1, 0.3])
    before = {name: value.clone() for name, value in network.module_.state_dict().items()}
    result = projected_gradient_ascent(
        network.module_.train(), start, max_log_probability, radius, 10, (0.0, 1.0)
    )
    assert network.module_.training
    network.module_.eval()
    values = [max_log_probability(network.module_(points)).detach() for points in (start, result)]
    assert (values[1] >= values[0]).all() and (values[1] > values[0] + 1e-4).float().mean() > 0.9
    assert (
        ((result - start).abs() <= radius + 1e-6).all() and result.min() >= 0 and result.max() <= 1
    )
    assert all(
        torch.equal(before[name], value) for name, value in network.module_.state_dict().items()
    )
    assert all(parameter.grad is None for parameter in network.module_.parameters())


def test_search_is_exact_for_known_maxima():
    """Search maxima that are known.

    For a linear function it is a corner of the ball. For a parabola it is a point on the way.
    """
    slope, start, radius = torch.tensor([[1.0, -2.0]]), torch.zeros(3, 2), torch.tensor([0.5, 0.2])
    points = projected_gradient_ascent(
        nn.Identity(), start, lambda x: (x * slope).sum(dim=1), radius, 4
    )
    torch.testing.assert_close(points, torch.tensor([[0.5, -0.2]]).expand(3, 2))
    top = projected_gradient_ascent(
        nn.Identity(),
        torch.zeros(1, 1),
        lambda x: -(x[:, 0] - 0.25).square(),
        torch.tensor(1.0),
        10,
    )
    assert top.item() == pytest.approx(0.25)


def test_acet_ball_is_a_fraction_of_each_feature_range():
    X = np.array([[0, 10], [1, 30]], dtype=np.float32)
    start, rng = np.zeros((4, 2), dtype=np.float32) + X[0], np.random.default_rng(0)
    # Without a fixed seed, some initial weights saturate the confidence before the border.
    with torch.random.fork_rng():
        torch.manual_seed(1)
        module = nn.Linear(2, 2)
    for exposure, fraction in ((Acet(radius=0.5), 0.5), (Acet(), 0.1)):
        auxiliary_loss = exposure.auxiliary_loss(module, X, lambda n, rng: start, "cpu", rng)
        assert auxiliary_loss is not None
        shift = auxiliary_loss.sample_rows(module, 4, rng).numpy() - start
        np.testing.assert_allclose(
            np.abs(shift).max(axis=0), fraction * np.array([1, 20]), rtol=1e-5
        )


# training


@pytest.mark.parametrize("exposure", EXPOSURES, ids=NAMES)
def test_weight_0_equals_training_without_outliers(exposure):
    plain, weightless = (
        mlp(dropout=0.2).fit(*make_rows()),
        mlp(dropout=0.2, exposure=clone(exposure).set_params(weight=0)).fit(*make_rows()),
    )
    assert weightless.history_ == plain.history_ and weightless.exposure_ == {}
    if exposure.start == "scratch":
        assert predicts_the_same(plain, weightless) and weightless.exposure_history_ == []
        return
    assert [epoch["epoch"] for epoch in weightless.exposure_history_] == [1, 2, 3]
    module, (X, y) = plain.module_, make_rows()
    data = training.Examples(torch.from_numpy(X), torch.from_numpy(y), torch.ones(len(y)))
    training_rows, _, seed = plain._split_rows(y, np.ones(len(y)))
    options = training.TrainingOptions(
        learning_rate=1e-3, schedule="cosine", batch_size=32, max_epochs=3, patience=None
    )
    training.train(
        module,
        replace(
            data,
            inputs=data.inputs[training_rows],
            targets=data.targets[training_rows],
            weights=data.weights[training_rows],
        ),
        cross_entropy,
        options,
        seed=seed,
    )
    assert predicts_the_same(plain, weightless)


@pytest.mark.parametrize("exposure", EXPOSURES, ids=NAMES)
def test_tuning_lowers_the_outlier_loss(exposure):
    plain, exposed = mlp().fit(*make_rows()), mlp(exposure=exposure).fit(*make_rows())
    assert not predicts_the_same(plain, exposed) and predicts_the_same(
        exposed, mlp(exposure=exposure).fit(*make_rows())
    )
    tuned = exposure.start == "trained"
    history = exposed.exposure_history_ if tuned else exposed.history_
    assert (exposed.history_ == plain.history_) == tuned and len(history) == (3 if tuned else 4)
    costs = [epoch["outlier_loss"] for epoch in history]
    result = exposed.describe()
    assert (
        result["outlier_loss"] == [costs[0], costs[-1]]
        and result["exposure"] == type(exposure).__name__
    )
    assert result["outliers"] == "NoiseOutliers" and np.isfinite(costs).all()


@pytest.mark.parametrize(
    ("exposure", "changed"),
    [
        (OutlierExposure(), {"weight": 0.6}),
        (OutlierExposure(), {"outliers": "permuted"}),
        (OutlierExposure(), {"outliers": "mixed"}),
        (OutlierExposure(), {"outliers": NoiseOutliers(margin=0.1)}),
        (OutlierExposure(), {"start": "trained"}),
        (OutlierExposure(start="trained"), {"epochs": 9}),
        (OutlierExposure(start="trained"), {"learning_rate": 2e-3}),
        (Acet(steps=3), {"steps": 2}),
        (Acet(steps=3), {"radius": 0.2}),
        (EnergyMargin(), {"margin_in": -9.0}),
        (EnergyMargin(), {"margin_out": 5.0}),
    ],
    ids=str,
)
def test_every_parameter_changes_the_numbers(exposure, changed):
    assert not predicts_the_same(
        mlp(exposure=exposure).fit(*make_rows()),
        mlp(exposure=clone(exposure).set_params(**changed)).fit(*make_rows()),
    )


def test_energy_margins_are_estimated_from_the_network_before_tuning():
    X, _ = make_rows()
    plain, tuned = (
        mlp(max_epochs=20).fit(*make_rows()),
        mlp(max_epochs=20, exposure=EnergyMargin(epochs=1)).fit(*make_rows()),
    )
    training_rows, _, _ = plain._split_rows(make_rows()[1], np.ones(len(X)))
    inside = -logsumexp(plain.logits(X[training_rows]), axis=1)
    # The logits are in float32.
    assert tuned.exposure_["margin_in"] == pytest.approx(np.median(inside), rel=1e-6)
    assert tuned.exposure_["margin_out"] >= np.quantile(inside, 0.95) - 1e-6
    with_fixed_margins = mlp(max_epochs=20, exposure=EnergyMargin(epochs=1, **tuned.exposure_)).fit(
        *make_rows()
    )
    assert with_fixed_margins.exposure_ == tuned.exposure_ and predicts_the_same(
        with_fixed_margins, tuned
    )


def test_given_outliers_replace_drawn_ones():
    """Give a single row: the network becomes uncertain there and stays confident on its own rows."""
    (X, y), given_outlier = make_rows(), np.array([[0.0, 0.0]])
    plain = mlp(max_epochs=30, patience=None).fit(X, y)
    exposed = mlp(max_epochs=30, patience=None, exposure=OutlierExposure(weight=1.0)).fit(
        X, y, X_outliers=given_outlier
    )
    assert (
        exposed.predict_proba(given_outlier).max()
        < 0.5
        < 0.6
        < plain.predict_proba(given_outlier).max()
    )
    assert exposed.score(X, y) > 0.95
    with pytest.raises(
        ParameterError,
        match=r"^X_outliers needs an exposure that trains with them, got exposure=None$",
    ):
        mlp().fit(X, y, X_outliers=given_outlier)
    with pytest.raises(
        ValueError,
        match=r"^rows of X_outliers must have the shape of those of X, \(2,\), got \(3,\)$",
    ):
        mlp(exposure=OutlierExposure()).fit(X, y, X_outliers=np.ones((4, 3)))


def test_sample_weights_apply_to_labelled_rows():
    """Compare a row of weight 2 with two rows in the margin loss.

    Outliers do not depend on weights.
    """
    inside, outside = logits(2, 0), logits(3, 1)
    repeated_row, weights = inside[[0, 1, 1]], torch.tensor([2 / 3, 4 / 3], dtype=torch.float64)
    costs = [
        energy_margin_loss(logits, sample_weight, outside, margin_in=-9.0, margin_out=0.0)
        for logits, sample_weight in ((repeated_row, torch.ones(3).double()), (inside, weights))
    ]
    assert costs[0].item() == pytest.approx(costs[1].item(), rel=1e-12)


@pytest.mark.parametrize("exposure", EXPOSURES, ids=NAMES)
def test_saved_model_is_restored(exposure):
    network = mlp(exposure=exposure).fit(*make_rows())
    restored = from_bytes(to_bytes(network), "it").value
    assert predicts_the_same(network, restored) and restored.describe() == network.describe()
    assert predicts_the_same(clone(restored).fit(*make_rows()), network)


@pytest.mark.parametrize(
    "exposure",
    [OutlierExposure(), Acet(steps=2, start="trained", epochs=4)],
    ids=["scratch", "trained"],
)
def test_interrupted_training_resumes_to_the_same_bits(exposure, tmp_path, monkeypatch):
    options = {"exposure": exposure, "dropout": 0.2, "checkpoint": str(tmp_path / "state")}
    uninterrupted = mlp(**options).fit(*make_rows())
    assert not list(tmp_path.iterdir())
    epochs, once = [], training._TrainingRun.run_epoch
    last = 3 if exposure.start == "scratch" else 7  # of the training, or the third of the tuning

    def epoch(self, *arguments):
        epochs.append(self.auxiliary is not None)
        if len(epochs) == last:
            raise KeyboardInterrupt
        return once(self, *arguments)

    monkeypatch.setattr(training._TrainingRun, "run_epoch", epoch)
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        mlp(**options).fit(*make_rows())
    assert list(tmp_path.iterdir())
    resumed = mlp(**options).fit(*make_rows())
    assert (
        predicts_the_same(resumed, uninterrupted)
        and resumed.exposure_history_ == uninterrupted.exposure_history_
        and epochs[last:] == [True] * 2
    )
    assert not list(tmp_path.iterdir())


def test_checkpoint_of_another_exposure_is_ignored(tmp_path):
    network, module = mlp(checkpoint=str(tmp_path / "state")), nn.Linear(2, 3)
    exposures = [
        Acet(steps=3),
        Acet(steps=3),
        Acet(steps=2),
        Acet(steps=3, outliers=NoiseOutliers(margin=0.1)),
    ]
    with_rows = [
        OutlierExposure(outliers=DatasetOutliers(source=NamedSource(place)))
        for place in ("here", "here", "there")
    ]
    states = [
        network.set_params(exposure=exposure)._checkpoint(module, make_rows(), 0, "cpu")
        for exposure in exposures + with_rows
    ]
    prints = [state.fingerprint for state in states if state is not None]
    assert prints[0] == prints[1] and prints[4] == prints[5] and len(set(prints)) == 5


class NamedSource:
    """Source that is described only by its fields, as those of the library are."""

    def __init__(self, place: str) -> None:
        self.place = place


# other networks


def test_an_ensemble_exposes_every_member():
    X, y = make_rows()
    options = {**SMALL, "members": 3, "patience": None, "max_epochs": 15}
    for exposure in (
        OutlierExposure(weight=1.0),
        OutlierExposure(weight=1.0, start="trained", learning_rate=0.02),
    ):
        plain, exposed = (
            MultilayerPerceptronEnsemble(**options, exposure=setting).fit(X, y)
            for setting in (None, exposure)
        )
        noise = np.random.default_rng(0).random((200, 2), dtype=np.float32)
        confidence = [
            np.exp(ensemble.member_log_proba(noise)).max(axis=2).mean(axis=1)
            for ensemble in (plain, exposed)
        ]
        assert (confidence[1] < confidence[0]).all() and exposed.score(X, y) > 0.95


def test_trains_on_images_and_with_batch_norm(recwarn):
    rng = np.random.default_rng(0)
    X, y = rng.random((24, 1, 8, 8), dtype=np.float32), np.arange(24) % 2
    for exposure in (
        OutlierExposure(outliers="mixed"),
        Acet(steps=1, start="trained", epochs=1, outliers="permuted"),
    ):
        options = {
            "depth": 8,
            "width": 2,
            "max_epochs": 1,
            "batch_size": 8,
            "device": "cpu",
            "random_state": 0,
        }
        networks = [ResidualNetwork(**options, exposure=exposure).fit(X, y) for _ in range(2)]
        np.testing.assert_array_equal(*(network.logits(X) for network in networks))
    assert not [warning for warning in recwarn.list if "learnt nothing" not in str(warning.message)]


def test_an_exposure_refuses_a_frozen_encoder():
    X, y = np.zeros((16, 1, 8, 8), dtype=np.float32), np.arange(16) % 2
    with pytest.raises(
        ParameterError,
        match=r"^freeze must be false with an exposure, which trains the whole network, got True$",
    ):
        EncoderNetwork(device="cpu", freeze=True, exposure=OutlierExposure()).fit(X, y)


@pytest.mark.parametrize(
    ("exposure", "options", "message"),
    [
        ("oe", {}, "exposure must be an Exposure of kdgraph.parents.networks, or None, got 'oe'"),
        (OutlierExposure(weight=-1), {}, "exposure.weight must be in [0, inf), got -1"),
        (Acet(steps=0), {}, "exposure.steps must be in [1, inf), got 0"),
        (
            OutlierExposure(outliers="nois"),  # pyright: ignore[reportArgumentType]
            {},
            (
                "exposure.outliers must be noise, permuted, mixed, or an OutlierSource of"
                " kdgraph.parents.networks, got 'nois'"
            ),
        ),
        (
            OutlierExposure(outliers=NoiseOutliers(smoothed_fraction=2)),
            {},
            "exposure.outliers.smoothed_fraction must be in [0, 1], got 2",
        ),
        (
            OutlierExposure(),
            {"max_epochs": 0},
            "exposure.start must be trained with max_epochs=0, which trains nothing, got scratch",
        ),
        (
            EnergyMargin(start="scratch"),
            {},
            (
                "exposure.margin_in and margin_out must be numbers with start=scratch, which has no"
                " energies to begin with"
            ),
        ),
        (
            EnergyMargin(margin_in=1, margin_out=-2),
            {},
            "exposure.margin_in must not be above margin_out, -2, got 1",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_rejects_invalid_exposures(exposure, options, message):
    with pytest.raises(ParameterError) as caught:
        mlp(exposure=exposure, **options).fit(*make_rows())
    assert str(caught.value) == message


def test_given_rows_are_drawn_with_replacement():
    sampled_rows = row_sampler(np.arange(3, dtype=np.float32)[:, None])(
        100, np.random.default_rng(0)
    )
    assert set(sampled_rows[:, 0]) == {0, 1, 2} and sampled_rows.shape == (100, 1)
