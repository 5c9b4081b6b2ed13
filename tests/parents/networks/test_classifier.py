"""Networks as scikit-learn classifiers: labels, weights, seeds, OOD rows, files, messages."""

from __future__ import annotations

import io
import pickle

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from torch import nn

from kdgraph.errors import ParameterError
from kdgraph.parameters import annotations_of
from kdgraph.parents.networks import (
    ConvolutionalNetwork,
    MultilayerPerceptron,
    NetworkClassifier,
    TorchClassifier,
)
from tests.variations import others_slow

OPTIONS = {
    "max_epochs": 6,
    "batch_size": 16,
    "learning_rate": 0.02,
    "device": "cpu",
    "random_state": 0,
}


def mlp(**options) -> MultilayerPerceptron:
    return MultilayerPerceptron(**{"hidden": (9, 7), **OPTIONS, **options})


def problem(n: int, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return rng.normal(size=(n, 5)) + 2 * np.eye(n_classes, 5)[y], y


@pytest.fixture(scope="module")
def data():
    return problem(301)


@pytest.fixture(scope="module")
def fitted_mlp(data):
    return mlp(dropout=0.1).fit(*data)


def images(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    X, y = problem(n, 2)
    return X[:, None, :, None] * X[:, None, None, :], y


def predicts_the_same(a, b, X) -> bool:
    return np.array_equal(a.logits(X), b.logits(X))


@pytest.mark.parametrize(
    "names", [("a", "b", "c"), (5, 6, 9), (-1.0, 0.0, 2.0), (False, True)], ids=str
)
def test_accepts_labels_of_any_type(names):
    X, y = problem(80, len(names))
    labelled, numbered = mlp().fit(X, np.array(names)[y]), mlp().fit(X, y)
    assert labelled.classes_.tolist() == sorted(names)
    assert predicts_the_same(labelled, numbered, X)
    assert np.array_equal(labelled.predict(X), np.array(names)[numbered.predict(X)])
    assert labelled.score(X, np.array(names)[y]) > 0.7


def test_probabilities_are_the_softmax_of_the_module(data, fitted_mlp):
    with torch.no_grad():
        logits = fitted_mlp.module_(torch.tensor(data[0], dtype=torch.float32)).double()
    # Float32, and another batch size.
    np.testing.assert_allclose(fitted_mlp.logits(data[0]), logits.numpy(), atol=1e-5)
    proba = fitted_mlp.predict_proba(data[0])
    np.testing.assert_allclose(proba, logits.softmax(1).numpy(), atol=1e-5)
    assert proba.dtype == np.float64 and np.abs(proba.sum(axis=1) - 1).max() < 1e-12
    assert np.array_equal(fitted_mlp.decision_function(data[0]), fitted_mlp.logits(data[0]))
    assert np.array_equal(fitted_mlp.predict(data[0]), proba.argmax(axis=1))


def test_decision_function_of_two_classes():
    X, y = problem(60, 2)
    net = mlp().fit(X, y)
    p = net.predict_proba(X)
    np.testing.assert_allclose(net.decision_function(X), np.log(p[:, 1] / p[:, 0]), rtol=1e-9)
    assert np.array_equal(net.decision_function(X) > 0, net.predict(X) == 1)


def test_prediction_does_not_depend_on_other_rows(data, fitted_mlp):
    X = data[0]
    for function in (fitted_mlp.predict_proba, fitted_mlp.transform, fitted_mlp.logits):
        together = function(X)
        assert all(
            np.array_equal(function(X[i : i + 1]), together[i : i + 1])
            for i in (0, 13, 255, 256, 300)
        )
    assert predicts_the_same(fitted_mlp, clone(fitted_mlp).set_params(n_jobs=2).fit(*data), X)


@pytest.mark.parametrize("size", [1e15, 1e16, 1e200, np.finfo(float).max])
def test_far_rows_have_finite_probabilities(fitted_mlp, size):
    X = np.concatenate([np.eye(5), -np.eye(5), np.ones((1, 5))]) * size
    proba = fitted_mlp.predict_proba(X)
    assert np.isfinite(proba).all() and np.abs(proba.sum(axis=1) - 1).max() < 1e-12
    # Beyond 1e15 only the direction counts: 1e15 / size is rounded, hence one float32 step.
    np.testing.assert_allclose(proba, fitted_mlp.predict_proba(X / size * 1e15), atol=1e-6)


def test_overflowing_module_has_valid_probabilities():
    class Fourth(nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0] ** 4, -(x[:, 0] ** 4), x[:, 1] ** 4 - x[:, 0] ** 4], dim=1)

    net = TorchClassifier(Fourth(), max_epochs=0, device="cpu").fit(*problem(9))
    # Logits (inf, -inf, -inf), (inf, -inf, not a number), (0, 0, 0).
    proba = net.predict_proba([[1e12, 0, 0, 0, 0], [1e12, 1e12, 0, 0, 0], [0, 0, 0, 0, 0]])
    np.testing.assert_allclose(proba, [[1, 0, 0], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-15)


def test_same_seed_gives_the_same_bits(data, fitted_mlp):
    assert predicts_the_same(fitted_mlp, mlp(dropout=0.1).fit(*data), data[0])
    assert not predicts_the_same(fitted_mlp, mlp(dropout=0.1, random_state=1).fit(*data), data[0])
    networks = [mlp(random_state=np.random.RandomState(3)).fit(*data) for _ in range(2)]
    assert predicts_the_same(*networks, data[0])


def test_torch_state_and_threads_are_restored(data):
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    X = data[0].copy()
    mlp(threads=threads + 1, dropout=0.2, n_jobs=2).fit(*data).predict_proba(data[0])
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads
    assert np.array_equal(data[0], X)


def test_training_uses_the_given_number_of_threads(data):
    records = []
    mlp(
        threads=2, max_epochs=1, report=lambda progress: records.append(torch.get_num_threads())
    ).fit(*data)
    assert records == [2]


def test_weights(data):
    X, y = data
    weight = np.random.default_rng(0).random(len(y)) + 0.1
    weighted = mlp().fit(X, y, weight)
    # A power of two does not cause rounding.
    assert predicts_the_same(weighted, mlp().fit(X, y, 4 * weight), X)
    assert predicts_the_same(mlp().fit(X, y), mlp().fit(X, y, np.full(len(y), 2.0)), X)
    assert not predicts_the_same(weighted, mlp().fit(X, y), X)
    heavy = mlp(max_epochs=30).fit(X, y, np.where(y == 0, 100.0, 1.0))
    assert (heavy.predict(X) == 0).mean() > 1.1 * (
        mlp(max_epochs=30).fit(X, y).predict(X) == 0
    ).mean()


def test_rows_of_weight_zero_are_ignored(data):
    X, y = data
    weight = np.repeat([1.0, 0.0], [200, 101])
    assert predicts_the_same(mlp().fit(X, y, weight), mlp().fit(X[:200], y[:200]), X)


@pytest.mark.parametrize("options", [{"patience": None}, {"stop_on": "train"}], ids=str)
def test_trains_on_every_row_without_held_out_rows(data, options):
    net = mlp(**options).fit(*data)
    assert [entry["validation_loss"] for entry in net.history_] == [None] * net.n_epochs_


def test_validation_rows_are_not_trained_on(data, monkeypatch):
    records = {}

    def look(module, examples, loss, options, *, validation, **other_rows):
        records["rows"] = [set(map(tuple, part.inputs.numpy())) for part in (examples, validation)]
        records["classes"] = np.bincount(validation.targets)
        return train(module, examples, loss, options, validation=validation, **other_rows)

    from kdgraph.parents.networks import network

    train = network.train
    monkeypatch.setattr(network, "train", look)
    net = mlp(validation_fraction=0.2).fit(*data)
    assert [len(rows) for rows in records["rows"]] == [240, 61] and not set.intersection(
        *records["rows"]
    )
    assert sorted(records["classes"]) == [20, 20, 21]
    assert all(entry["validation_loss"] > 0 for entry in net.history_)


def test_trains_without_held_out_rows_if_rows_are_too_few():
    X, y = problem(6)
    assert all(entry["validation_loss"] is None for entry in mlp().fit(X, y).history_)


def test_the_only_row_of_a_class_is_trained_on():
    X, y = problem(60, 2)
    net = mlp(max_epochs=40).fit(np.vstack([X, np.full((1, 5), 9.0)]), np.append(y, 2))
    assert net.history_[0]["validation_loss"] is not None and net.predict([[9.0] * 5]) == 2


def test_keeps_the_weights_of_the_best_epoch(data):
    X, y = data
    history, best = (
        (net := mlp(max_epochs=60, learning_rate=0.2, patience=4).fit(X, y)).history_,
        net.best_epoch_,
    )
    assert best == 1 + np.argmin([entry["validation_loss"] for entry in history])
    assert len(history) == net.n_epochs_ == best + 4
    assert predicts_the_same(net, mlp(max_epochs=best, learning_rate=0.2, patience=4).fit(X, y), X)


@pytest.mark.parametrize("n", [2, 3, 17, 33])
def test_accepts_any_number_of_rows(n):
    X, y = problem(n, 2)
    for options in (
        {},
        {"batch_norm": True, "dropout": 0.2},
        {"loss": "binary_cross_entropy", "optimizer": "sgd", "schedule": "cosine"},
    ):
        assert mlp(**options).fit(X, y).predict_proba(X).shape == (n, 2)


@pytest.mark.parametrize("dump", [pickle.dumps, "joblib"])
@pytest.mark.parametrize(
    "net", [mlp(batch_norm=True), ConvolutionalNetwork(**OPTIONS)], ids=["vectors", "images"]
)
def test_round_trip_through_a_file(net, dump, data):
    X, y = data if isinstance(net, MultilayerPerceptron) else images()
    net = clone(net).fit(X, y)
    if dump == "joblib":
        file = io.BytesIO()
        joblib.dump(net, file)
        file.seek(0)
        loaded = joblib.load(file)
    else:
        loaded = pickle.loads(dump(net))
    assert predicts_the_same(net, loaded, X) and np.array_equal(
        net.transform(X), loaded.transform(X)
    )
    assert loaded.get_params() == net.get_params()


def test_float32_and_lists_and_cross_validation(data):
    X, y = data
    single = X.astype(np.float32)
    assert predicts_the_same(
        mlp().fit(single, y), mlp().fit(single.astype(float).tolist(), y.tolist()), single
    )
    assert cross_val_score(mlp(max_epochs=20), X, y, cv=2).mean() > 0.7


def test_layers(data, fitted_mlp):
    X = data[0]
    names = [str(number) for number in range(8)]
    assert fitted_mlp.layer_names_ == names  # Flatten, twice Linear, ReLU and Dropout, Linear
    with torch.no_grad():
        x = torch.tensor(X, dtype=torch.float32)
        for name in names:
            x = fitted_mlp.module_[int(name)](x)
            # Float32, and another batch size.
            np.testing.assert_allclose(fitted_mlp.transform(X, name), x.numpy(), atol=1e-5)
    assert np.array_equal(fitted_mlp.transform(X), fitted_mlp.transform(X, "6"))
    assert np.array_equal(fitted_mlp.transform(X, layer="7").astype(float), fitted_mlp.logits(X))
    assert not any(part._forward_hooks for part in fitted_mlp.module_.modules())


def test_maps_are_flattened():
    X, y = images()
    net = ConvolutionalNetwork(**OPTIONS).fit(X, y)
    assert net.transform(X, "1").shape == (80, 3 * 3 * 3) and np.array_equal(
        net.transform(X, "1"), net.transform(X, "2")
    )
    assert net.transform(X).shape == (80, 10)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("11", "no layer named '11'; did you mean '1'?"),
        ("last", "no layer named 'last'; layer_names_ lists them"),
    ],
)
def test_unknown_layer_names_are_rejected(data, fitted_mlp, layer, message):
    with pytest.raises(ValueError, match="no layer") as caught:
        fitted_mlp.transform(data[0], layer)
    assert str(caught.value) == message


def test_transform_requires_a_linear_layer():
    net = TorchClassifier(nn.Flatten(), max_epochs=0, device="cpu").fit(*problem(10, 5))
    with pytest.raises(ValueError, match="linear") as caught:
        net.transform(np.zeros((1, 5)))
    assert (
        str(caught.value)
        == "the module has no linear layer: give transform the name of a layer; layer_names_ lists"
        " them"
    )


class Killed(Exception):
    pass


def killed_after(epoch: int):
    def report(progress):
        if progress.epoch == epoch:
            raise Killed

    return report


@pytest.fixture
def interrupted_checkpoint(data, tmp_path, monkeypatch):
    """Return the checkpoint of a fit that was interrupted after three of six epochs."""
    monkeypatch.setattr("kdgraph.parents.networks.checkpoint.SAVE_INTERVAL_SECONDS", 0.0)
    path = tmp_path / "training"
    with pytest.raises(Killed):
        mlp(checkpoint=path, report=killed_after(3), dropout=0.1).fit(*data)
    assert path.exists()
    return path


def epochs_of(net: NetworkClassifier, X, y) -> list[int]:
    records = []
    net.set_params(report=lambda progress: records.append(progress.epoch)).fit(X, y)
    return records


def test_interrupted_fit_resumes_from_its_checkpoint(data, fitted_mlp, interrupted_checkpoint):
    net = mlp(checkpoint=str(interrupted_checkpoint), dropout=0.1, n_jobs=2)
    assert epochs_of(net, *data) == [4, 5, 6]
    assert (
        predicts_the_same(net, fitted_mlp, data[0])
        and net.history_ == fitted_mlp.history_
        and net.best_epoch_ == fitted_mlp.best_epoch_
    )
    assert list(interrupted_checkpoint.parent.iterdir()) == []


def test_report_is_not_part_of_the_fingerprint(data, interrupted_checkpoint):
    records = []
    mlp(checkpoint=interrupted_checkpoint, report=records.append, verbose=True, dropout=0.1).fit(
        *data
    )
    assert [progress.epoch for progress in records] == [4, 5, 6]


@pytest.mark.parametrize(
    "options",
    others_slow(
        [
            {"random_state": 1},
            {"learning_rate": 0.01},
            {"hidden": (9, 8)},
            {"dropout": 0.2},
            {"threads": 2},
        ]
    ),
    ids=str,
)
def test_a_checkpoint_of_other_parameters_is_ignored(data, interrupted_checkpoint, options):
    assert epochs_of(
        mlp(**{"checkpoint": interrupted_checkpoint, "dropout": 0.1, **options}), *data
    ) == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert not interrupted_checkpoint.exists()


def test_a_checkpoint_of_other_data_is_ignored(data, interrupted_checkpoint):
    X, y = data
    assert epochs_of(mlp(checkpoint=interrupted_checkpoint, dropout=0.1), X + 1e-9, y)[0] == 1


def test_truncated_checkpoint_is_ignored(data, fitted_mlp, interrupted_checkpoint):
    interrupted_checkpoint.write_bytes(interrupted_checkpoint.read_bytes()[:-100])
    net = mlp(checkpoint=interrupted_checkpoint, dropout=0.1)
    assert epochs_of(net, *data) == [1, 2, 3, 4, 5, 6] and predicts_the_same(
        net, fitted_mlp, data[0]
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a CUDA device here")
def test_no_cuda(data):
    with pytest.raises(ValueError, match="device") as caught:
        mlp(device="cuda").fit(*data)
    assert str(caught.value) == (
        "device=cuda needs a CUDA device, and torch sees none on this machine; choose device=auto"
        " or device=cpu"
    )
    assert predicts_the_same(mlp(device="auto").fit(*data), mlp(device="cpu").fit(*data), data[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "net",
    [mlp(device="cuda", batch_norm=True), ConvolutionalNetwork(**{**OPTIONS, "device": "cuda"})],
    ids=["vectors", "images"],
)
def test_cuda(net, data):
    X, y = data if isinstance(net, MultilayerPerceptron) else images()
    net = clone(net).fit(X, y)
    # From its first product on, cuBLAS keeps memory of its own.
    used = torch.cuda.memory_allocated()
    assert predicts_the_same(net, clone(net).fit(X, y), X)
    assert torch.cuda.memory_allocated() == used and all(
        p.device.type == "cpu" for p in net.module_.parameters()
    )
    assert np.array_equal(net.logits(X[7:8]), net.logits(X)[7:8])
    assert np.array_equal(net.transform(X[7:8]), net.transform(X)[7:8])
    np.testing.assert_allclose(
        net.set_params(device="cpu").logits(X),
        clone(net).set_params(device="cuda").fit(X, y).logits(X),
        atol=1e-4,  # float32, summed in another order
    )


def test_raises_before_fit():
    for method in ("predict", "predict_proba", "transform", "logits", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(mlp(), method)(np.zeros((1, 5)))
    with pytest.raises(NotFittedError):
        _ = mlp().layer_names_


def test_rejects_a_single_class():
    X, y = problem(20, 2)
    with pytest.raises(ValueError, match="one class") as caught:
        mlp().fit(X, y, (y == 0).astype(float))
    assert (
        str(caught.value)
        == "MultilayerPerceptron needs rows of at least two classes, got one class: [0]"
    )


def test_rejects_rows_of_another_shape():
    X, y = images()
    net = ConvolutionalNetwork(**OPTIONS).fit(X, y)
    with pytest.raises(ValueError, match="shape") as caught:
        net.predict(X[:, :, 1:])
    assert (
        str(caught.value)
        == "rows of X must have the shape of those in fit, (1, 5, 5), got (1, 4, 5)"
    )


def test_parameters_are_checked():
    with pytest.raises(ParameterError) as caught:
        mlp(learning_rate=0).fit(*problem(9))
    assert str(caught.value) == "learning_rate must be in (0, inf), got 0"
    assert {"hidden", "learning_rate", "device"} <= annotations_of(MultilayerPerceptron).keys()


def test_base_class_is_abstract():
    with pytest.raises(NotImplementedError):
        NetworkClassifier(device="cpu").fit(*problem(9))


@pytest.mark.parametrize("loss", ["cross_entropy", "binary_cross_entropy"])
@pytest.mark.parametrize("patience", [3, None])
def test_warns_if_no_better_than_constant(loss, patience):
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    message = "learnt nothing: its loss, .* is not below that of the class proportions; try another"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        MultilayerPerceptron(
            hidden=(4,), max_epochs=5, loss=loss, patience=patience, random_state=0
        ).fit(np.zeros((60, 2)), y)
    assert caught[0].filename == __file__  # it points at the call of fit
