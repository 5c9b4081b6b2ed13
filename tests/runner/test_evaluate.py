"""Sets are drawn when it is their turn and predicted together up to a bound, which changes no
number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kdgraph.base import FittedModel, Predictions
from kdgraph.config import compose
from kdgraph.data import mapped_rows
from kdgraph.data.dataset import OodSet
from kdgraph.distributions import Normal
from kdgraph.metrics import TopLabel
from kdgraph.runner import evaluate as module
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.stages import calibrate, fit, split

from .conftest import TINY


@pytest.fixture(scope="module")
def tiny():
    config = compose([*TINY, "metrics=paper_grid", "parent.min_samples_leaf=5", "ood.n=20"])
    splits = split(config.dataset, 0)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    return config, splits, parent, calibrate(config.after, parent, splits, seed=0, n_jobs=1)


class Counted:
    """A model that keeps the number of rows of each call."""

    def __init__(self, model) -> None:
        self.model = model
        self.calls: list[int] = []

    def predict_proba(self, X):
        self.calls.append(len(X))
        return self.model.predict_proba(X)


def test_numbers_do_not_depend_on_the_groups(tiny, monkeypatch):
    config, splits, parent, model = tiny
    entries, calls = [], []
    for bound in (module.BATCH_BYTES, 16 * 60, 1):
        monkeypatch.setattr(module, "BATCH_BYTES", bound)
        counted = Counted(parent)
        entries.append(
            evaluate(
                FittedModel(counted),
                model,
                config.metrics,
                dataset=config.dataset,
                ood=config.ood,
                splits=splits,
                seed=0,
            )
        )
        calls.append(counted.calls)
    assert calls == [[40 + 40_000 + 20 + 20], [40, 40_000, 40], [40, 40_000, 20, 20]]
    for other in entries[1:]:
        assert other.metrics == entries[0].metrics
        for a, b in zip(entries[0].predictions, other.predictions, strict=True):
            np.testing.assert_array_equal(a.parent["proba"], b.parent["proba"])
            np.testing.assert_array_equal(a.calibrated["proba"], b.calibrated["proba"])


def test_stored_outputs_of_the_parent_are_not_predicted_again(tiny, monkeypatch):
    config, splits, parent, model = tiny
    inputs = {"dataset": config.dataset, "ood": config.ood, "splits": splits, "seed": 0}
    expected = evaluate(FittedModel(parent), model, config.metrics, **inputs)
    for bound in (module.BATCH_BYTES, 16 * 60):
        monkeypatch.setattr(module, "BATCH_BYTES", bound)
        outputs = [each.parent for each in expected.predictions]
        entries = evaluate(
            FittedModel(None), model, config.metrics, **inputs, parent_outputs=outputs
        )
        assert entries.metrics == expected.metrics
        for a, b in zip(expected.predictions, entries.predictions, strict=True):
            np.testing.assert_array_equal(a.parent["proba"], b.parent["proba"])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [[]]),
        ([1], [[1]]),
        ([3, 3, 3, 3], [[3, 3, 3], [3]]),
        ([11, 4, 5, 2, 30, 1], [[11], [4, 5], [2], [30], [1]]),
    ],
)
def test_groups_are_consecutive_and_stay_under_the_bound(sizes, expected):
    """The bound is 10 bytes."""
    sets = ((np.zeros(size, dtype=np.uint8), {"on": i}) for i, size in enumerate(sizes))
    groups = [group for group in module._batches(sets, 10) if group]
    assert [[len(X) for X, _ in group] for group in groups] == [
        group for group in expected if group
    ]
    assert [known["on"] for group in groups for _, known in group] == list(range(len(sizes)))


def test_few_sets_are_in_memory_at_once(tiny, monkeypatch):
    """A set is drawn only after the group before the last one was predicted."""
    _, splits, _, _ = tiny
    log: list[str] = []

    def sets(ood, splits, seed):
        for i in range(5):
            log.append(f"draw {i}")
            yield OodSet("late", splits.train.X[:10], {"i": float(i)}, (2.0,))

    class Even:
        def predict_proba(self, X):
            log.append(f"predict {len(X)}")
            return np.full((len(X), 2), 0.5)

    monkeypatch.setattr(module, "ood_sets", sets)
    monkeypatch.setattr(module, "BATCH_BYTES", 16 * 20)
    both = FittedModel(Even()), FittedModel(Even(), {"calibrator": Even()})
    done = evaluate(
        *both, {"ood": {"mmc": {}}}, dataset=compose(TINY).dataset, ood=None, splits=splits, seed=0
    )  # type: ignore[arg-type]
    predict = ["predict 20"] * 2
    assert log == [
        "draw 0",
        *["predict 40"] * 2,
        "draw 1",
        "draw 2",
        *predict,
        "draw 3",
        "draw 4",
        *predict,
        *["predict 10"] * 2,
    ]
    assert [entry.get("in_distribution") for entry in done.metrics[::2]] == [
        None,
        None,
        True,
        None,
        None,
    ]


def test_set_with_other_parameters_is_not_in_distribution():
    for params, expected in (
        ({"axis": 10.0}, True),
        ({"axis": 9.0}, False),
        ({"axis": 10.0, "low": 1.0}, False),
        ({}, False),
    ):
        assert (
            Predictions("ood", 1, {}, {}, "set", params, id_values=(10.0,)).in_distribution
            is expected
        )


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_large_set_is_predicted_in_blocks(tiny, monkeypatch, is_mapped):
    config, splits, parent, model = tiny
    metrics = compose([*TINY, "metrics=default"]).metrics
    inputs = {"dataset": config.dataset, "ood": config.ood, "seed": 0}
    expected = evaluate(FittedModel(parent), model, metrics, splits=splits, **inputs)
    monkeypatch.setattr(module, "SET_BLOCK_BYTES", 16 * 7)  # seven rows of two numbers
    if is_mapped:
        monkeypatch.setattr(mapped_rows, "MAPPED_BYTES", 0)
        X = mapped_rows.empty_rows(splits.test.X.shape)
        X[...] = splits.test.X
        splits = replace(splits, test=replace(splits.test, X=X))
    else:
        monkeypatch.setattr(module, "BATCH_BYTES", 16 * 39)
    counted = Counted(parent)
    entries = evaluate(FittedModel(counted), model, metrics, splits=splits, **inputs)
    assert counted.calls[:6] == [7, 7, 7, 7, 7, 5]
    assert entries.metrics == expected.metrics
    for a, b in zip(expected.predictions, entries.predictions, strict=True):
        np.testing.assert_array_equal(a.calibrated["proba"], b.calibrated["proba"])


def test_outputs_of_blocks_are_joined_whatever_their_kind():
    proba = np.random.default_rng(0).dirichlet([1, 1, 1], 10)
    whole = TopLabel.from_proba(proba)
    joined = module._join_outputs([TopLabel.from_proba(part) for part in (proba[:4], proba[4:])])
    np.testing.assert_array_equal(joined.predicted, whole.predicted)
    np.testing.assert_array_equal(joined.confidence, whole.confidence)
    assert joined.n_classes == 3
    normal = Normal(np.arange(10.0), np.linspace(1, 2, 10))
    joined = module._join_outputs([normal[np.arange(4)], normal[np.arange(4, 10)]])
    np.testing.assert_array_equal(joined.ppf(0.3), normal.ppf(0.3))
    np.testing.assert_array_equal(joined[np.array([7, 2])].mean(), [7, 2])
