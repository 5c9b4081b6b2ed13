"""The study of MNIST ensembles, on rows of a few pixels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import log_softmax, softmax

from experiments.p2.mnist import __main__ as command
from experiments.p2.mnist import figures, pool, readings
from experiments.p2.mnist.claims import claims
from experiments.p2.mnist.measure import (
    ALL,
    METHODS,
    UNCALIBRATED,
    errors,
    measure,
    measured,
    members_of,
)
from experiments.p2.mnist.pool import Pool, joint_proba, train
from experiments.p2.mnist.tables import by_class, overall
from kdgraph.errors import DataError
from kdgraph.metrics import TopLabel

NETWORKS, ROWS = 20, 600


@pytest.fixture
def text(tmp_path) -> Pool:
    """Networks that know the label and a noise of their own."""
    rng = np.random.default_rng(0)
    labels = {name: np.arange(ROWS) % 10 for name in ("1", "2")}
    log_proba = {}
    for name, y in labels.items():
        signal = 2.0 * np.eye(10)[y] + rng.normal(size=(ROWS, 10))  # what all networks see of a row
        log_proba[name] = log_softmax(
            signal + rng.normal(size=(NETWORKS, ROWS, 10)), axis=2
        ).astype(np.float32)
    return Pool(tmp_path, log_proba, labels)


def test_outputs_of_an_ensemble(text):
    members = members_of(3, NETWORKS)
    assert len(set(members.tolist())) == 10
    np.testing.assert_array_equal(members, members_of(3, NETWORKS))
    log_proba = text.log_proba["2"][members].astype(float)
    product = np.exp(log_proba).prod(axis=0)
    np.testing.assert_allclose(
        text.ensemble(members, "sum_logs")["2"],
        product / product.sum(axis=1, keepdims=True),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        joint_proba(log_proba, "mean"), softmax(log_proba, axis=2).mean(axis=0), rtol=1e-5
    )


def test_errors_agree_with_a_loop():
    rng = np.random.default_rng(1)
    top_label = TopLabel(rng.integers(3, size=200), rng.uniform(0.4, 0.99, 200), 3)
    y = rng.integers(3, size=200)
    result = {(entry["class"], entry["metric"]): entry["value"] for entry in errors(top_label, y)}
    for k in range(3):
        costs, gaps = [], {}
        for row in np.flatnonzero(top_label.predicted == k):
            c, right = top_label.confidence[row], y[row] == k
            costs.append(-np.log(c if right else 1 - c))
            gaps.setdefault(int(np.ceil(c * 15)), []).append(right - c)
        n = len(costs)
        assert result[str(k), "NLL"] == pytest.approx(np.mean(costs))
        assert result[str(k), "ECE1"] == pytest.approx(
            sum(abs(sum(gap)) for gap in gaps.values()) / n
        )
        assert result[str(k), "ECE2"] == pytest.approx(
            np.sqrt(sum(len(gap) * np.mean(gap) ** 2 for gap in gaps.values()) / n)
        )
    mean = sum(result[str(k), "NLL"] * (top_label.predicted == k).sum() for k in range(3)) / 200
    assert result[ALL, "NLL"] == pytest.approx(mean)


@pytest.mark.slow
def test_a_study_from_networks_to_tables_and_figures(text, monkeypatch):
    monkeypatch.setattr("experiments.p2.mnist.measure.PART", 2)
    lines = list(measure(text, 4, "mean"))
    assert [line.split(": ")[1] for line in lines] == ["ensembles 0 to 1", "ensembles 2 to 3"]
    assert list(measure(text, 4, "mean")) == []  # all there
    result = measured(text, 3, "mean")
    assert set(result.ensemble) == {0, 1, 2}
    assert set(result.method) == {*METHODS, UNCALIBRATED}
    table = overall(result)
    assert table.count("\n") == 1 + len(METHODS) + 1
    value = result[
        (result.method == "STS")
        & (result.metric == "NLL")
        & (result.test_set == "2")
        & (result["class"] == "4")
    ].value
    cell = by_class(result, "NLL").splitlines()[2].split("|")[6]
    assert float(cell.split("/")[1]) == pytest.approx(value.median(), abs=5e-4)  # three digits
    drawn = [
        *figures.ensemble_figures(text, "mean"),
        *figures.median_figures(result),
        *figures.fully_trained_figures(text, "mean"),
    ]
    assert [name for name, _ in drawn] == [
        "figure4",
        "figure10",
        "figure11",
        "figure12",
        "figure14b",
        "figure18",
        "figure19",
        "figure16_joint",
        "figure16",
    ]
    for _, draw in drawn:
        assert draw().axes
    assert len(list(claims(result))) == 9
    for recipe, of in (
        ("under_trained", {"two_rules_alike_on_mnist", "noise_of_histograms"}),
        ("fully_trained", {"moot_if_saturated"}),
    ):
        tested = list(command._claims_to_save(text, recipe, 3, "mean", "smoke"))
        assert {each.scale for each in tested} == {"smoke"}
        assert of < {name for each in tested for name in each.sentences}
        assert all(
            each.text.startswith(f"3 ensembles of {NETWORKS} networks, mean: ") for each in tested
        )


def numbers(**changed: float) -> pd.DataFrame:
    """Measurements of which every claim holds, but for what is changed: ``method_set_class`` →
    NLL.
    """
    nll = {"KDE(b_mon)": 0.3, "KDE(b_mon2)": 0.2, "KDE(b_mon4)": 0.1, "STS": 0.5, "histogram": 0.25}
    bandwidth = {"KDE(b_mon)": 0.3, "KDE(b_mon2)": 0.2, "KDE(b_mon4)": 0.1, "KDE(b_opt)": 0.05}
    rows = []
    for ensemble in range(3):
        for method in [*METHODS, UNCALIBRATED]:
            for where in ("1", "2"):
                for k in [*map(str, range(10)), ALL]:
                    sign = (
                        1e-3 if k != ALL and where == "2" and int(k) % 2 else 0
                    )  # half of the classes are harder on test set 2
                    value = changed.get(f"{method} {where} {k}", nll.get(method, 0.3) + sign)
                    rows.append((ensemble, method, where, k, "NLL", value))
            rows += [
                (ensemble, method, "1", str(k), "bandwidth", changed.get(f"b {method}", value))
                for k in range(10)
                if (value := bandwidth.get(method))
            ]
    return pd.DataFrame(
        rows, columns=["ensemble", "method", "test_set", "class", "metric", "value"]
    )


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({}, []),
        ({"b KDE(b_mon2)": 0.31}, [0]),
        ({"b KDE(b_opt)": 0.2}, [1]),
        ({"KDE(b_mon2) 2 all": 0.31}, [2]),
        ({"TSwA 2 5": 0.51}, [3, 8]),
        ({f"KDE(b_mon2) 2 {k}": 0.26 for k in range(5)}, [4]),
        ({f"Conf1 2 {k}": 0.2 for k in range(10)}, [5]),
        ({f"Conf1 2 {k}": 0.4 for k in range(10)}, [5, 6]),
        ({"CSTS 2 all": 0.48}, []),  # TSwA is left
        ({"CSTS 2 all": 0.48, "TSwA 1 all": 0.48}, [7]),
        ({"CSTSwA 1 3": 0.32}, [8]),
    ],
)
def test_a_claim_fails_where_it_does_not_hold(changed, fails):
    assert [
        place for place, claim in enumerate(claims(numbers(**changed))) if not claim.holds
    ] == fails


def rows_of_digits():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 6))

    def drawn(n: int):
        y = np.arange(n) % 10
        return (centres[y] + 0.3 * rng.normal(size=(n, 6))).astype(np.float32), y

    return drawn(400), {"1": drawn(50), "2": drawn(50)}


@pytest.mark.slow
def test_a_pool_grows_with_the_same_recipe(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "rows", rows_of_digits)
    monkeypatch.setitem(pool.RECIPES, "under_trained", pool.Recipe(0.01, 20))
    with pytest.raises(DataError, match="no networks in"):
        Pool.read(tmp_path)
    (line,) = train(tmp_path, "under_trained", 10)
    assert " of test set 2 right" in line
    first = Pool.read(tmp_path)
    assert first.size == 10
    assert (
        first.ensemble(np.arange(10), "mean")["2"].argmax(axis=1) == first.labels["2"]
    ).mean() > 0.9
    assert len(list(train(tmp_path, "under_trained", 20))) == 1  # the second block alone
    both = Pool.read(tmp_path)
    np.testing.assert_array_equal(both.log_proba["1"][:10], first.log_proba["1"])
    assert len(np.unique(both.log_proba["1"][:, 0], axis=0)) == 20
    assert Pool.read(tmp_path, 10).size == 10
    with pytest.raises(DataError, match="another recipe"):
        list(train(tmp_path, "as_printed", 20))


@pytest.mark.slow
def test_a_network_of_one_batch_sees_no_other_row(monkeypatch):
    (X, y), _ = rows_of_digits()
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    seen = np.unique(np.random.default_rng(3).integers(len(X), size=1000))
    others = np.setdiff1d(np.arange(len(X)), seen)
    assert len(others) > 500
    changed, zero = y.copy(), X.copy()
    changed[others], zero[others] = 0, 0
    each = readings.one_batch_network(X, y, 3, steps=20)
    other = readings.one_batch_network(zero, changed, 3, steps=20)
    np.testing.assert_array_equal(each.predict_proba(X), other.predict_proba(X))
    short = partial(readings.one_batch_network, steps=20)
    monkeypatch.setattr(readings, "one_batch_network", short)
    result = readings.accuracies(readings.Reading(one_batch=True), X, y, (X[:100], y[:100]), seed=1)
    networks = [short(X, y, seed) for seed in (2, 3)]
    np.testing.assert_array_equal(
        result[0], [(network.predict(X) == y).mean() for network in networks]
    )


def test_a_recipe_can_be_read_in_another_way():
    """As printed, with no light and with a row of each class; and what a loss has that takes the
    softmax of probabilities.
    """
    (X, y), sets = rows_of_digits()
    fast = {"learning_rate": 0.01, "batch_size": 50, "max_epochs": 3}
    plain, dark, few = (
        readings.accuracies(readings.Reading(fast, brightest=brightest, n_train=n), X, y, sets["2"])
        for brightest, n in ((1.0, 400), (0.0, 400), (1.0, 10))
    )
    assert plain.shape == (2, readings.MEMBERS) and plain.min() > 0.8
    assert dark.tolist() == [[0.1, 0.1], [0.1, 0.1]] and few[1].mean() < plain[1].mean()
    outputs, targets = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 3.0]]), torch.tensor([0, 1])
    twice = log_softmax(softmax(outputs.numpy(), axis=1), axis=1)[[0, 1], [0, 1]]
    assert readings.TwoSoftmaxes()._loss()(outputs, targets, torch.ones(2)).item() == pytest.approx(
        -twice.mean(), rel=1e-6
    )
