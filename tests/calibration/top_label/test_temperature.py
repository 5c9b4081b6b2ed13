"""Temperature scaling of top-label confidence, against Eq. 18 in loops, scikit-learn's temperature
and finite differences, and between nested models.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize_scalar
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from kdgraph.base import Rows
from kdgraph.calibration.top_label import TemperatureScaling
from kdgraph.calibration.top_label.temperature import AwardedLoss, LogScores
from kdgraph.parents import PrecomputedScores

KINDS = {
    "sts": {},
    "csts": {"by_class": True},
    "tswa": {"awards": True},
    "cstswa": {"by_class": True, "awards": True},
}
LOSSES = ["nll", "brier", "full_nll"]


def parent(n_classes: int = 3) -> FrozenEstimator:
    return FrozenEstimator(PrecomputedScores().fit(np.empty((0, n_classes))))


def draw_rows(
    n: int = 600, seed: int = 0, n_classes: int = 3, sharper: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return overconfident scores, to a degree that differs by class, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, n_classes))
    y = (rng.random((n, 1)) < softmax(logits, axis=1).cumsum(axis=1)).argmax(axis=1)
    return (
        softmax(logits * np.linspace(1, sharper, n_classes)[logits.argmax(axis=1), None], axis=1),
        y,
    )


def fit_calibrator(X, y, **options) -> TemperatureScaling:
    return TemperatureScaling(parent(X.shape[1]), **options).fit(
        X, y, X_calibration=X, y_calibration=y
    )


def scaled_row_by_loop(row: np.ndarray, temperature: np.ndarray, award: np.ndarray) -> np.ndarray:
    """Return Eq. 18 term by term, with the temperature of the predicted class."""
    k = row.argmax()
    terms = [
        np.exp((np.log(max(y, 1e-12)) + (award[i] if i == k else 0)) / temperature[k])
        for i, y in enumerate(row)
    ]
    return np.array(terms) / sum(terms)


def loss_by_loop(model: TemperatureScaling, X, y) -> float:
    """Return the sum over rows of Eq. 14, Eq. 15 or the NLL of Eq. 18, plus the ridge."""
    total = 0.0
    for row, label in zip(X, y, strict=True):
        scaled = scaled_row_by_loop(row, model.temperature_, model.award_)
        s, right = scaled[row.argmax()], row.argmax() == label
        total += {
            "nll": -np.log(s if right else 1 - s),
            "brier": (1 - s) ** 2 if right else s**2,
            "full_nll": -np.log(scaled[label]),
        }[model.loss]
    return total + model.ridge * (model.award_**2).sum()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_confidence_is_eq_18_at_the_predicted_class(kind, loss):
    X, y = draw_rows(200)
    X[0], X[1], y[:2] = [1, 0, 0], [0.5, 0.5, 0], [0, 1]
    model = fit_calibrator(X, y, loss=loss, **KINDS[kind])
    expected = [
        scaled_row_by_loop(row, model.temperature_, model.award_)[row.argmax()] for row in X
    ]
    np.testing.assert_allclose(
        model.predict_confidence(X), expected, rtol=1e-10
    )  # rounding of a sum of K terms
    assert model.describe()["n_clipped"] == 2
    assert len(np.unique(model.temperature_)) == (3 if "by_class" in KINDS[kind] else 1)
    assert (model.award_ != 0).all() if "awards" in KINDS[kind] else (model.award_ == 0).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_gradient_equals_finite_differences(loss, ridge):
    X, y = draw_rows(60)
    rng = np.random.default_rng(1)
    predicted = X.argmax(axis=1)
    rows = LogScores.from_proba(X, predicted)
    loss_of_all = AwardedLoss(
        rows, predicted == y, rng.random(60), np.log(X[np.arange(60), y]), loss
    )
    award_of = np.where(rng.random(60) < 0.1, 3, predicted)  # some rows have no award
    for objective, p in (
        (loss_of_all, 1),
        (loss_of_all.with_awards(award_of, 3, ridge), 4),
        (loss_of_all.with_awards(0, 1, ridge), 2),
    ):
        for parameters in rng.normal(0, 0.5, (5, p)):
            error = check_grad(
                lambda v, objective=objective: objective(v)[0],
                lambda v, objective=objective: objective(v)[1],
                parameters,
            )
            assert error < 1e-6 * (1 + ridge)  # steps of 1e-8 leave half of the digits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_fitted_parameters_minimise_the_loss(kind, loss, ridge):
    X, y = draw_rows(300)
    model = fit_calibrator(X, y, loss=loss, ridge=ridge, **KINDS[kind])
    least = loss_by_loop(model, X, y)
    for name, factor in (
        ("temperature_", 1.02),
        ("temperature_", 0.98),
        ("award_", 1.05),
        ("award_", 0.95),
    ):
        before = getattr(model, name)
        for k in range(3) if "by_class" in KINDS[kind] or name == "award_" else [slice(None)]:
            perturbed = before.copy()
            perturbed[k] *= factor
            setattr(model, name, perturbed)
            assert loss_by_loop(model, X, y) >= least - 1e-9  # sums of 300 rows
        setattr(model, name, before)


def test_tswa_without_awards_is_sts():
    X, y = draw_rows()
    sts, tswa = fit_calibrator(X, y), fit_calibrator(X, y, awards=True, ridge=1e12)
    np.testing.assert_allclose(
        tswa.temperature_, sts.temperature_, rtol=1e-6
    )  # the final gradient is below 1e-7
    np.testing.assert_allclose(tswa.predict_confidence(X), sts.predict_confidence(X), rtol=1e-6)
    tswa.award_ = np.zeros(3)
    tswa.temperature_ = sts.temperature_
    np.testing.assert_array_equal(tswa.predict_confidence(X), sts.predict_confidence(X))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_full_nll_gives_the_temperature_of_scikit_learn(n_classes):
    X, y = draw_rows(1000, n_classes=n_classes)
    expected = CalibratedClassifierCV(parent(n_classes), method="temperature", ensemble=False).fit(
        X, y
    )
    model = fit_calibrator(X, y, loss="full_nll")
    beta = expected.calibrated_classifiers_[0].calibrators[0].beta_
    np.testing.assert_allclose(
        1 / model.temperature_, beta, rtol=1e-5
    )  # scikit-learn stops where the loss is flat to 1e-15
    np.testing.assert_allclose(
        model.predict_confidence(X),
        expected.predict_proba(X)[np.arange(1000), X.argmax(axis=1)],
        rtol=1e-5,
    )


def test_both_nlls_agree_for_two_classes():
    X, y = draw_rows(n_classes=2)
    np.testing.assert_allclose(
        fit_calibrator(X, y).temperature_,
        fit_calibrator(X, y, loss="full_nll").temperature_,
        rtol=1e-6,
    )


def test_temperature_by_class_is_a_line_search_on_rows_of_the_class():
    X, y = draw_rows()
    model = fit_calibrator(X, y, by_class=True)
    for k in range(3):
        mask = X.argmax(axis=1) == k
        z = lambda beta, mask=mask, k=k: (  # noqa: E731
            beta * np.log(X[mask, k]) - np.log((np.delete(X[mask], k, axis=1) ** beta).sum(axis=1))
        )
        sign = np.where(y[mask] == k, -1, 1)
        optimum = minimize_scalar(
            lambda b, z=z, sign=sign: np.logaddexp(0, sign * z(np.exp(b))).sum(),
            bounds=(-3, 3),
            options={"xatol": 1e-9},
        )
        np.testing.assert_allclose(model.temperature_[k], np.exp(-optimum.x), rtol=1e-5)


def total_nll(model, X, y) -> float:
    s, right = model.predict_confidence(X), X.argmax(axis=1) == y
    return -np.log(np.where(right, s, 1 - s)).sum()


@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0.3, 4))
@example(7, 4, 4.0)
@settings(max_examples=8, deadline=None)  # four fits take 0.1 s
def test_more_parameters_never_increase_the_loss(seed, n_classes, sharper):
    X, y = draw_rows(60 * n_classes, seed, n_classes, sharper)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        models = {kind: fit_calibrator(X, y, **options) for kind, options in KINDS.items()}
    if all(model.own_.all() for model in models.values()):
        nll = {kind: total_nll(model, X, y) for kind, model in models.items()}
        for smaller, larger in (
            ("sts", "tswa"),
            ("tswa", "cstswa"),
            ("sts", "csts"),
            ("csts", "cstswa"),
        ):
            assert nll[larger] <= nll[smaller] + 1e-6, (
                smaller,
                larger,
            )  # each stops at a gradient of the mean below 1e-7


@pytest.mark.parametrize("kind", KINDS)
def test_weight_two_equals_two_rows(kind):
    X, y = draw_rows(200)
    weight = np.random.default_rng(1).integers(0, 3, size=200)  # some weights are 0
    models = []
    for rows in (
        Rows(X, y, weight.astype(float)),
        Rows.unweighted(np.repeat(X, weight, axis=0), np.repeat(y, weight)),
    ):
        model = TemperatureScaling(parent(), **KINDS[kind])
        model.classes_, model.estimator_ = np.arange(3), model.estimator
        model._fit_after(rows, rows)
        models.append(model)
    weighted, twice = models
    np.testing.assert_allclose(weighted.temperature_, twice.temperature_, rtol=1e-5)
    np.testing.assert_allclose(
        weighted.award_, twice.award_, rtol=1e-4, atol=1e-6
    )  # a flat minimum: the gradient is below 1e-7


def uneven_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of six classes with different problems.

    Class 2 is never predicted, 3 is always correct, 4 never, and 5 exactly for high scores.
    """
    rng = np.random.default_rng(0)
    predicted = rng.choice([0, 1, 3, 4, 5], size=500)
    score = rng.uniform(0.4, 0.9, size=500)
    X = np.repeat((1 - score[:, None]) / 5, 6, axis=1)
    X[np.arange(500), predicted] = score
    right = np.select(
        [predicted == 3, predicted == 4, predicted == 5],
        [True, False, score > 0.7],
        rng.random(500) < score - 0.1,
    )
    return X, np.where(right, predicted, (predicted + 1) % 6)


NEVER, ONE_SIDED = (
    "no calibration row is predicted as 2",
    "the calibration rows predicted as 3, 4 are all correct or all incorrect",
)
BOUNDED = "the fit of 5 reaches a bound"


def fit_with_warnings(X, y, **options) -> tuple[TemperatureScaling, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit_calibrator(X, y, **options)
    assert {warning.filename for warning in caught} <= {__file__}
    return model, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", ["csts", "tswa", "cstswa"])
def test_fallback_precision_uses_the_accuracy_with_warnings(kind):
    X, y = uneven_classes()
    model, messages = fit_with_warnings(X, y, fallback="precision", **KINDS[kind])
    expected = [
        f"{NEVER}: the confidence there is that of all rows",
        f"{ONE_SIDED}: the confidence there is their accuracy",
        f"{BOUNDED}: the confidence there is the accuracy of the calibration rows",
    ]
    precision = [
        *((X.argmax(axis=1) == y).mean(), 1.0, 0.0),
        (y == 5)[X.argmax(axis=1) == 5].mean(),
    ]
    without = [2, 3, 4, 5][
        : 4 if kind == "cstswa" else 3
    ]  # a temperature alone cannot separate the rows of 5
    assert messages == expected[: len(without) - 1]
    assert model.describe()["fell_back"] == [str(k) for k in without]
    new = np.full((6, 6), 0.08) + np.eye(6) * 0.52
    np.testing.assert_allclose(
        model.predict_confidence(new)[without], precision[: len(without)], rtol=1e-12
    )
    assert np.isnan(model.temperature_[without]).all() and np.isnan(model.award_[without]).all()


@pytest.mark.parametrize("kind", ["csts", "tswa", "cstswa"])
def test_fallback_shared_uses_the_temperature_of_all_rows(kind):
    X, y = uneven_classes()
    model, messages = fit_with_warnings(X, y, **KINDS[kind])
    consequence = ": the temperature there is that of all rows, without an award"
    assert (
        messages
        == [NEVER + consequence, ONE_SIDED + consequence, BOUNDED + consequence][
            : 3 if kind == "cstswa" else 2
        ]
    )
    shared = fit_calibrator(X, y)
    assert (model.award_[~model.own_] == 0).all() and model.own_[:2].all()
    if kind != "tswa":  # with awards, the temperature of all rows is another
        np.testing.assert_array_equal(
            model.temperature_[~model.own_], shared.temperature_[~model.own_]
        )


def test_ridge_gives_every_class_an_award():
    X, y = uneven_classes()
    model, messages = fit_with_warnings(X, y, awards=True, ridge=1.0)
    assert not messages and model.own_.all()
    assert model.award_[2] == 0 and model.award_[3] > 0 > model.award_[4]
    weaker = fit_calibrator(X, y, awards=True, ridge=0.01)
    assert weaker.award_[3] > model.award_[3] and weaker.award_[4] < model.award_[4]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fallback", ["precision", "shared"])
def test_rows_without_errors_have_a_confidence_of_1(kind, fallback):
    X, _ = draw_rows(100)
    model, messages = fit_with_warnings(X, X.argmax(axis=1), fallback=fallback, **KINDS[kind])
    assert messages == [
        "the calibration rows predicted as any class are all correct or all incorrect: the confidence"
        " there is their accuracy"
    ]
    assert (model.predict_confidence(X) == 1).all()
    assert model.describe()["fell_back"] == ["0", "1", "2"]


def test_warning_names_classes_that_do_not_converge(monkeypatch):
    X, y = draw_rows()
    monkeypatch.setattr("kdgraph.calibration.top_label.temperature._GRADIENT_TOLERANCE", 0.0)
    sentence = "did not converge: a better confidence may exist"
    assert fit_with_warnings(X, y, by_class=True)[1] == [f"the fit of 0, 1, 2 {sentence}"]
    assert fit_with_warnings(X, y, awards=True)[1] == [f"the fit of any class {sentence}"]


def test_class_below_chance_has_its_accuracy():
    """The confidence of two classes is at least 1/2, so an accuracy of 1/5 leads to the bound."""
    rng = np.random.default_rng(0)
    s = rng.uniform(0.6, 0.9, size=400)
    X = np.stack([s, 1 - s], axis=1)
    X[200:] = X[200:, ::-1]
    y = np.where(
        rng.random(400) < np.repeat([0.2, 0.8], 200), X.argmax(axis=1), 1 - X.argmax(axis=1)
    )
    model, messages = fit_with_warnings(X, y, by_class=True, fallback="precision")
    assert messages == [
        "the fit of 0 reaches a bound: the confidence there is the accuracy of the calibration rows"
    ]
    np.testing.assert_allclose(model.predict_confidence(X)[:200], (y[:200] == 0).mean())


def test_describe_has_parameters_by_class():
    X, y = draw_rows()
    descriptions = {
        kind: fit_calibrator(X, y, **options).describe() for kind, options in KINDS.items()
    }
    assert (
        isinstance(descriptions["sts"]["temperature"], float)
        and "award" not in descriptions["csts"]
    )
    assert (
        set(descriptions["csts"]["temperature"])
        == set(descriptions["tswa"]["award"])
        == {"0", "1", "2"}
    )
    assert descriptions["cstswa"]["fell_back"] == []
