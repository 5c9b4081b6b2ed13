"""Tests of the figures of a regression run."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.base import Evaluation, FittedModel, Predictions
from kdgraph.data import make_splits
from kdgraph.data.simulations import Heteroscedastic, Rosenbrock
from kdgraph.distributions import Normal, Recalibrated, WeightedEcdf
from kdgraph.errors import ConfigError
from kdgraph.figures.run_figures import RunFigureData, registered_figures
from kdgraph.metrics import tabulate

NAMES = ("linear", "global_pit")


def make_run_data(source, *, has_table=True):
    splits = make_splits(
        source, n_train=60, n_calibration=40, n_test=50, rng=np.random.default_rng(0)
    )
    y, X = splits.test.y, splits.test.X
    base = Normal(np.full(50, y.mean()), y.std())
    distributions = {
        "parent": base,
        "calibrated": Recalibrated(
            base, WeightedEcdf.from_pits(np.random.default_rng(1).beta(2, 2, size=40))
        ),
    }
    tables = {}
    if has_table:
        for model, distribution in distributions.items():
            rows = tabulate(
                "local_pit", {"y": y, "X": X, "distribution": distribution}, {"cells": 3, "bins": 4}
            )
            tables.setdefault("local_pit", []).extend(
                {"of": model, "on": "test", "ood": None, **row} for row in rows
            )
    parent, calibrated = ({"distribution": distribution} for distribution in distributions.values())
    predictions = Predictions("test", 50, parent, calibrated, y=y, truth=splits.test.truth)
    return RunFigureData(
        splits, Evaluation([], tables, [predictions]), (FittedModel(None), FittedModel(None)), NAMES
    ), distributions


def test_moments_are_those_of_the_first_test_rows():
    run, distributions = make_run_data(Heteroscedastic())
    figure = registered_figures()["mean_and_sd"](run, at_most=20)
    moments = (
        lambda distribution: distribution.mean(),
        lambda distribution: distribution.var() ** 0.5,
    )
    for axes, moment in zip(figure.axes, moments, strict=True):
        for name, distribution in zip(NAMES, distributions.values(), strict=True):
            (rows,) = axes.findobj(lambda artist, name=name: artist.get_gid() == f"rows {name}")
            np.testing.assert_allclose(
                rows.get_offsets(),
                np.column_stack([moment(run.test.truth[:20]), moment(distribution[:20])]),
            )


def test_misses_are_outside_of_the_interval_and_need_two_features():
    run, distributions = make_run_data(Rosenbrock())
    figure = registered_figures()["interval_misses"](run, level=0.5)
    for axes, distribution in zip(figure.axes, distributions.values(), strict=True):
        low, high = distribution.interval(0.5)
        for gid, rows in (("below", run.test.y < low), ("above", run.test.y > high)):
            (dots,) = axes.findobj(lambda artist, gid=gid: artist.get_gid() == gid)
            np.testing.assert_array_equal(dots.get_offsets(), run.splits.test.X[rows])
        assert (axes.get_xlabel(),) == ("x1",)
    assert registered_figures()["interval_misses"](make_run_data(Heteroscedastic())[0]) is None


def test_local_pit_histograms_have_a_panel_for_each_cell():
    run, _ = make_run_data(Heteroscedastic())
    titles = [
        axes.get_title(loc="left")
        for axes in registered_figures()["local_pit_histograms"](run).axes
    ]
    assert [title.split(", x1 ")[0] for title in titles] == ["cell 1", "cell 2", "cell 3"]
    assert sum(int(title.split(" · ")[1].removesuffix(" rows")) for title in titles) == 50
    assert (
        registered_figures()["local_pit_histograms"](
            make_run_data(Heteroscedastic(), has_table=False)[0]
        )
        is None
    )


def test_densities_have_area_one_and_the_true_one_is_exact():
    run, _ = make_run_data(Heteroscedastic())
    figure = registered_figures()["predictive_densities"](run, rows=[7, 3])
    assert [axes.get_title() for axes in figure.axes] == [
        f"test row {i}\nx = {run.splits.test.X[i, 0]:.3g}" for i in (7, 3)
    ]
    for axes, row in zip(figure.axes, (7, 3), strict=True):
        lines = {line.get_label(): line for line in axes.lines if line.get_gid() is None}
        assert list(lines) == [*NAMES, "truth"]
        outcomes = lines["truth"].get_xdata()
        np.testing.assert_allclose(
            lines["truth"].get_ydata(), run.test.truth[[row]].pdf(outcomes[None])[0]
        )
        assert np.trapezoid(lines["global_pit"].get_ydata(), outcomes) == pytest.approx(
            1, abs=0.03
        )  # the kernel has mass beyond the ends
        assert run.test.y[row] in list(
            axes.findobj(lambda artist: artist.get_gid() == "outcome")[0].get_xdata()
        )
    assert len(registered_figures()["predictive_densities"](run, n_rows=3).axes) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": [50]}, r"figures.draw.predictive_densities.rows must be in 0 to 49, got 50"),
        ({"n_rows": 6}, "figures.draw.predictive_densities draws five rows at most, got 6"),
    ],
)
def test_missing_rows_raise(options, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        registered_figures()["predictive_densities"](make_run_data(Heteroscedastic())[0], **options)


@pytest.mark.parametrize("name", ["mean_and_sd", "interval_misses", "predictive_densities"])
def test_classification_has_no_regression_figures(name):
    run, _ = make_run_data(Heteroscedastic())
    predictions = Predictions("test", 50, {}, {}, y=np.zeros(50))
    assert (
        registered_figures()[name](
            RunFigureData(run.splits, Evaluation([], {}, [predictions]), run.models, NAMES)
        )
        is None
    )
