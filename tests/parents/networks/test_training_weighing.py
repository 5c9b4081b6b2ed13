"""Networks calibrated in training: selection of the weight, early stopping by accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from kdgraph.errors import ParameterError
from kdgraph.metrics import mmce, nll
from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble, training

SMALL = {
    "hidden": (32,),
    "learning_rate": 0.02,
    "batch_size": 32,
    "max_epochs": 8,
    "device": "cpu",
    "random_state": 0,
}


def make_noisy_moons(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return moons with an incorrect label for a fifth of the rows."""
    X, y = make_moons(n, noise=0.3, random_state=seed)
    return X, np.where(np.random.default_rng(seed).random(n) < 0.2, 1 - y, y)


def mlp(**options) -> MultilayerPerceptron:
    return MultilayerPerceptron(**{**SMALL, **options})


def predicts_the_same(a, b) -> bool:
    X = make_noisy_moons(50, 1)[0]
    return np.array_equal(a.logits(X), b.logits(X))


def test_weight_0_is_the_cross_entropy_to_the_bit():
    plain, weighed = (
        mlp(dropout=0.2).fit(*make_noisy_moons(300)),
        mlp(dropout=0.2, loss="mmce", mmce_weight=0).fit(*make_noisy_moons(300)),
    )
    assert (
        predicts_the_same(plain, weighed)
        and weighed.history_ == plain.history_
        and weighed.mmce_weight_ == 0
    )
    assert not hasattr(plain, "mmce_weight_")


def held_out(X, y, seed):
    """Return the held-out rows of a network with this seed, by the documented rule."""
    drawn_seed = int(np.random.RandomState(seed).randint(np.iinfo(np.int32).max))
    return train_test_split(np.arange(len(y)), test_size=0.1, stratify=y, random_state=drawn_seed)[
        1
    ]


def test_keeps_the_weight_with_the_lowest_held_out_nll():
    X, y = make_noisy_moons(400)
    rows, weights = held_out(X, y, 0), [0.0, 2.0, 8.0]
    single_weight_networks = [mlp(loss="mmce", mmce_weight=weight).fit(X, y) for weight in weights]
    expected = [
        nll(y[rows], single_weight_network.predict_proba(X[rows]))
        for single_weight_network in single_weight_networks
    ]
    tuned = mlp(loss="mmce", mmce_weight=weights).fit(X, y)
    np.testing.assert_allclose(tuned.mmce_nll_, expected, rtol=1e-6)  # of logits in float32
    best = int(np.argmin(expected))
    assert tuned.mmce_weight_ == weights[best] and predicts_the_same(
        tuned, single_weight_networks[best]
    )
    assert (tuned.history_, tuned.best_epoch_) == (
        single_weight_networks[best].history_,
        single_weight_networks[best].best_epoch_,
    )


def make_many_features(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 20 features, two of which are informative.

    A network that overfits the rows is overconfident on others.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    return X, (X[:, 0] + X[:, 1] + rng.normal(size=n) > 0).astype(int)


def test_calibrates_an_overconfident_network():
    """Compare the error on new rows.

    In five seeds it was 0.11 to 0.16 without calibration, and 0.05 to 0.10 with it.
    """
    test = make_many_features(2000, 1)
    options = {"max_epochs": 30, "patience": None, "hidden": (64,), "learning_rate": 0.005}
    plain, calibrated = (
        mlp(**options, **loss_options).fit(*make_many_features(200, 0))
        for loss_options in ({}, {"loss": "mmce", "mmce_weight": 8.0})
    )
    errors = [mmce(test[1], net.predict_proba(test[0])) for net in (plain, calibrated)]
    assert errors[1] < 0.8 * errors[0]
    assert calibrated.score(*test) > plain.score(*test) - 0.02


def test_calibrates_an_ensemble():
    """Compare the error on new rows.

    In four seeds it was 0.10 to 0.13 without calibration, and 0.03 to 0.07 with it.
    """
    train, test = make_many_features(100, 0), make_many_features(2000, 1)
    options = {**SMALL, "members": 2, "patience": None}
    plain, calibrated = (
        MultilayerPerceptronEnsemble(**options, **loss_options).fit(*train)
        for loss_options in ({}, {"loss": "mmce", "mmce_weight": 8.0})
    )
    errors = [mmce(test[1], net.predict_proba(test[0])) for net in (plain, calibrated)]
    assert errors[1] < 0.8 * errors[0] and calibrated.score(*test) > plain.score(*test) - 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mmce_weight": -1.0}, "mmce_weight must be in [0, inf) or a list, got -1.0"),
        ({"mmce_weight": []}, "mmce_weight must have at least one number, got []"),
        (
            {"mmce_weight": [0, 1], "patience": None},
            (
                "mmce_weight must be one number, got [0.0, 1.0]: without held-out rows"
                " (patience=null or stop_on=train) nothing chooses among several"
            ),
        ),
    ],
)
def test_rejects_weights_that_cannot_be_compared(options, message):
    with pytest.raises(ParameterError) as caught:
        mlp(loss="mmce", **options).fit(*make_noisy_moons(50))
    assert str(caught.value) == message


def test_interrupted_training_resumes_with_its_weight(tmp_path, monkeypatch):
    X, y = make_noisy_moons(200)
    options = {
        "loss": "mmce",
        "mmce_weight": [0.0, 2.0, 4.0],
        "max_epochs": 5,
        "checkpoint": str(tmp_path / "state"),
    }
    uninterrupted = mlp(**options).fit(X, y)
    assert not list(tmp_path.iterdir())
    epochs = []
    once = training._TrainingRun.run_epoch

    def epoch(self, *arguments):
        epochs.append(self.loss.weight)
        if len(epochs) == 8:  # the third of the second weight
            raise KeyboardInterrupt
        return once(self, *arguments)

    monkeypatch.setattr(training._TrainingRun, "run_epoch", epoch)
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        mlp(**options).fit(X, y)
    assert len(list(tmp_path.iterdir())) == 2
    resumed = mlp(**options).fit(X, y)
    assert (
        predicts_the_same(resumed, uninterrupted)
        and resumed.mmce_nll_ == uninterrupted.mmce_nll_
        and epochs[8:] == [2.0] * 3 + [4.0] * 5
    )
    assert not list(tmp_path.iterdir())


# stopping on accuracy


def test_validation_accuracy_selects_the_epoch():
    X, y = make_noisy_moons(400)
    net = mlp(stop_on="validation_accuracy", patience=5, max_epochs=60, hidden=(64, 64)).fit(X, y)
    errors = [entry["validation_error"] for entry in net.history_]
    assert net.best_epoch_ == 1 + int(np.argmin(errors)) and net.n_epochs_ == net.best_epoch_ + 5
    assert 1 - net.score(X[rows := held_out(X, y, 0)], y[rows]) == pytest.approx(
        min(errors), abs=1e-12
    )
    by_loss = mlp(patience=5, max_epochs=60, hidden=(64, 64)).fit(X, y)
    assert "validation_error" not in by_loss.history_[0] and by_loss.best_epoch_ != net.best_epoch_
    # Both trainings are the same until one of them stops.
    for epoch, epoch_by_loss in zip(net.history_, by_loss.history_, strict=False):
        assert (epoch["loss"], epoch["validation_loss"]) == (
            epoch_by_loss["loss"],
            epoch_by_loss["validation_loss"],
        )


def test_validation_accuracy_uses_row_weights():
    X, y = make_noisy_moons(400)
    weight = np.where(y == 1, 3.0, 1.0)
    net = mlp(stop_on="validation_accuracy", patience=4, max_epochs=20).fit(X, y, weight)
    rows = held_out(X, y, 0)
    wrong = net.predict(X[rows]) != y[rows]
    expected = (wrong * weight[rows]).sum() / weight[rows].sum()
    # Float32.
    assert net.history_[net.best_epoch_ - 1]["validation_error"] == pytest.approx(
        expected, abs=1e-6
    )


def test_no_warning_for_an_accurate_overconfident_network(recwarn):
    """Stop late by accuracy.

    The loss may then be above that of constant class proportions without a failed training.
    """
    X, y = make_noisy_moons(300)
    net = mlp(stop_on="validation_accuracy", max_epochs=5).fit(X, y)
    net.history_[net.best_epoch_ - 1]["validation_loss"] = 5.0
    net._warn_if_no_better_than_constant(training.Examples(*_tensors(X, y)))
    assert not recwarn.list
    net.history_[net.best_epoch_ - 1]["validation_error"] = 0.6
    with pytest.warns(UserWarning, match="learnt nothing"):
        net._warn_if_no_better_than_constant(training.Examples(*_tensors(X, y)))


def _tensors(X, y):
    import torch

    return torch.from_numpy(X).float(), torch.from_numpy(y), torch.ones(len(y))


def test_can_be_cloned():
    net = mlp(loss="mmce", mmce_weight=(0.0, 1.0), stop_on="validation_accuracy")
    assert clone(net).get_params() == net.get_params()
