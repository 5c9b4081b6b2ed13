"""Tests of reward against the cost of a mistake."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kdgraph.base import Evaluation
from kdgraph.figures import plot_reward_against_ratio
from kdgraph.figures.run_figures import RunFigureData, registered_figures
from kdgraph.figures.style import BLUE, GREY

RATIOS = np.geomspace(1, 100, 13)
METHODS = (
    "none",
    "temperature",
    "histogram",
    "isotonic",
    "MMCE",
    "group temperature",
    "group histogram",
    "LoRe, t-SNE",
    "LoRe, PCA",
)


def make_curves(names: tuple[str, ...] = ("none", "LoRe"), runs: int = 0):
    """Return random rewards and fractions of "unsure".

    The gain of a method grows by .1 from run to run, whatever the reward of the parent.
    """
    rng = np.random.default_rng(0)
    shape = (runs, len(RATIOS)) if runs else (len(RATIOS),)
    parent_reward = -rng.uniform(0, 5, (max(runs, 1), 1))
    gain = 0.1 * np.arange(max(runs, 1))[:, None] * np.log(RATIOS)
    reward = {name: (parent_reward + i * gain).reshape(shape) for i, name in enumerate(names)}
    return reward, {name: rng.uniform(0, 1, shape) for name in names}


def test_line_is_the_mean_gain_over_the_parent_by_run(texts_of) -> None:
    reward, unsure = make_curves(runs=5)
    figure = plot_reward_against_ratio(RATIOS, reward, unsure, band_of="5 seeds")
    above, below = figure.axes
    lines = {line.get_label(): line for line in above.lines}
    np.testing.assert_array_equal(lines["none"].get_ydata(), np.zeros(13))
    gains = np.array(
        [
            [lore - none for lore, none in zip(*rows, strict=True)]
            for rows in zip(reward["LoRe"], reward["none"], strict=True)
        ]
    )
    np.testing.assert_allclose(lines["LoRe"].get_ydata(), gains.mean(axis=0), atol=1e-12)
    assert (lines["none"].get_color(), lines["LoRe"].get_color()) == (GREY, BLUE)
    (band,) = above.collections  # the parent has no band
    end_vertices = band.get_paths()[0].vertices
    end_vertices = end_vertices[np.isclose(end_vertices[:, 0], 100), 1]
    # Without the difference in each run, the random reward of the parent would make it wider.
    np.testing.assert_allclose(
        [end_vertices.min(), end_vertices.max()],
        np.mean(gains[:, -1]) + np.array([-1, 1]) * np.std(gains[:, -1], ddof=1),
    )
    unsure_fractions = {line.get_label(): line.get_ydata() for line in below.lines}
    np.testing.assert_allclose(unsure_fractions["LoRe"], unsure["LoRe"].mean(axis=0))
    assert (above.get_xscale(), below.get_xscale(), below.get_ylim()[0]) == ("log", "log", 0)
    assert "lines, bands: mean ± 1 sd of 5 seeds, against the parent" in texts_of(figure)


def test_one_run_has_no_band() -> None:
    above, _ = plot_reward_against_ratio(RATIOS, *make_curves()).axes
    assert not above.collections


def test_markers_of_many_curves_are_at_different_ratios() -> None:
    above, _ = plot_reward_against_ratio(
        np.geomspace(1, 100, 41), *(dict.fromkeys(METHODS, np.zeros(41)),) * 2
    ).axes
    first_markers = [line.get_markevery()[0] for line in above.lines if line.get_label() in METHODS]
    assert len(set(first_markers)) > 2


@pytest.mark.parametrize(
    "names",
    [
        ("none", "LoRe"),
        METHODS,
        ("random_forest-kernel_density_forest-density_gate-of_a_long_name", "b"),
    ],
)
@pytest.mark.parametrize("runs", [0, 3])
def test_text_is_legible(names, runs: int, assert_legible) -> None:
    assert_legible(
        plot_reward_against_ratio(
            RATIOS, *make_curves(names, runs), band_of="60 seeds" if runs else None
        )
    )


REWARD, UNSURE = make_curves()


@pytest.mark.parametrize(
    ("ratios", "reward", "unsure", "message"),
    [
        (RATIOS[:1], REWARD, UNSURE, "two or more increasing ratios above 0"),
        (RATIOS - 1, REWARD, UNSURE, "two or more increasing ratios above 0"),
        (
            RATIOS,
            {"none": REWARD["none"]},
            UNSURE,
            (
                "needs the parent and a method, and the same in both, got ['none'] and ['none',"
                " 'LoRe']"
            ),
        ),
        (
            RATIOS,
            {**REWARD, "LoRe": np.zeros(3)},
            UNSURE,
            "curves of 'LoRe' must have a finite number for each of 13 ratios",
        ),
        (
            RATIOS,
            {**REWARD, "LoRe": np.full(13, np.nan)},
            UNSURE,
            "curves of 'LoRe' must have a finite number for each of 13 ratios",
        ),
        (
            RATIOS,
            {**REWARD, "LoRe": np.zeros((2, 13))},
            UNSURE,
            "and of the same runs, got shape (13,)",
        ),
        (RATIOS, *make_curves(runs=2), "band_of must describe how runs differ, e.g. '60 seeds'"),
    ],
)
def test_invalid_input_raises(ratios, reward, unsure, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_reward_against_ratio(ratios, reward, unsure)


def make_run_data(ratios: list[float]) -> RunFigureData:
    rows = [
        {
            "of": model,
            "on": "test",
            "ood": None,
            "ratio": ratio,
            "threshold": 1 - 1 / ratio,
            "reward": -gain * ratio,
            "unsure": 0.1,
            "error": 0.2,
        }
        for model, gain in (("parent", 0.1), ("calibrated", 0.05))
        for ratio in ratios
    ]
    return RunFigureData(
        None, Evaluation([], {"reward_by_ratio": rows}, []), (None, None), ("forest", "LoRe")
    )


def test_run_curves_are_sorted_by_ratio() -> None:
    above, below = registered_figures()["reward_against_ratio"](
        make_run_data([10.0, 2.0, 5.0])
    ).axes
    lines = {line.get_label(): line for line in above.lines}
    np.testing.assert_allclose(lines["LoRe"].get_xydata(), [[2, 0.1], [5, 0.25], [10, 0.5]])
    assert {line.get_label() for line in below.lines} == {"forest", "LoRe"}


def test_run_without_several_ratios_has_no_figure() -> None:
    draw = registered_figures()["reward_against_ratio"]
    assert draw(make_run_data([2.0])) is None
    assert draw(make_run_data([2.0, 3.0]), table="other") is None


def test_run_with_decision_metrics_draws_rewards(kdg, tmp_path) -> None:
    tiny = [
        "dataset=spiral",
        "dataset.n_train=60",
        "dataset.n_test=40",
        "parent.n_estimators=5",
        "ood=none",
        "n_jobs=1",
    ]
    code, _, err = kdg("run", *tiny, "method=isotonic", "metrics=decisions", "figures=decisions")
    assert (code, err) == (0, "")
    (record,) = tmp_path.glob("outputs/*/*/*/result.json")
    assert "reward_against_ratio.svg" in {
        path.name for path in (record.parent / "figures").iterdir()
    }
