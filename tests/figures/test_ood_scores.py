"""Tests of histograms of OOD scores."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import plot_ood_scores
from kdgraph.figures.style import BLUE, GREY
from kdgraph.metrics import auroc, delong_stderr

NAMES = ("random_forest", "tood, rows in sets of 100")


def random_scores(
    n: int = 200, shift: float = 0.0, names: tuple[str, ...] = NAMES
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {name: rng.normal(shift, 1 + i, n) for i, name in enumerate(names)}


def get_stairs(axes, gid: str):
    return next(artist for artist in axes.get_children() if artist.get_gid() == gid)


def test_columns_are_models_and_rows_are_sets(texts_of):
    test, sets = random_scores(), {"near": random_scores(150, 1.0), "far": random_scores(50, 4.0)}
    figure = plot_ood_scores(test, sets)
    assert len(figure.axes) == 4 and figure.get_size_inches()[0] == 3.5
    panels = iter(figure.axes)
    for name, color in zip(test, (GREY, BLUE), strict=True):
        for ood_scores in sets.values():
            axes = next(panels)
            filled, outline = (
                get_stairs(axes, "test rows").get_data(),
                get_stairs(axes, "out of distribution"),
            )
            np.testing.assert_array_equal(filled.edges, outline.get_data().edges)
            assert filled.values.sum() == pytest.approx(
                1
            ) and outline.get_data().values.sum() == pytest.approx(1)
            clipped_scores = np.clip(ood_scores[name], filled.edges[0], filled.edges[-1])
            np.testing.assert_allclose(
                outline.get_data().values * len(clipped_scores),
                np.histogram(clipped_scores, filled.edges)[0],
            )
            assert outline.get_edgecolor()[:3] == pytest.approx(
                tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
            )
            area = auroc(ood_scores[name], test[name])
            error = delong_stderr(ood_scores[name], test[name])
            assert f"AUROC {area:.3f} ± {error:.3f}" in texts_of(figure)
    assert {
        "near",
        "far",
        *NAMES,
        "test rows",
        "out of distribution",
        "out-of-distribution score",
        "rows (%)",
    } <= set(texts_of(figure))
    left_edges = {round(axes.get_position().x0, 3) for axes in figure.axes}
    assert len(left_edges) == 2


def test_threshold_is_marked_for_models_that_have_one(texts_of):
    figure = plot_ood_scores(
        random_scores(), {"far": random_scores(shift=1.0)}, thresholds=[NAMES[1]]
    )
    marked_lines = [[line.get_gid() for line in axes.lines] for axes in figure.axes]
    assert marked_lines == [[], ["threshold"]] and "threshold" in texts_of(figure)
    assert set(figure.axes[1].lines[0].get_xdata()) == {0}
    assert "threshold" not in texts_of(plot_ood_scores(random_scores(), {"far": random_scores()}))


def test_axis_is_linear_near_the_median_and_logarithmic_beyond(texts_of):
    test = random_scores(1000, names=NAMES[:1])
    figure = plot_ood_scores(test, {"far": {NAMES[0]: np.array([1e6, 1e3, 2.0])}})
    low, middle, high = np.quantile(test[NAMES[0]], [0.25, 0.5, 0.75])
    to_position = figure.axes[0].transScale

    def position(score):
        return to_position.transform((score, 0.0))[0]

    np.testing.assert_allclose(position(middle), 0, atol=1e-12)
    np.testing.assert_allclose(position(middle + (high - low)), np.arcsinh(1))
    # Beyond, a factor of 10 is ln(10) of the axis, up to the difference of arsinh and logarithm.
    np.testing.assert_allclose(position(1e6) - position(1e5), np.log(10), atol=1e-4)
    counts = get_stairs(figure.axes[0], "out of distribution").get_data()
    assert counts.edges[-1] == pytest.approx(1e6) and counts.values[-1] == pytest.approx(1 / 3)
    # The bin of the test rows is not the only one that they fill, in spite of the score of 1e6.
    assert (get_stairs(figure.axes[0], "test rows").get_data().values > 0).sum() > 5
    assert "of the test rows' median, logarithmic beyond" in texts_of(figure)


def test_infinite_scores_are_in_the_last_bin(texts_of):
    test = random_scores()
    ood_scores = {NAMES[0]: np.full(10, 1e6), NAMES[1]: np.array([np.inf, 0.0, 1.0, -1.0])}
    figure = plot_ood_scores(test, {"far": ood_scores})
    _, second = (get_stairs(axes, "out of distribution").get_data() for axes in figure.axes)
    assert second.values[-1] == 0.25 and np.isfinite(second.edges).all()
    assert "out-of-distribution score (last bin: infinite)" in texts_of(figure)


@pytest.mark.parametrize("spread", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("far", [1.0, 1e3, 1e300])
def test_ticks_are_few_distinct_and_inside_of_the_axis(spread, far):
    test = random_scores(names=NAMES[:1])
    figure = plot_ood_scores(
        {NAMES[0]: spread * test[NAMES[0]]},
        {"far": {NAMES[0]: np.array([spread * min(far, 1e280)])}},
    )
    (axes,) = figure.axes
    ticks = axes.get_xticks()
    assert 1 <= len(ticks) <= 3
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(set(labels)) == len(labels) and "−0" not in labels
    assert max(map(len, labels)) <= len("−1.23456e300")  # neighbours do not meet
    assert axes.get_xlim()[0] <= min(ticks) and max(ticks) <= axes.get_xlim()[1]


def test_sets_that_are_not_drawn_are_named(texts_of):
    figure = plot_ood_scores(
        random_scores(), {"far": random_scores(shift=3.0)}, note="not drawn: near"
    )
    assert "not drawn: near" in texts_of(figure)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_equal_scores_are_drawn(value):
    equal_scores = dict.fromkeys(NAMES, np.full(5, value))
    figure = plot_ood_scores(equal_scores, {"same": equal_scores})
    assert all(get_stairs(axes, "test rows").get_data().values.max() == 1 for axes in figure.axes)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize(
    "names",
    [NAMES, ("random_forest-of_a_long_name-kept", "kernel_density_forest + a gate of a long name")],
)
def test_text_is_legible(n, names, assert_legible):
    titles = [
        "a set with a long name and its parameters, inner 2, outer 5: 1,000 rows",
        "noise: 1,000 rows",
        "sphere, radius 2: 1,000 rows",
    ]
    sets = {title: random_scores(shift=50.0 * i, names=names) for i, title in enumerate(titles[:n])}
    assert_legible(plot_ood_scores(random_scores(names=names), sets, thresholds=names))


@pytest.mark.parametrize(
    ("test", "sets", "message"),
    [
        (random_scores(), {}, "ood_scores needs at least one model and one set"),
        ({}, {"far": {}}, "ood_scores needs at least one model and one set"),
        (
            {"a": [1.0]},
            {"far": {"b": [1.0]}},
            r"every set must have the names of the test rows, \['a'\], got \['b'\] in 'far'",
        ),
        (
            {"a": [1.0]},
            {"far": {"a": []}},
            "the scores of 'a' on 'far' must be numbers, and at least one, none of them NaN",
        ),
        ({"a": [np.nan]}, {"far": {"a": [1.0]}}, "the scores of 'a' on 'test' must be numbers"),
    ],
)
def test_invalid_input_raises(test, sets, message):
    with pytest.raises(ValueError, match=message):
        plot_ood_scores({name: np.array(values) for name, values in test.items()}, sets)
