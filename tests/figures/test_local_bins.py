"""Tests of the local calibration error inside bins of confidence."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kdgraph.figures import ConfidenceBin, plot_lce_of_bins


def make_bin(
    title: str = "best bin", n: int = 40, error: float = 0.01, seed: int = 0
) -> ConfidenceBin:
    rng = np.random.default_rng(seed)
    return ConfidenceBin(
        title,
        14 / 15,
        1.0,
        rng.normal(size=(n, 2)),
        rng.uniform(-0.2, 0.2, n),
        rng.uniform(1, 20, n),
        error,
    )


def test_curve_is_the_fraction_of_rows_up_to_an_error(texts_of) -> None:
    bins = [make_bin(), make_bin("worst bin", error=-0.12, seed=1)]
    bins[1].slce[3] = np.nan
    figure = plot_lce_of_bins(bins, bandwidth=0.2, axis_names=("t-SNE 1", "t-SNE 2"))
    curves = [axes for axes in figure.axes if axes.get_ylabel() == "fraction of rows"]
    for axes, confidence_bin in zip(curves, bins, strict=True):
        sizes = np.abs(confidence_bin.slce[~np.isnan(confidence_bin.slce)])
        step, mean, bin_error = axes.lines
        for x, fraction in zip(*step.get_data(), strict=True):
            assert fraction == pytest.approx(np.mean(sizes <= x))
        assert mean.get_xdata()[0] == pytest.approx(sizes.mean())
        assert bin_error.get_xdata()[0] == abs(confidence_bin.error)
    assert curves[0].get_xlim() == curves[1].get_xlim()
    texts = texts_of(figure)
    mean = np.abs(bins[0].slce).mean()
    assert (
        "best bin: confidence in (0.933, 1], 40 rows; their average error +0.0100, mean LCE"
        f" {mean:.4f}" in texts
    )
    assert any(text.startswith("worst bin: ") and "average error −0.1200" in text for text in texts)
    assert "bandwidth 0.2; small: fewer than 5 effective rows" in texts
    assert {"t-SNE 1", "t-SNE 2"} <= set(texts)


def test_maps_share_colour_scale_and_limits() -> None:
    figure = plot_lce_of_bins([make_bin(), make_bin("worst bin", 25, seed=1)], bandwidth=1)
    maps = [axes for axes in figure.axes if axes.get_xlabel() == "x₁"]
    rows = [artist for axes in maps for artist in axes.collections if artist.get_gid() == "rows"]
    assert [len(dots.get_offsets()) for dots in rows] == [40, 25]
    assert rows[0].get_clim() == rows[1].get_clim()
    assert (maps[0].get_xlim(), maps[0].get_ylim()) == (maps[1].get_xlim(), maps[1].get_ylim())


def test_few_large_errors_do_not_determine_the_axis() -> None:
    confidence_bin = make_bin(n=1000)
    confidence_bin.slce[:5] = 1.0
    (axes,) = [
        axes
        for axes in plot_lce_of_bins([confidence_bin], bandwidth=1).axes
        if axes.get_ylabel() == "fraction of rows"
    ]
    assert 0.19 < axes.get_xlim()[1] < 0.3


@pytest.mark.parametrize(
    "titles",
    [
        ["best bin"],
        ["best bin", "worst bin"],
        ["a", "b", "the third of three bins with a long title"],
    ],
)
def test_bins_are_legible(titles, assert_legible) -> None:
    assert_legible(
        plot_lce_of_bins(
            [make_bin(title, seed=i) for i, title in enumerate(titles)], bandwidth=0.0125
        )
    )


def test_bin_without_errors_is_legible(assert_legible) -> None:
    assert_legible(plot_lce_of_bins([replace(make_bin(error=0.0), slce=np.zeros(40))], bandwidth=1))


@pytest.mark.parametrize(
    "changes",
    [
        {"points": np.zeros((40, 3))},
        {"n_eff": np.zeros(3)},
        {"slce": np.full(40, np.nan)},
        {"slce": np.zeros(0)},
    ],
)
def test_invalid_bin_raises(changes) -> None:
    with pytest.raises(
        ValueError,
        match=re.escape(
            "'best bin' needs points Float[n, 2], an error and effective rows for each"
        ),
    ):
        plot_lce_of_bins([replace(make_bin(), **changes)], bandwidth=1)


def test_no_bin_raises() -> None:
    with pytest.raises(ValueError, match="needs a bin"):
        plot_lce_of_bins([], bandwidth=1)
