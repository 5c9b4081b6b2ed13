"""Label shift: weights are rows repeated, frequencies are those that are asked for, and knowing
them repairs calibration.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.p2.label_shift import (
    CONCENTRATIONS,
    FACTORS,
    IN_SAMPLE,
    METHODS,
    NONE,
    STRONG,
    WITHOUT_WORST,
    Shift,
    claims,
    confidence,
    gap_table,
    loss_table,
    losses_and_gap,
    ratio_table,
    ratios,
    repaired,
    shifts,
    study,
    summary,
)
from kdgraph.metrics import TopLabel

KINDS = [
    NONE,
    *(f"one class × {factor:g}" for factor in FACTORS),
    *(f"Dirichlet({c:g})" for c in CONCENTRATIONS),
]


def record(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of three classes that are calibrated, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.ones(3), n)
    return X, np.array([rng.choice(3, p=row) for row in X])


def test_shifts_are_none_single_classes_and_random_frequencies() -> None:
    prior = np.array([0.5, 0.3, 0.2])
    result = list(shifts(prior, 4000, np.random.default_rng(0)))
    assert result[0].kind == NONE and result[0].weight.tolist() == [1, 1, 1]
    assert [(s.kind, s.weight.tolist()) for s in result[1:4]] == [
        (f"one class × {FACTORS[0]:g}", w) for w in ([0.25, 1, 1], [1, 0.25, 1], [1, 1, 0.25])
    ]
    assert list(dict.fromkeys(s.kind for s in result)) == KINDS
    for kind in KINDS[-2:]:
        frequencies = np.array([s.weight * prior for s in result if s.kind == kind])
        np.testing.assert_allclose(frequencies.sum(axis=1), 1)
        np.testing.assert_allclose(frequencies.mean(axis=0), prior, atol=0.02)


def test_a_weight_is_a_row_that_many_times() -> None:
    X, y = record(90)
    top_label, weight = TopLabel.from_proba(X), np.random.default_rng(0).integers(0, 4, 90)
    many = np.repeat(np.arange(90), weight)
    weighted, repeated = (
        losses_and_gap(top_label, y, weight.astype(float)),
        losses_and_gap(top_label[many], y[many], np.ones(len(many))),
    )
    assert weighted == pytest.approx(repeated)
    score, right, k = (
        top_label.confidence[many],
        top_label.correct(y)[many],
        top_label.predicted[many],
    )
    naive = sum(
        abs((score[k == each] - right[k == each]).mean()) * (k == each).mean() for each in range(3)
    )
    assert repeated["gap"] == pytest.approx(naive)
    assert repeated["brier"] == pytest.approx(((score - right) ** 2).mean())
    assert repeated["nll"] == pytest.approx(-np.log(np.where(right, score, 1 - score)).mean())


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrator_of_weighted_rows_is_that_of_rows_repeated(method) -> None:
    X, y = record(300)
    weight = np.array([1, 3, 2])[y]
    many, new = np.repeat(np.arange(300), weight), record(50, seed=1)[0]
    weighted, repeated = (
        confidence(method, X, y, weight, new),
        confidence(method, X[many], y[many], None, new),
    )
    np.testing.assert_allclose(
        weighted.confidence,
        repeated.confidence,
        atol=2e-4 if method in ("sts", "csts", "tswa") else 1e-9,
    )


def test_known_frequencies_close_the_gap_of_a_shift() -> None:
    X, y = record(6000)
    half = slice(0, 3000), slice(3000, 6000)
    shift = Shift("one", np.array([6.0, 1.0, 1.0]))
    weight = [shift.weight[y[rows]] for rows in half]
    fits = {
        known: confidence(
            "histogram", X[half[0]], y[half[0]], weight[0] if known else None, X[half[1]]
        )
        for known in (False, True)
    }
    gap = {
        known: losses_and_gap(top_label, y[half[1]], weight[1])["gap"]
        for known, top_label in fits.items()
    }
    at_rest = losses_and_gap(fits[False], y[half[1]], np.ones(3000))["gap"]
    assert gap[False] > 0.1 > 0.03 > gap[True]
    assert repaired(pd.Series([gap[False]]), pd.Series([gap[True]]), pd.Series([at_rest])) > 0.8


@pytest.fixture(scope="module")
def small() -> pd.DataFrame:
    return study(*record(400), ["histogram", "sts"], seeds=1, draws=1)


def test_the_study_tests_every_method_under_every_shift(small) -> None:
    here = small[small.method == "histogram"]
    assert here.groupby("fit").size().to_dict() == {
        "unshifted": 1 + 1 + 3 * 4 + 2,
        "weighted": 1 + 3 * 4 + 2,
    }
    at_rest = here[here.kind == NONE].set_index("fit")
    assert at_rest.nll["weighted"] == at_rest.nll["unshifted"]
    assert (small[small.kind == IN_SAMPLE].fit == "unshifted").all()


def made_up(spread: float, error: float) -> pd.DataFrame:
    """Two methods that are ``spread`` apart, and lose ``error`` where classes shift; knowing the
    frequencies repairs all of it.
    """
    rows = []
    for place, kind in enumerate([IN_SAMPLE, *KINDS]):
        for method, level in (("histogram", 0.2), ("sts", 0.2 + spread)):
            lost = 0 if kind in (NONE, IN_SAMPLE) else error
            for fit, value in (("unshifted", level + lost), ("weighted", level)):
                if kind != IN_SAMPLE or fit == "unshifted":
                    rows.append(
                        {
                            "kind": kind,
                            "seed": 0,
                            "shift": place,
                            "method": method,
                            "fit": fit,
                            **dict.fromkeys(("nll", "brier", "gap"), value),
                        }
                    )
        rows.append(
            {
                "kind": kind,
                "seed": 0,
                "shift": place,
                "method": NONE,
                "fit": "uncalibrated",
                "nll": 0.5,
                "brier": 0.3,
                "gap": 0.2,
            }
        )
    return pd.DataFrame(rows)


def test_error_and_spread_are_those_of_the_numbers() -> None:
    result = summary(made_up(0.01, 0.03), ["histogram", "sts"])
    assert result.spread["nll"] == pytest.approx({NONE: 0.01, IN_SAMPLE: 0.01, WITHOUT_WORST: 0})
    assert ratios(result, "nll", NONE) == pytest.approx(dict.fromkeys(KINDS[1:], 3))
    assert result.error["brier"] == pytest.approx(dict.fromkeys(KINDS[1:], 0.03)) and result.worst[
        "nll"
    ] == pytest.approx(result.error["nll"])


@pytest.mark.parametrize(("spread", "error", "holds"), [(0.01, 0.03, True), (0.03, 0.01, False)])
def test_claims_hold_where_the_error_is_larger(spread, error, holds) -> None:
    tested = list(
        claims(summary(made_up(spread, error), ["histogram", "sts"]), ["histogram", "sts"])
    )
    assert [claim.holds for claim in tested] == [
        *[holds] * 4,
        True,
        True,
        True,
    ]  # one of two techniques has no spread
    assert set(STRONG) <= set(KINDS)


def test_tables_have_a_row_for_each_kind(small) -> None:
    methods = ["histogram", "sts"]
    result = summary(small, methods)
    assert len(ratio_table(result).splitlines()) == 2 + 6
    lines = loss_table(result, methods, "nll").splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:-2]] == [IN_SAMPLE, *KINDS]
    assert [
        line.split("|")[1].strip() for line in gap_table(result, methods).splitlines()[2:]
    ] == KINDS
