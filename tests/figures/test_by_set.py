"""Tests of histograms of confidence by set."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import plot_confidence_by_set


def random_confidences(
    *titles: str, names: tuple[str, ...] = ("lenet", "kdn")
) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return {title: {name: rng.uniform(0.2, 1, 50) for name in names} for title in titles}


def artist_by_gid(axes, gid: str):
    return next(artist for artist in axes.get_children() if artist.get_gid() == gid)


def test_panels_contain_normalised_histograms_and_means(texts_of) -> None:
    sets = random_confidences("test", "svhn")
    figure = plot_confidence_by_set(sets, 0.1)
    assert len(figure.axes) == 2 and figure.get_size_inches()[0] == 3.5
    tops = [axes.get_position().y0 for axes in figure.axes]
    assert tops[0] > tops[1]
    for axes, (title, confidences) in zip(figure.axes, sets.items(), strict=True):
        histograms = {
            patch.get_label(): patch for patch in axes.patches if patch.get_label() in confidences
        }
        for name, values in confidences.items():
            data = histograms[name].get_data()
            assert data.values.sum() == pytest.approx(1)
            assert data.edges[0] == 0.05 and data.edges[-1] == 1
            np.testing.assert_array_equal(data.values * 50, np.histogram(values, data.edges)[0])
            assert set(artist_by_gid(axes, f"mean {name}").get_xdata()) == {values.mean()}
            assert f"{values.mean():.3f}" in texts_of(figure)
        assert title in texts_of(figure)
        assert set(artist_by_gid(axes, "prior").get_xdata()) == {0.1}


def test_confidence_of_one_is_in_the_last_bin() -> None:
    figure = plot_confidence_by_set({"test": {"lenet": np.ones(3)}}, 0.5)
    (histogram,) = [patch for patch in figure.axes[0].patches if patch.get_label() == "lenet"]
    assert histogram.get_data().values[-1] == 1


@pytest.mark.parametrize("n", [1, 2, 6])
def test_text_is_legible(n: int, assert_legible) -> None:
    titles = [
        "test, in distribution: 10,000 rows",
        "a set with a long name and its parameters, inner 2, outer 5: 1,000 rows",
        *"abcd",
    ]
    names = ("random_forest-kernel_density_forest-density_gate-of_a_long_name", "kdn", "isotonic")
    assert_legible(plot_confidence_by_set(random_confidences(*titles[:n], names=names), 0.112))


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ({}, "needs at least one set"),
        (
            {"test": {"a": [0.5]}, "ood": {"b": [0.5]}},
            r"every set must have the same names, \['a'\], got \['b'\] in 'ood'",
        ),
        ({"test": {}}, r"every set must have the same names, \[\], got \[\] in 'test'"),
        (
            {"test": {"a": np.array([])}},
            r"the confidence of 'a' on 'test' must be numbers in \[0, 1\], one for each row",
        ),
        ({"test": {"a": np.array([0.5, np.nan])}}, r"must be numbers in \[0, 1\]"),
        ({"test": {"a": np.array([0.5, 1.5])}}, r"must be numbers in \[0, 1\]"),
    ],
)
def test_invalid_input_raises(sets, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_confidence_by_set(sets, 0.5)
