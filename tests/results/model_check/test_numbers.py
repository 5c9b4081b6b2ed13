"""Numbers of a checked model: against scikit-learn, and on models whose calibration is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from kdgraph.metrics import TopLabel, ece
from kdgraph.results.model_check.numbers import (
    UNREPAIRED,
    FarRows,
    ModelCheck,
    PooledPredictions,
    p_value_of_calibration,
)


def make_check(n=1000, seed=0, *, gate_loss=0.0, sharpen=3.0):
    """Return a check of an overconfident model, with a repair and a gate."""
    rng = np.random.default_rng(seed)
    second = rng.uniform(0.05, 0.95, n)
    y = (rng.random(n) < second).astype(int)
    logit = np.log(second / (1 - second))

    def proba(scale):
        p = 1 / (1 + np.exp(-scale * logit))
        return np.column_stack([1 - p, p])

    far = {
        "model": {"far": FarRows(np.full(100, 0.99), None)},
        "repair": {"far": FarRows(np.full(100, 0.9), None)},
        "gate": {"far": FarRows(np.full(100, 0.51), 0.98)},
    }
    return ModelCheck(
        y=y,
        classes=["no", "yes"],
        methods={
            UNREPAIRED: PooledPredictions(proba(sharpen), far["model"]),
            "isotonic": PooledPredictions(proba(1.0), far["repair"]),
            "gated_isotonic": PooledPredictions(proba(1.0 + gate_loss), far["gate"]),
        },
        gates=frozenset(["gated_isotonic"]),
        groups=np.arange(n) % 2,
        group_names=("even", "odd"),
        X=np.column_stack([logit, rng.normal(size=n)]),
    )


def test_the_numbers_are_those_of_scikit_learn():
    check = make_check()
    numbers, proba = check.calibration[UNREPAIRED], check.methods[UNREPAIRED].proba
    assert numbers.nll == pytest.approx(log_loss(check.y, proba))
    assert numbers.brier == pytest.approx(2 * brier_score_loss(check.y, proba[:, 1]))
    assert numbers.error == pytest.approx((proba.argmax(axis=1) != check.y).mean())
    assert numbers.ece == pytest.approx(ece(check.y, proba))


def test_overconfidence_is_detected_and_its_repair_chosen():
    check = make_check()
    assert check.calibration[UNREPAIRED].calibrated_p == 0.001
    assert check.calibration["isotonic"].calibrated_p > 0.01  # as 99 of 100 calibrated models
    assert check.helps and check.choice.chosen == "isotonic"
    bare, repaired = (check.calibration[name] for name in (UNREPAIRED, "isotonic"))
    assert bare.lce > 1.5 * bare.lce_by_chance
    assert repaired.lce < 1.2 * repaired.lce_by_chance


def test_the_gate_is_as_good_unless_it_is_clearly_worse():
    assert make_check().gated == "gated_isotonic"
    assert "gated_isotonic" in make_check(gate_loss=0.02).choice.as_good
    assert "gated_isotonic" not in make_check(gate_loss=2.0).choice.as_good
    assert make_check(gate_loss=2.0).gated == "gated_isotonic"


def test_groups_have_their_own_numbers_and_small_ones_none():
    check = make_check()
    even, odd = check.by_group(UNREPAIRED)
    rows = np.asarray(check.groups) == 1
    proba = check.methods[UNREPAIRED].proba[rows]
    assert (odd.name, odd.rows) == ("odd", 500)
    assert odd.ece == pytest.approx(ece(check.y[rows], proba, bins=5))
    assert odd.confidence == pytest.approx(proba.max(axis=1).mean())
    gap = odd.confidence - (1 - odd.error)
    assert gap > 5 * odd.gap_stderr  # overconfident beyond sampling noise
    check.groups[:-4] = 0
    assert [group.name for group in check.by_group(UNREPAIRED)] == ["even"]
    assert even.rows == 500


def test_p_values_of_calibrated_models_are_uniform():
    """A tenth of 300 calibrated models has p ≤ .1; the standard error of the fraction is .017."""
    p_values = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(0.5, 1, 200)
        y = (rng.random(200) >= confidence).astype(int)
        top = TopLabel(np.zeros(200, dtype=int), confidence, 2)
        p_values.append(p_value_of_calibration(y, top, draws=99, seed=seed))
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=3 * 0.017)
    assert np.mean(p_values) == pytest.approx(0.5, abs=3 * 0.017)


def test_without_columns_there_is_no_local_error():
    images = replace(make_check(), X=None)
    assert images.calibration[UNREPAIRED].lce is None
    assert images.calibration[UNREPAIRED].lce_by_chance is None
