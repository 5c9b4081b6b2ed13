"""Tests of the figure of one metric against others."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from experiments.p4.correlation import pearson_overall_and_within, plot_metric_against_metrics
from tests.variations import others_slow

METHODS = [
    "none",
    "temperature",
    "histogram",
    "isotonic",
    "MMCE",
    "group temperature",
    "group histogram",
    "LoRe, t-SNE",
    "LoRe, PCA",
]


def make_runs(seed: int, methods=METHODS, n: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(rng.uniform(0.2, 0.6), 0.05, n) for name in methods}


@given(st.integers(0, 10_000))
def test_correlations_agree_with_scipy_and_a_regression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = {"a": 5, "b": 9}
    x, y = ({name: rng.normal(rng.normal(), 1, n) for name, n in sizes.items()} for _ in range(2))
    overall, within = pearson_overall_and_within(x, y)
    assert overall == pytest.approx(
        pearsonr(np.r_[x["a"], x["b"]], np.r_[y["a"], y["b"]]).statistic
    )
    # In a regression of y on x with an intercept for each method, the squared correlation within
    # methods is the fraction of the variation left by the intercepts that x explains.
    design = np.zeros((14, 3))
    design[:5, 0] = design[5:, 1] = 1
    design[:, 2] = np.r_[x["a"], x["b"]]
    all_y = np.r_[y["a"], y["b"]]
    residual_sums = [
        np.square(all_y - columns @ np.linalg.lstsq(columns, all_y, rcond=None)[0]).sum()
        for columns in (design[:, :2], design)
    ]
    assert within**2 == pytest.approx(1 - residual_sums[1] / residual_sums[0], abs=1e-9)


def test_correlation_without_variation_is_nan() -> None:
    x, y = {"a": np.array([0.0, 1.0, 2.0])}, {"a": np.array([0.0, -1.0, -2.0])}
    assert pearson_overall_and_within(x, y) == pytest.approx((-1.0, -1.0))
    assert np.isnan(pearson_overall_and_within(x, {"a": np.ones(3)})).all()
    distinct_means = {"a": np.ones(3), "b": np.zeros(3)}
    overall, within = pearson_overall_and_within(distinct_means, distinct_means)
    assert overall == pytest.approx(1.0) and np.isnan(within)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e200])
def test_correlation_is_independent_of_units_and_rounding(unit: float) -> None:
    x, y = make_runs(0, METHODS[:2]), make_runs(1, METHODS[:2])
    scaled_x = {name: unit * values for name, values in x.items()}
    assert pearson_overall_and_within(scaled_x, y) == pytest.approx(
        pearson_overall_and_within(x, y), rel=1e-9
    )
    nearly_constant = {name: unit * (0.1 + np.arange(12) * 1e-17) for name in x}
    assert np.isnan(pearson_overall_and_within(nearly_constant, y)).all()


def test_runs_are_dots_and_methods_have_means(texts_of) -> None:
    x, y = make_runs(0), make_runs(1)
    figure = plot_metric_against_metrics(
        {"ECE": x, "MLCE": y}, y, ylabel="max group MCE", runs_of="12 seeds"
    )
    first, second = figure.axes
    by_gid = {line.get_gid(): line for line in first.lines}
    for name in METHODS:
        np.testing.assert_array_equal(
            by_gid[f"runs {name}"].get_xydata(), np.column_stack([x[name], y[name]])
        )
        np.testing.assert_allclose(
            by_gid[f"mean {name}"].get_xydata(), [[x[name].mean(), y[name].mean()]]
        )
    assert "r 1.00 over all, 1.00 within methods" in [text.get_text() for text in second.texts]
    assert (first.get_xlabel(), second.get_xlabel(), first.get_ylabel(), second.get_ylabel()) == (
        "ECE",
        "MLCE",
        "max group MCE",
        "",
    )
    assert "small: one of 12 seeds; large: their mean" in texts_of(figure)


def test_methods_have_distinct_dots() -> None:
    (axes,) = plot_metric_against_metrics(
        {"ECE": make_runs(0)}, make_runs(1), ylabel="max group MCE", runs_of="12 seeds"
    ).axes
    dots = [line for line in axes.lines if line.get_gid().startswith("runs")]
    assert len(
        {(dot.get_color(), dot.get_marker(), str(dot.get_markerfacecolor())) for dot in dots}
    ) == len(METHODS)


@pytest.mark.parametrize("panels", others_slow([1, 2, 3, 4, 6], 6))
@pytest.mark.parametrize(
    "methods",
    [METHODS, ["none", "random_forest-kernel_density_forest-density_gate-of_a_long_name"]],
)
def test_panels_are_legible(panels: int, methods, assert_legible) -> None:
    metrics = {f"MLCE {i}": make_runs(i, methods) for i in range(panels)}
    figure = plot_metric_against_metrics(
        metrics, make_runs(9, methods), ylabel="max group MCE", runs_of="12 seeds"
    )
    assert figure.get_size_inches()[0] == (3.5 if panels == 1 else 7.0)
    assert_legible(figure)


@pytest.mark.parametrize(
    ("panels", "y", "message"),
    [
        ({}, make_runs(0), "needs a metric and a method"),
        ({"ECE": {}}, {}, "needs a metric and a method"),
        (
            {"ECE": make_runs(0, ["none"])},
            make_runs(0, ["LoRe"]),
            "the same methods, ['LoRe'], got ['none'] in 'ECE'",
        ),
        (
            {"ECE": make_runs(0, ["none"], 3)},
            make_runs(0, ["none"], 4),
            "'ECE' of 'none' must have a finite number for each of 4 runs, got shape (3,)",
        ),
        (
            {"ECE": {"none": np.full(4, np.nan)}},
            make_runs(0, ["none"], 4),
            "'ECE' of 'none' must have a finite number for each of 4 runs",
        ),
    ],
)
def test_invalid_input_raises(panels, y, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_metric_against_metrics(panels, y, ylabel="max group MCE", runs_of="12 seeds")
