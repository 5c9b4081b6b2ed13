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

from kdgraph.calibration import BestCalibrator, ScoreMap
from kdgraph.components import build, check_component
from kdgraph.config import compose
from kdgraph.errors import ConfigError, ParameterError

NAMES = ("none", "temperature", "sigmoid", "isotonic")


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(900, 8, n_informative=4, n_classes=3, random_state=0)
    return X[:500], y[:500], X[500:700], y[500:700], X[700:]


@pytest.fixture(scope="module")
def parent(rows):
    return FrozenEstimator(RandomForestClassifier(40, random_state=0).fit(*rows[:2]))


def naive_losses(parent, name, X, y, seed) -> np.ndarray:
    """Cross-validated by hand, with the public estimator; by row."""
    proba = np.empty((len(y), 3))
    for learnt, judged in StratifiedKFold(
        5, shuffle=True, random_state=np.random.RandomState(seed)
    ).split(X, y):
        fitted = parent
        if name != "none":
            fitted = ScoreMap(parent, method=name).fit(
                X[learnt], y[learnt], X_calibration=X[learnt], y_calibration=y[learnt]
            )
        proba[judged] = fitted.predict_proba(X[judged])
    return -np.log(np.maximum(proba[np.arange(len(y)), y], 1e-6))


def naive_nll(*given) -> float:
    return naive_losses(*given).mean()


def paired_evidence(parent, default, best, *given) -> float:
    return -ttest_rel(
        naive_losses(parent, best, *given), naive_losses(parent, default, *given)
    ).statistic


def test_the_map_with_the_least_cross_validated_nll_is_used(parent, rows):
    X, y, X_calibration, y_calibration, X_test = rows
    best = BestCalibrator(parent, random_state=3).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    expected = {name: naive_nll(parent, name, X_calibration, y_calibration, 3) for name in NAMES}
    assert best.nll_ == pytest.approx(expected, rel=1e-12)
    assert best.chosen_ == min(expected, key=expected.get) != "isotonic"
    alone = ScoreMap(parent, method=best.chosen_).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert np.array_equal(best.predict_proba(X_test), alone.predict_proba(X_test))
    assert best.describe() == {
        "chosen": best.chosen_,
        "calibration_nll": expected[best.chosen_],
        "nll": pytest.approx(expected),
    }


def test_the_best_of_the_fitted_rows_is_not_the_best_of_others(parent, rows):
    """Isotonic regression has the least NLL on the rows that it is fitted on: judging it there
    would choose it.
    """
    X, y, X_calibration, y_calibration, _ = rows
    given = {"X_calibration": X_calibration, "y_calibration": y_calibration}
    on_itself = {
        name: log_loss(
            y_calibration,
            ScoreMap(parent, method=name).fit(X, y, **given).predict_proba(X_calibration),
        )
        for name in NAMES[1:]
    }
    assert min(on_itself, key=on_itself.get) == "isotonic"


def test_calibrated_parent_is_left_unchanged():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = (rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    best = BestCalibrator(LogisticRegression(), random_state=0).fit(X, y)
    assert best.chosen_ in ("none", "temperature")
    np.testing.assert_allclose(
        best.predict_proba(X), best.estimator_.predict_proba(X), atol=0.05
    )  # a temperature near 1


def test_only_candidates_are_tried_beside_the_parent(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    candidates = {"steps": ScoreMap(None, method="isotonic")}
    best = BestCalibrator(parent, candidates=candidates).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    assert list(best.nll_) == ["none", "steps"]
    assert candidates["steps"].estimator is None  # what is given is cloned


def test_kernel_density_forest_can_be_a_candidate(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    node = compose(["method=best"]).calibrator
    best = build(node, estimator=parent, random_state=0, n_jobs=1)
    best.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    assert list(best.nll_) == ["none", *node["candidates"]] and "kdf" in best.nll_
    assert best.candidates["kdf"].n_jobs == 1


def test_an_option_of_a_candidate_is_checked_before_anything_runs():
    node = compose(["method=best"]).calibrator
    wrong = {
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
        check_component("calibrator", wrong)


@pytest.fixture(scope="module")
def free(parent, rows) -> tuple[BestCalibrator, float]:
    """The choice without a default, and by how much it is better than the parent."""
    X, y, X_calibration, y_calibration, _ = rows
    best = BestCalibrator(parent, random_state=3).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    return best, paired_evidence(parent, "none", best.chosen_, X_calibration, y_calibration, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("margin", "holds"), [(0.0, False), (1.0, False), (50.0, True)])
def test_a_default_holds_unless_another_is_clearly_better(parent, rows, free, margin, holds):
    X, y, X_calibration, y_calibration, X_test = rows
    given = {"X_calibration": X_calibration, "y_calibration": y_calibration}
    free, by_hand = free
    best = BestCalibrator(parent, default="none", margin=margin, random_state=3).fit(X, y, **given)
    assert free.chosen_ != "none" and best.chosen_ == ("none" if holds else free.chosen_)
    assert best.nll_ == free.nll_
    assert (
        best.evidence_ == pytest.approx(by_hand, rel=1e-9) and by_hand > 1
    )  # so that the margins above tell the cases apart
    assert best.describe()["evidence"] == best.evidence_ and free.evidence_ is None
    same = BestCalibrator(parent, default=free.chosen_, margin=margin, random_state=3).fit(
        X, y, **given
    )
    assert (same.chosen_, same.evidence_) == (free.chosen_, 0.0)
    assert np.array_equal(same.predict_proba(X_test), free.predict_proba(X_test))


@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_a_default_must_be_a_candidate(parent, rows):
    result = (
        "default must be one of the candidates (none, temperature, sigmoid, isotonic), got 'kdf'"
    )
    with pytest.raises(ParameterError, match=f"^{re.escape(result)}$"):
        BestCalibrator(parent, default="kdf").fit(*rows[:2])


def test_where_nothing_can_be_judged_the_default_is_used(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    kept = np.concatenate(
        [np.flatnonzero(y_calibration != 2), np.flatnonzero(y_calibration == 2)[:1]]
    )
    with pytest.warns(UserWarning, match="cross-validation is impossible, sigmoid is used$"):
        best = BestCalibrator(parent, default="sigmoid").fit(
            X, y, X_calibration=X_calibration[kept], y_calibration=y_calibration[kept]
        )
    assert best.chosen_ == "sigmoid" and best.evidence_ is None


def test_with_a_single_row_of_a_class_nothing_can_be_judged(parent, rows):
    X, y, X_calibration, y_calibration, _ = rows
    kept = np.concatenate(
        [np.flatnonzero(y_calibration != 2), np.flatnonzero(y_calibration == 2)[:1]]
    )
    result = (
        r"^a class has fewer than two calibration rows: cross-validation is impossible, the parent stays"
        r" uncalibrated$"
    )
    with pytest.warns(UserWarning, match=result):
        best = BestCalibrator(parent).fit(
            X, y, X_calibration=X_calibration[kept], y_calibration=y_calibration[kept]
        )
    assert best.chosen_ == "none" and best.describe()["calibration_nll"] is None


def test_folds_are_checked(parent, rows):
    with pytest.raises(ParameterError, match=f"^{re.escape('folds must be in [2, inf), got 1')}$"):
        BestCalibrator(parent, folds=1).fit(*rows[:2])
