"""Training loop against explicit loops; seeds and resumed trainings give the same bits."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from kdgraph.parents.networks.checkpoint import Checkpoint
from kdgraph.parents.networks.classifier import binary_cross_entropy, cross_entropy
from kdgraph.parents.networks.torch_state import deterministic_torch, intra_op_threads
from kdgraph.parents.networks.training import Examples, TrainingOptions, split_batches, train


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Use one thread, since threads that wait for each other are slow on a busy machine."""
    with intra_op_threads(1):
        yield


OPTIONS = TrainingOptions(max_epochs=6, batch_size=16, learning_rate=0.01, patience=None)


def examples(n: int, seed: int = 0, weights=None) -> Examples:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + np.eye(3, 4)[y]
    return Examples(
        torch.tensor(X, dtype=torch.float32),
        torch.from_numpy(y),
        torch.ones(n) if weights is None else torch.tensor(weights).float(),
    )


def network(seed: int = 0, dropout: float = 0.0, norm: bool = False) -> nn.Sequential:
    with deterministic_torch("cpu", seed):
        middle = [nn.BatchNorm1d(12)] if norm else []
        return nn.Sequential(
            nn.Linear(4, 12), *middle, nn.ReLU(), nn.Dropout(dropout), nn.Linear(12, 3)
        )


def weights_of(module: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for value in module.state_dict().values()]


def assert_equal_states(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights_of(a), weights_of(b), strict=True))


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_one_batch_an_epoch_matches_the_explicit_optimizer(optimizer, schedule):
    """Compare with Adam (Kingma and Ba, Algorithm 1) and momentum in float64.

    With all rows in one batch, their order has no effect.
    """
    data, module = examples(30), network()
    options = replace(
        OPTIONS, optimizer=optimizer, schedule=schedule, batch_size=30, weight_decay=0.1
    )
    twin = network().double()
    train(module, data, cross_entropy, options, seed=0)
    parameters = list(twin.parameters())
    first, second = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for epoch in range(6):
        rate = 0.01 * (0.5 * (1 + np.cos(np.pi * epoch / 6)) if schedule == "cosine" else 1)
        loss = nn.functional.cross_entropy(twin(data.inputs.double()), data.targets)
        for i, (p, g) in enumerate(
            zip(parameters, torch.autograd.grad(loss, parameters), strict=True)
        ):
            g = g + 0.1 * p.detach()
            if optimizer == "sgd":
                first[i] = 0.9 * first[i] + g
                step = first[i]
            else:
                first[i], second[i] = 0.9 * first[i] + 0.1 * g, 0.999 * second[i] + 0.001 * g**2
                t = epoch + 1
                step = first[i] / (1 - 0.9**t) / ((second[i] / (1 - 0.999**t)).sqrt() + 1e-8)
            p.data -= rate * step
    for parameter, expected in zip(module.parameters(), twin.parameters(), strict=True):
        # Six steps of 0.01, each right to float32's 6e-8 except where a gradient is near 0.
        torch.testing.assert_close(parameter.double(), expected, rtol=1e-4, atol=1e-5)


def test_loss_of_the_history_is_the_mean_over_rows():
    """Train with a learning rate of almost 0, so that the weights stay the same.

    Batches of 16, 16, 16 and 3 rows then have the mean loss over all 51 rows.
    """
    weights = np.random.default_rng(1).random(51)
    data, validation = examples(51, weights=weights), examples(20, 1)
    module = network()
    result = train(
        module,
        data,
        cross_entropy,
        replace(OPTIONS, learning_rate=1e-30, max_epochs=1),
        seed=0,
        validation=validation,
    )
    with torch.no_grad():
        row_losses = nn.functional.cross_entropy(
            network()(data.inputs), data.targets, reduction="none"
        ).numpy()
        held_out = nn.functional.cross_entropy(
            network()(validation.inputs), validation.targets
        ).item()
    (entry,) = result.history
    assert entry["epoch"] == 1
    assert entry["loss"] == pytest.approx((weights * row_losses).mean(), rel=1e-6)  # float32
    assert entry["validation_loss"] == pytest.approx(held_out, rel=1e-6)


def test_rows_of_weight_zero_are_ignored():
    """Compare one batch with half of the rows at weight 0 with the batch of the others.

    The others have a weight of 2, so that the mean weight is 1.
    """
    data = examples(40, weights=np.repeat([2.0, 0.0], 20))
    half = Examples(data.inputs[:20], data.targets[:20], torch.ones(20))
    weighted, separate = network(), network()
    train(weighted, data, cross_entropy, replace(OPTIONS, batch_size=40, optimizer="sgd"), seed=0)
    train(separate, half, cross_entropy, replace(OPTIONS, batch_size=20, optimizer="sgd"), seed=0)
    for a, b in zip(weights_of(weighted), weights_of(separate), strict=True):
        # These are sums of 40 float32 terms in another order.
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def scripted(losses):
    """Return a loss with given validation values.

    The weights that it receives increase by one in each epoch.
    """
    values = iter(losses)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.count.expand(len(x))

    def loss(outputs, targets, weights):
        if torch.is_grad_enabled():
            return -outputs.mean()  # plain descent adds the learning rate to the count
        return torch.tensor(next(values))

    return Counter(), loss


@pytest.mark.parametrize(
    ("losses", "patience", "n_epochs", "best"),
    [
        ([5.0, 4.0, 3.0, 3.5, 3.2, 1.0], 2, 5, 3),
        ([5.0, 4.0, 4.0, 4.0, 1.0], 2, 4, 2),  # of equals the first
        ([5.0, 3e-8, 2e-8, 1e-8, 1.0], 2, 4, 2),  # equal up to rounding in single precision
        ([5.0, 4e-7, 3.4e-7, 2.5e-7, 1.6e-7, 1e-7], 2, 6, 6),  # small steps that add up
        ([3.0, 4.0, 1.0], 1, 2, 1),
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 2, 6, 6),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], None, 6, 6),
    ],
)
def test_early_stopping(losses, patience, n_epochs, best):
    module, loss = scripted(losses)
    rows = Examples(torch.zeros(4, 1), torch.zeros(4), torch.ones(4))
    options = TrainingOptions(
        optimizer="adam", learning_rate=1.0, batch_size=4, max_epochs=6, patience=patience
    )
    result = train(module, rows, loss, options, seed=0, validation=rows)
    assert (len(result.history), result.best_epoch) == (n_epochs, best)
    # Adam moves by the learning rate while the gradient stays the same, so the count is the epoch
    # of the weights.
    assert module.count.item() == pytest.approx(best, rel=1e-5)


def test_training_loss_is_monitored_without_validation():
    module = network()
    result = train(
        module,
        examples(64),
        cross_entropy,
        replace(OPTIONS, max_epochs=60, patience=3, learning_rate=0.3),
        seed=0,
    )
    losses = [entry["loss"] for entry in result.history]
    assert result.best_epoch == 1 + int(np.argmin(losses)) and len(losses) == result.best_epoch + 3


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [
        (10, 4, [4, 4, 2]),
        (9, 4, [4, 5]),
        (8, 4, [4, 4]),
        (3, 4, [3]),
        (1, 4, [1]),
        (5, 1, [1] * 5),
        (3, 2, [3]),
    ],
)
def test_batches_contain_every_row_once_and_never_a_single_row(n, size, sizes):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    parts = list(split_batches(order, size))
    assert [len(part) for part in parts] == sizes
    assert torch.equal(torch.cat(parts), order)


@pytest.mark.parametrize("n", [17, 33, 48])
def test_batch_normalisation_with_any_number_of_rows(n):
    assert (
        len(
            train(
                network(norm=True),
                examples(n),
                cross_entropy,
                OPTIONS,
                seed=0,
                validation=examples(17),
            ).history
        )
        == 6
    )


def test_is_determined_by_the_seed():
    first, repeated, other_seed = (network(dropout=0.3) for _ in range(3))
    for module, seed in ((first, 1), (repeated, 1), (other_seed, 2)):
        train(module, examples(50), cross_entropy, OPTIONS, seed=seed)
        torch.rand(3)  # the user's own numbers do not matter
    assert assert_equal_states(first, repeated) and not assert_equal_states(first, other_seed)


class Killed(Exception):
    pass


@pytest.mark.parametrize("cut", [1, 3, 4])
@pytest.mark.parametrize(
    "changes",
    [{}, {"patience": 2, "learning_rate": 0.2}, {"optimizer": "sgd", "schedule": "cosine"}],
    ids=str,
)
def test_interrupted_training_resumes_to_the_same_bits(tmp_path, monkeypatch, cut, changes):
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    options = replace(OPTIONS, **changes)
    data, validation = examples(50), examples(20, 1)
    uninterrupted = network(dropout=0.3, norm=True)
    expected = train(uninterrupted, data, cross_entropy, options, seed=3, validation=validation)
    epochs = []

    def report(progress):
        epochs.append(progress.epoch)
        if len(epochs) == cut:
            raise Killed

    module = network(dropout=0.3, norm=True)
    with pytest.raises(Killed):
        train(
            module,
            data,
            cross_entropy,
            options,
            seed=3,
            validation=validation,
            report=report,
            checkpoint=checkpoint_in(tmp_path),
        )
    resumed = network(seed=9, dropout=0.3, norm=True)
    result = train(
        resumed,
        data,
        cross_entropy,
        options,
        seed=3,
        validation=validation,
        report=report,
        checkpoint=checkpoint_in(tmp_path),
    )
    assert assert_equal_states(resumed, uninterrupted) and result == expected
    assert epochs == list(range(1, len(expected.history) + 1))


def checkpoint_in(folder) -> Checkpoint:
    return Checkpoint(folder / "state", "a")


def test_a_finished_training_is_not_repeated(tmp_path):
    finished, repeated = network(), network(seed=5)
    expected = train(
        finished, examples(50), cross_entropy, OPTIONS, seed=3, checkpoint=checkpoint_in(tmp_path)
    )
    reports = []
    assert (
        train(
            repeated,
            examples(50),
            cross_entropy,
            OPTIONS,
            seed=3,
            checkpoint=checkpoint_in(tmp_path),
            report=reports.append,
        )
        == expected
    )
    assert assert_equal_states(finished, repeated) and reports == []


def test_reports_every_epoch(monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 10.0))
    monkeypatch.setattr("kdgraph.parents.networks.training.time.perf_counter", lambda: next(clock))
    reports = []
    result = train(
        network(),
        examples(50),
        cross_entropy,
        OPTIONS,
        seed=0,
        report=reports.append,
        stage="warming up",
    )
    assert [(r.epoch, r.max_epochs, r.seconds_left, r.stage) for r in reports] == [
        (e, 6, 10.0 * (6 - e), "warming up") for e in range(1, 7)
    ]
    assert [(r.loss, r.validation_loss) for r in reports] == [
        (h["loss"], None) for h in result.history
    ]


def test_global_state_is_restored():
    torch.manual_seed(7)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    module = network(dropout=0.5)
    train(module, examples(50), cross_entropy, OPTIONS, seed=1)
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads
    assert not module.training and all(p.grad is None for p in module.parameters())
    with deterministic_torch("cpu", 0, threads + 1):
        assert torch.get_num_threads() == threads + 1
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads


def test_trainings_in_two_threads_take_turns():
    expected = network(dropout=0.3)
    train(expected, examples(50), cross_entropy, OPTIONS, seed=1)
    modules = [network(dropout=0.3) for _ in range(3)]
    workers = [
        threading.Thread(
            target=train, args=(m, examples(50), cross_entropy, OPTIONS), kwargs={"seed": 1}
        )
        for m in modules
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(assert_equal_states(module, expected) for module in modules)


@pytest.mark.parametrize("patience", [None, 3])
def test_divergence_raises(patience):
    options = replace(OPTIONS, optimizer="sgd", learning_rate=1e30, patience=patience)
    with pytest.raises(ValueError, match="training diverged") as caught:
        train(network(), examples(50), cross_entropy, options, seed=0)
    assert (
        str(caught.value)
        == "training diverged: the loss of epoch 1 is not finite; lower learning_rate, 1e+30, or"
        " scale the features"
    )


def test_rejects_a_module_without_parameters():
    with pytest.raises(ValueError, match="Flatten") as caught:
        train(nn.Flatten(), examples(50), cross_entropy, OPTIONS, seed=0)
    assert str(caught.value) == "Flatten has no parameter to train; max_epochs=0 uses it unchanged"
    assert (
        train(
            nn.Flatten(), examples(50), cross_entropy, replace(OPTIONS, max_epochs=0), seed=0
        ).history
        == []
    )


def test_frozen_parameters_are_not_changed():
    module = network()
    module[0].requires_grad_(False)
    before = module[0].weight.clone()
    train(module, examples(50), cross_entropy, OPTIONS, seed=0)
    assert torch.equal(module[0].weight, before) and not torch.equal(
        module[3].weight, network()[3].weight
    )


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_binary_cross_entropy_by_class(n_classes):
    rng = np.random.default_rng(0)
    logits, targets, weights = (
        rng.normal(scale=4, size=(40, n_classes)),
        rng.integers(0, n_classes, 40),
        rng.random(40),
    )
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    own = np.eye(n_classes)[targets]
    expected = (weights * -(own * np.log(p) + (1 - own) * np.log(1 - p)).mean(1)).mean()
    loss = binary_cross_entropy(torch.tensor(logits), torch.tensor(targets), torch.tensor(weights))
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_binary_cross_entropy_is_finite_for_a_saturated_softmax():
    """Test a logit that is larger by 200.

    A row of another class has a loss of (200 + 200) / 3 and a finite gradient. A row of that class has
    a loss of 0.
    """
    logits = torch.tensor(
        [[200.0, 0.0, 0.0], [200.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True
    )
    losses = [
        binary_cross_entropy(logits[i : i + 1], torch.tensor([t]), torch.ones(1))
        for i, t in enumerate((0, 1, 2))
    ]
    expected = [0.0, (200 + 200 - np.log(2)) / 3, np.log(3) / 3 + 2 * np.log(1.5) / 3]
    assert [loss.item() for loss in losses] == pytest.approx(expected, rel=1e-6)
    torch.stack(losses).sum().backward()
    assert torch.isfinite(logits.grad).all() and logits.grad[1, 0] > 0.3


def test_examples_by_row_and_their_weights():
    data = examples(5, weights=[1, 2, 3, 4, 5])
    inputs, targets, weights = data[torch.tensor([3, 0])]
    assert (
        torch.equal(inputs, data.inputs[[3, 0]])
        and torch.equal(targets, data.targets[[3, 0]])
        and weights.tolist() == [4.0, 1.0]
    )
    assert data.to_device("cpu") is data


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("amp", [True, False])
def test_cuda(amp, tmp_path, monkeypatch):
    """Train to the same bits twice, also after an interruption, and release the memory."""
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    options = replace(OPTIONS, device="cuda", amp=amp)
    modules = [network(dropout=0.3) for _ in range(3)]
    train(modules[0], examples(50), cross_entropy, options, seed=0)
    # From its first product on, cuBLAS keeps memory of its own.
    used = torch.cuda.memory_allocated()
    train(modules[1], examples(50), cross_entropy, options, seed=0)

    def report(progress):
        if progress.epoch == 3:
            raise Killed

    with pytest.raises(Killed):
        train(
            network(dropout=0.3),
            examples(50),
            cross_entropy,
            options,
            seed=0,
            report=report,
            checkpoint=checkpoint_in(tmp_path),
        )
    train(
        modules[2], examples(50), cross_entropy, options, seed=0, checkpoint=checkpoint_in(tmp_path)
    )
    assert assert_equal_states(modules[0], modules[1]) and assert_equal_states(
        modules[0], modules[2]
    )
    assert (
        all(p.device.type == "cpu" for p in modules[0].parameters())
        and torch.cuda.memory_allocated() == used
    )
