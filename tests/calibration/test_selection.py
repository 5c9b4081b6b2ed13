from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from kdgraph.calibration import BestCalibrator, LinearPool, MatrixScaling, ScoreMap
from kdgraph.config import compose
from kdgraph.config.components import build, check_component, resolve_option
from kdgraph.errors import ConfigError, ParameterError

NAMES = ("none", "temperature", "sigmoid", "isotonic")


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 8, n_informative=4, n_classes=3, random_state=0)
    return X[:500], y[:500], X[500:700], y[500:700], X[700:]


@pytest.fixture(scope="module")
def parent(rows):
    return FrozenEstimator(RandomForestClassifier(40, random_state=0).fit(*rows[:2]))


def cross_validated_losses(parent, name, X, y, seed) -> np.ndarray:
    """Return cross-validated losses by row, from the public estimator."""
    proba = np.empty((len(y), 3))
    for train, test in StratifiedKFold(
        5, shuffle=True, random_state=np.random.RandomState(seed)
    ).split(X, y):
        model = parent
        if name != "none":
            model = ScoreMap(parent, method=name).fit(
                X[train], y[train], X_calibration=X[train], y_calibration=y[train]
            )
        proba[test] = model.predict_proba(X[test])
    return -np.log(np.maximum(proba[np.arange(len(y)), y], 1e-6))


def cross_validated_nll(*arguments) -> float:
    return cross_validated_losses(*arguments).mean()


def paired_evidence(parent, default, best, *arguments) -> float:
    return -ttest_rel(
        cross_validated_losses(parent, best, *arguments),
        cross_validated_losses(parent, default, *arguments),
    ).statistic


def test_map_with_the_least_cross_validated_nll_is_used(parent, rows):
    X, y, X_calibration, y_calibration, X_test = rows
    best = BestCalibrator(parent, random_state=3).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    expected = {
        name: cross_validated_nll(parent, name, X_calibration, y_calibration, 3) for name in NAMES
    }
    assert best.nll_ == pytest.approx(expected, rel=1e-12)
    assert best.chosen_ == min(expected, key=expected.get) != "isotonic"
    reference = ScoreMap(parent, method=best.chosen_).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert np.array_equal(best.predict_proba(X_test), reference.predict_proba(X_test))
    assert best.describe() == {
        "chosen": best.chosen_,
        "calibration_nll": expected[best.chosen_],
        "nll": pytest.approx(expected),
    }


def test_in_sample_nll_would_choose_isotonic(parent, rows):
    """Isotonic regression has the least NLL on its own rows, so an evaluation there chooses it."""
    X, y, X_calibration, y_calibration, _ = rows
    calibration = {"X_calibration": X_calibration, "y_calibration": y_calibration}
    in_sample = {
        name: log_loss(
            y_calibration,
            ScoreMap(parent, method=name).fit(X, y, **calibration).predict_proba(X_calibration),
        )
        for name in NAMES[1:]
    }
    assert min(in_sample, key=in_sample.get) == "isotonic"


def test_calibrated_parent_is_hardly_changed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    best = BestCalibrator(LogisticRegression(), random_state=0).fit(X, y)
    assert best.chosen_ in ("none", "temperature")
    np.testing.assert_allclose(
        best.predict_proba(X), best.estimator_.predict_proba(X), atol=0.05
    )  # a temperature near 1


def test_only_candidates_and_the_parent_are_compared(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    candidates = {"steps": ScoreMap(None, method="isotonic")}
    best = BestCalibrator(parent, candidates=candidates).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert list(best.nll_) == ["none", "steps"]
    assert candidates["steps"].estimator is None  # candidates are cloned


def test_isotonic_regression_needs_enough_rows(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    candidates = {
        "steps": ScoreMap(None, method="isotonic"),
        "pool": LinearPool(None),
        "pool of steps": LinearPool(None, members={"steps": ScoreMap(None, method="isotonic")}),
        "matrix": MatrixScaling(None),
    }
    n = 60
    for options, names in (
        ({}, ["none", "pool", "matrix"]),
        ({"min_rows": n}, ["none", *candidates]),
        ({"default": "steps"}, ["none", "steps", "pool", "matrix"]),
    ):
        best = BestCalibrator(parent, candidates=candidates, folds=2, random_state=0, **options)
        best.fit(X, y, X_calibration=X_calibration[:n], y_calibration=y_calibration[:n])
        assert list(best.nll_) == names


def test_kernel_density_forest_is_a_candidate_of_the_preset(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    node = compose(["method=best"]).calibrator
    best = build(node, estimator=parent, random_state=0, n_jobs=1)
    best.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    assert list(best.nll_) == ["none", *node["candidates"]] and "kdf" in best.nll_
    assert best.candidates["kdf"].n_jobs == 1


def test_options_of_candidates_are_checked_before_the_run():
    node = compose(["method=best"]).calibrator
    misspelt = {
        **node,
        "candidates": {"map": {"_target_": "kdgraph.calibration.ScoreMap", "methd": "isotonic"}},
    }
    with pytest.raises(
        ConfigError,
        match=(
            r"^unknown key 'calibrator\.candidates\.map\.methd'; did you mean"
            r" 'calibrator\.candidates\.map\.method'\?$"
        ),
    ):
        check_component("calibrator", resolve_option("calibrator", misspelt))


@pytest.fixture(scope="module")
def without_default(parent, rows) -> tuple[BestCalibrator, float]:
    """Return the choice without a default, and its evidence against the parent."""
    X, y, X_calibration, y_calibration, _ = rows
    best = BestCalibrator(parent, random_state=3).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    return best, paired_evidence(parent, "none", best.chosen_, X_calibration, y_calibration, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("margin", "holds"), [(0.0, False), (1.0, False), (50.0, True)])
def test_default_is_kept_unless_another_candidate_is_clearly_better(
    parent, rows, without_default, margin, holds
):
    X, y, X_calibration, y_calibration, X_test = rows
    calibration = {"X_calibration": X_calibration, "y_calibration": y_calibration}
    without_default, evidence = without_default
    best = BestCalibrator(parent, default="none", margin=margin, random_state=3).fit(
        X, y, **calibration
    )
    assert without_default.chosen_ != "none" and best.chosen_ == (
        "none" if holds else without_default.chosen_
    )
    assert best.nll_ == without_default.nll_
    assert (
        best.evidence_ == pytest.approx(evidence, rel=1e-9) and evidence > 1
    )  # so that the margins above separate the cases
    assert best.describe()["evidence"] == best.evidence_ and without_default.evidence_ is None
    default_is_best = BestCalibrator(
        parent, default=without_default.chosen_, margin=margin, random_state=3
    ).fit(X, y, **calibration)
    assert (default_is_best.chosen_, default_is_best.evidence_) == (without_default.chosen_, 0.0)
    assert np.array_equal(
        default_is_best.predict_proba(X_test), without_default.predict_proba(X_test)
    )


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the calibration rows are training rows
def test_default_must_be_a_candidate(parent, rows):
    message = (
        "default must be one of the candidates (none, temperature, sigmoid, isotonic), got 'kdf'"
    )
    with pytest.raises(ParameterError, match=f"^{re.escape(message)}$"):
        BestCalibrator(parent, default="kdf").fit(*rows[:2])


@pytest.mark.parametrize(
    ("default", "consequence"),
    [("sigmoid", "sigmoid is used"), (None, "the parent stays uncalibrated")],
)
def test_default_is_used_if_cross_validation_is_impossible(parent, rows, default, consequence):
    X, y, X_calibration, y_calibration, _ = rows
    subset = np.concatenate(
        [np.flatnonzero(y_calibration != 2), np.flatnonzero(y_calibration == 2)[:1]]
    )
    reason = "a class has fewer than two calibration rows: cross-validation is impossible"
    with pytest.warns(UserWarning, match=f"^{reason}, {consequence}$"):
        best = BestCalibrator(parent, default=default).fit(
            X, y, X_calibration=X_calibration[subset], y_calibration=y_calibration[subset]
        )
    assert best.chosen_ == (default or "none") and best.evidence_ is None
    assert best.describe()["calibration_nll"] is None


def test_fewer_than_two_folds_are_refused(parent, rows):
    with pytest.raises(ParameterError, match=f"^{re.escape('folds must be in [2, inf), got 1')}$"):
        BestCalibrator(parent, folds=1).fit(*rows[:2])
