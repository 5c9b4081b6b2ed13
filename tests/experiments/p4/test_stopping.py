"""Other readings of the text: early stopping on the rows that recalibrate, and isotonic regression
on labels.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression

from experiments.p4 import crime, stopping
from experiments.p4.isotonic import IsotonicOnLabels
from kdgraph.errors import DataError
from kdgraph.parents import PrecomputedScores
from kdgraph.parents.networks import MultilayerPerceptron


def labelled_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + rng.normal(size=n) > 0).astype(int)


def test_the_last_rows_choose_the_epoch_and_train_nothing() -> None:
    """The weights are those of as many epochs on the other rows alone, to the bit."""
    (X, y), (X_last, y_last) = labelled_rows(96, 0), labelled_rows(40, 1)
    options = {"hidden": (8,), "learning_rate": 0.01, "random_state": 0}
    stopped = stopping.StoppedOnLastRows(
        n_validation=40, max_epochs=30, patience=3, stop_on="validation_accuracy", **options
    ).fit(np.concatenate([X, X_last]), np.concatenate([y, y_last]))
    epochs = stopped.best_epoch_
    assert 1 < epochs < stopped.n_epochs_
    wrong = stopped.predict(X_last) != y_last
    assert stopped.history_[epochs - 1]["validation_error"] == pytest.approx(wrong.mean())
    alone = MultilayerPerceptron(max_epochs=epochs, patience=None, **options).fit(X, y)
    expected = alone.module_.state_dict()
    for name, weights in stopped.module_.state_dict().items():
        np.testing.assert_array_equal(weights.numpy(), expected[name].numpy())


def test_stopped_networks_are_a_variant_of_tables_1_and_3(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = {"group_mce": 0.5, "ece": 0.05, "nll_top": 0.4, "brier_top": 0.1}
    monkeypatch.setattr(stopping, "configs_of", dict.fromkeys)
    monkeypatch.setattr(
        stopping,
        "entries_of",
        lambda configs, seed: [
            {"method": method, "seed": seed, "metric": name, "value": value + seed}
            for method in configs
            for name, value in metrics.items()
        ],
    )
    result = stopping.tables(2)
    assert set(result.variant) == {stopping.ON_THEM} and set(result["item"]) == {
        "Table 1",
        "Table 3",
    }
    rows = {crime.SETTING.methods[method] for method in stopping.METHODS}
    assert set(result.method) == rows
    ece = result[(result.metric == "ECE in percent") & (result.method == "LoRe PCA")]
    np.testing.assert_allclose(ece.sort_values("seed").value, [5, 105])


def test_isotonic_on_labels_fits_the_label_to_the_confidence() -> None:
    rng = np.random.default_rng(0)
    p, y = rng.uniform(size=200), rng.integers(2, size=200)
    X, new = np.column_stack([1 - p, p]), rng.dirichlet([1, 1], size=50)
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    model = IsotonicOnLabels(parent).fit(X, y, X_calibration=X, y_calibration=y)
    expected = IsotonicRegression(out_of_bounds="clip").fit(X.max(axis=1), y)
    np.testing.assert_allclose(
        model.predict_confidence(new), expected.predict(new.max(axis=1)), rtol=1e-12
    )
    np.testing.assert_array_equal(model.predict(new), new.argmax(axis=1))


def test_isotonic_regression_on_labels_needs_two_classes() -> None:
    X = np.random.default_rng(0).dirichlet(np.ones(3), size=30)
    y = np.arange(30) % 3
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    with pytest.raises(DataError, match="labels of 3 classes are no outcomes of 0 and 1"):
        IsotonicOnLabels(parent).fit(X, y, X_calibration=X, y_calibration=y)
