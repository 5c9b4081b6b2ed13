"""Tests of tables of methods by groups."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from kdgraph.base import Evaluation
from kdgraph.figures import GroupTable, plot_group_tables
from kdgraph.figures.run_figures import RunFigureData, registered_figures
from tests.variations import others_slow

GROUPS = ["bald", "receding hairline", "bangs", "straight", "wavy", "other"]
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


def make_group_table(
    title: str = "MCE", scale="error", methods=METHODS, groups: int = 6, runs: int = 0
) -> GroupTable:
    rng = np.random.default_rng(0)
    low = -0.3 if scale == "signed" else 0.0
    return GroupTable(
        title,
        {m: rng.uniform(low, 0.6, (runs, groups) if runs else groups) for m in methods},
        scale,
    )


def worst_groups(axes) -> dict[int, int]:
    """Return the column of the frame by row."""
    frames = [patch for patch in axes.patches if patch.get_gid() == "worst"]
    return {round(p.get_y() + 0.46): round(p.get_x() + 0.47) for p in frames}


def test_cells_are_means_and_sds_and_the_worst_group_is_framed(texts_of) -> None:
    values = {
        "none": np.array([[0.5, 0.1], [0.3, 0.3]]),
        "LoRe": np.array([[0.1, 0.2], [0.1, np.nan]]),
    }
    gap = {
        "none": np.array([[-0.2, 0.1], [-0.2, 0.1]]),
        "LoRe": np.array([[0.0, -0.004], [0.0, -0.004]]),
    }
    figure = plot_group_tables(
        [GroupTable("MCE", values), GroupTable("gap", gap, "signed")],
        ["White", "Black"],
        [394, 55.4],
        runs_of="2 seeds",
    )
    left, right = figure.axes
    assert [text.get_text() for text in left.texts][:7] == [
        ".400",
        "± .141",
        ".200",
        "± .141",
        ".100",
        "± .000",
        ".200",
    ]
    assert left.texts[7].get_text() == "rows"  # a number of one run has no deviation
    assert worst_groups(left) == {0: 0, 1: 1}
    assert worst_groups(right) == {0: 0, 1: 1}  # the largest size, whatever its sign
    texts = texts_of(figure)
    assert {
        "−.200",
        "+.100",
        "+.000",
        "−.004",
        "394",
        "55",
        "rows",
        "none",
        "LoRe",
        "MCE",
        "gap",
    } <= set(texts)
    assert "mean and sd of 2 seeds; framed: the method's worst group" in texts


def test_colour_scale_ends_at_the_largest_error() -> None:
    error, signed = plot_group_tables(
        [make_group_table(), make_group_table("gap", "signed")], GROUPS, [10] * 6
    ).axes
    for axes, symmetric in ((error, False), (signed, True)):
        (image,) = axes.images
        low, high = image.get_clim()
        assert high == np.abs(image.get_array()).max()
        assert low == (-high if symmetric else 0)


def test_group_without_rows_is_empty_and_noted(texts_of) -> None:
    table = make_group_table(methods=["none", "LoRe"], groups=2, runs=3)
    table.values["none"][:, 1] = np.nan
    table.values["LoRe"][0, 1] = np.nan  # in one of three runs only
    figure = plot_group_tables([table], ["a", "b"], [5, 0], runs_of="3 seeds")
    (axes,) = figure.axes
    assert axes.images[0].get_array().mask.tolist() == [[False, True], [False, False]]
    assert worst_groups(axes)[0] == 0
    assert (
        "mean and sd of 3 seeds; framed: the method's worst group; light grey: no rows"
        in texts_of(figure)
    )


@pytest.mark.parametrize(("rows", "reason"), [([5, 0], "no rows"), ([5, 2], "no number")])
def test_note_distinguishes_small_groups_from_empty_groups(rows, reason: str, texts_of) -> None:
    table = GroupTable("MCE", {"none": np.array([0.1, np.nan])})
    assert f"framed: the method's worst group; light grey: {reason}" in texts_of(
        plot_group_tables([table], ["a", "b"], rows)
    )


def test_number_of_rows_is_below_a_value(texts_of) -> None:
    table = make_group_table(methods=["none", "LoRe"], groups=2, runs=3)
    n_rows = {name: np.array([[3.0, 40.0], [1.0, np.nan], [2.0, 60.0]]) for name in table.values}
    texts = texts_of(
        plot_group_tables([replace(table, n_rows=n_rows)], ["a", "b"], [5, 100], runs_of="3 seeds")
    )
    assert texts.count("n 2") == texts.count("n 50") == 2
    assert (
        "mean and sd of 3 seeds; framed: the method's worst group; n: rows behind a number" in texts
    )


def luminance(color) -> float:
    """Return the relative luminance of WCAG 2."""
    r, g, b = (u / 12.92 if u <= 0.04045 else ((u + 0.055) / 1.055) ** 2.4 for u in to_rgb(color))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_numbers_have_contrast_on_every_colour() -> None:
    for axes in plot_group_tables(
        [make_group_table(runs=2), make_group_table("gap", "signed", runs=2)],
        GROUPS,
        [10] * 6,
        runs_of="2 seeds",
    ).axes:
        (image,) = axes.images
        cells = image.to_rgba(image.get_array())
        numbers = [
            text
            for text in axes.texts
            if text.get_position()[1] != 1 and text.get_text().lstrip("± +−").startswith(".")
        ]
        assert len(numbers) == 2 * 6 * len(METHODS)
        for text in numbers:
            j, i = (round(value) for value in text.get_position())
            darker, lighter = sorted(
                luminance(color) for color in (cells[i, j, :3], text.get_color())
            )
            assert (lighter + 0.05) / (darker + 0.05) > 4.5


@pytest.mark.parametrize(
    "groups",
    [
        ["White", "Black", "Hispanic", "Asian"],
        GROUPS,
        ["one"],
        [f"aquatic animal {k}" for k in range(9)],
    ],
)
@pytest.mark.parametrize(
    ("titles", "runs"),
    others_slow(
        [(["MCE"], 0), (["MCE", "mean confidence − accuracy"], 60)],
        (["MCE", "mean confidence − accuracy"], 60),
    ),
)
def test_tables_are_legible(groups, titles, runs: int, assert_legible) -> None:
    tables = [
        make_group_table(title, "signed" if i else "error", groups=len(groups), runs=runs)
        for i, title in enumerate(titles)
    ]
    tables[0] = replace(tables[0], n_rows=tables[0].values)
    rows = [12_345 * (i + 1) % 7_919 for i in range(len(groups))]
    figure = plot_group_tables(
        tables,
        groups,
        rows,
        notes={"error": [".17"] * len(groups)},
        runs_of="60 seeds" if runs else None,
    )
    assert figure.get_size_inches()[0] <= 7.0 + 1e-9
    assert_legible(figure)


@pytest.mark.parametrize(
    ("tables", "more", "message"),
    [
        ([], {}, "needs a table, a method and a group"),
        ([GroupTable("MCE", {})], {}, "needs a table, a method and a group"),
        (
            [make_group_table(), make_group_table("gap", methods=["none"])],
            {},
            "the same methods, ['none', 'temperature'",
        ),
        (
            [make_group_table(groups=5)],
            {},
            (
                "'MCE' of 'none' must have a finite number, or NaN, for each of 6 groups, got shape"
                " (5,)"
            ),
        ),
        ([make_group_table(runs=2)], {}, "runs_of must describe how runs differ, e.g. '60 seeds'"),
        ([GroupTable("MCE", {"none": np.full(6, np.nan)})], {}, "'MCE' has no number"),
        (
            [replace(make_group_table(), n_rows={"none": np.ones(6)})],
            {},
            "'MCE' must have rows behind each of its values, or none at all",
        ),
        ([make_group_table()], {"rows": [1]}, "needs rows for each of ['bald'"),
        ([make_group_table()], {"notes": {"error": [".1"]}}, "needs error for each of ['bald'"),
    ],
)
def test_invalid_input_raises(tables, more, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_group_tables(tables, GROUPS, **{"rows": [1] * 6} | more)


def make_run_data(table: list[dict]) -> RunFigureData:
    return RunFigureData(
        None, Evaluation([], {"by_group": table}, []), (None, None), ("forest", "LoRe")
    )


def test_run_figure_shows_errors_and_gaps(texts_of) -> None:
    rows = [
        {
            "group": "a",
            "rows": 90,
            "error": 0.25,
            "confidence": 0.875,
            "ece": 0.1,
            "mce": 0.2,
            "worst_rows": 30.0,
        },
        {
            "group": "b",
            "rows": 10,
            "error": 0.5,
            "confidence": 0.25,
            "ece": 0.1,
            "mce": 0.4,
            "worst_rows": 2.0,
        },
    ]
    model_rows = [
        row | {"of": model, "on": "test", "ood": None}
        for model in ("parent", "calibrated")
        for row in rows
    ]
    figure = registered_figures()["group_tables"](make_run_data(model_rows))
    error, gap = figure.axes
    np.testing.assert_allclose(error.images[0].get_array(), [[0.2, 0.4]] * 2)
    np.testing.assert_allclose(gap.images[0].get_array(), [[0.125, -0.25]] * 2)
    assert {"forest", "LoRe", "90", "10", "a", "b", "+.125", "−.250", "n 30", "n 2"} <= set(
        texts_of(figure)
    )
    assert registered_figures()["group_tables"](make_run_data(model_rows), table="by_hair") is None
    rows_without_mce = [
        row | {"ece": None, "mce": None, "worst_rows": None} for row in model_rows
    ]  # no bin has min_count rows
    assert registered_figures()["group_tables"](make_run_data(rows_without_mce)) is None
    assert (
        registered_figures()["group_tables"](make_run_data(rows_without_mce[:1] + model_rows[1:]))
        is not None
    )


def test_run_of_a_file_with_groups_draws_tables(kdg, tmp_path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    frame = pd.DataFrame(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "side": np.where(x[:, 0] > 0, "right", "left"),
            "y": x.sum(axis=1) > 0,
        }
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = [
        "dataset=table",
        f"dataset.path={tmp_path}/rows.csv",
        "dataset.target=y",
        "dataset.group=side",
        "parent.n_estimators=5",
    ]
    code, _, err = kdg(
        "run", *data, "method=isotonic", "ood=none", "metrics=groups", "figures=groups", "n_jobs=1"
    )
    assert (code, err) == (0, "")
    (record,) = tmp_path.glob("outputs/*/*/*/result.json")
    assert "group_tables.svg" in {path.name for path in (record.parent / "figures").iterdir()}


@pytest.mark.filterwarnings("default")  # as outside of the tests: the run records its warnings
def test_a_run_names_the_figures_whose_tables_no_metric_computes(tmp_path, kdg):
    small = ["parent.n_estimators=5", "dataset=wine", "method=none", "ood=none", "n_jobs=1"]
    code, out, _ = kdg("run", *small, "figures=groups")
    assert code == 0
    assert "not drawn: group_tables, since no metric computes by_group" in out
    code, out, _ = kdg("run", *small, "figures=default")
    assert code == 0 and "not drawn" not in out
