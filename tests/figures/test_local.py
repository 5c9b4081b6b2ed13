"""Tests of maps of local calibration error, and of the local figures of a run."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from kdgraph.base import Evaluation
from kdgraph.errors import ConfigError
from kdgraph.figures import plot_lce_landscape, posterior_colormap
from kdgraph.figures.run_figures import RunFigureData, registered_figures
from kdgraph.figures.style import ID_SHADE

BOX = (-1.0, 1.0, -1.0, 1.0)
LONG_NAME = "random_forest-kernel_density_forest-density_gate-of_a_long_name"


def make_landscape(n: int = 200, names: tuple[str, ...] = ("random forest", "kdf")):
    rng = np.random.default_rng(0)
    return (
        rng.uniform(-1, 1, (n, 2)),
        {name: rng.uniform(-0.3, 0.3, n) for name in names},
        {name: rng.uniform(1, 20, n) for name in names},
    )


def get_dots(axes):
    (dots,) = [artist for artist in axes.collections if artist.get_gid() == "rows"]
    return dots


def test_dots_are_at_the_rows_with_the_largest_error_on_top(texts_of) -> None:
    points, slce, n_eff = make_landscape()
    figure = plot_lce_landscape(points, slce, n_eff, BOX, bandwidth=0.2)
    *panels, bar = figure.axes
    assert [axes.get_title() for axes in panels] == list(slce)
    for axes, (name, errors) in zip(panels, slce.items(), strict=True):
        dots = get_dots(axes)
        row_by_position = {tuple(position): i for i, position in enumerate(points)}
        index = [row_by_position[tuple(position)] for position in dots.get_offsets().data]
        assert sorted(index) == list(range(200))
        np.testing.assert_array_equal(dots.get_array(), errors[index])
        assert all(a <= b for a, b in pairwise(np.abs(errors[index])))
        small = dots.get_sizes() < dots.get_sizes().max()
        np.testing.assert_array_equal(small, n_eff[name][index] < 5)
    assert bar.get_ylim()[1] == -bar.get_ylim()[0]
    assert "bandwidth 0.2; small: fewer than 5 effective rows" in texts_of(figure)


def test_panels_share_a_symmetric_scale_of_posterior_colors() -> None:
    points, slce, n_eff = make_landscape()
    slce["kdf"][3] = -0.9
    *panels, bar = plot_lce_landscape(points, slce, n_eff, BOX, bandwidth=0.2).axes
    for axes in panels:
        dots = get_dots(axes)
        assert dots.get_clim() == (-0.3, 0.3)  # 98 % of the errors are inside
        assert dots.get_cmap() is posterior_colormap()
    assert bar.get_ylim() == (-0.3, 0.3)
    middle = posterior_colormap()(get_dots(panels[0]).norm(0.0))
    assert max(middle[:3]) - min(middle[:3]) < 0.01  # an error of 0 is grey
    assert [axes.get_xlim() for axes in panels] == [panels[0].get_xlim()] * 2


def test_training_region_is_shaded_and_all_points_are_inside(texts_of) -> None:
    points, slce, n_eff = make_landscape()
    points[0] = (1.7, 0.0)
    figure = plot_lce_landscape(points, slce, n_eff, BOX, bandwidth=0.2)
    for axes in figure.axes[:-1]:
        (box,) = [patch for patch in axes.patches if patch.get_gid() == "id_box"]
        assert box.get_bbox().extents.tolist() == [-1, -1, 1, 1]
        assert to_hex(box.get_facecolor()) == ID_SHADE
        assert axes.get_xlim()[0] < -1 and axes.get_xlim()[1] > 1.7
    assert texts_of(figure).count("ID") == 1
    figure_without_box = plot_lce_landscape(points, slce, n_eff, None, bandwidth=0.2)
    assert not figure_without_box.axes[0].patches and "ID" not in texts_of(figure_without_box)


def test_row_without_neighbours_is_not_drawn() -> None:
    points, slce, n_eff = make_landscape(5, ("kdf",))
    slce["kdf"][2] = n_eff["kdf"][2] = np.nan
    assert (
        len(
            get_dots(
                plot_lce_landscape(points, slce, n_eff, BOX, bandwidth=1).axes[0]
            ).get_offsets()
        )
        == 4
    )
    slce["kdf"][:] = np.nan
    assert (
        len(
            get_dots(
                plot_lce_landscape(points, slce, n_eff, BOX, bandwidth=1).axes[0]
            ).get_offsets()
        )
        == 0
    )


def test_many_rows_have_smaller_dots() -> None:
    few, many = (
        get_dots(plot_lce_landscape(*make_landscape(n), BOX, bandwidth=0.2).axes[0])
        .get_sizes()
        .max()
        for n in (2000, 8000)
    )
    assert many == pytest.approx(few / 4)


@pytest.mark.parametrize(
    "names", [("kdf",), ("random forest", "kdf"), tuple(f"{LONG_NAME} {i}" for i in range(4))]
)
def test_landscape_is_legible(names: tuple[str, ...], assert_legible) -> None:
    figure = plot_lce_landscape(*make_landscape(30, names), BOX, bandwidth=0.0125)
    assert figure.get_size_inches()[0] <= 7.0 + 1e-9
    assert_legible(figure)


POINTS, SLCE, N_EFF = make_landscape(4, ("kdf",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": np.zeros((4, 3))}, "needs points Float[n, 2], got shape (4, 3)"),
        ({"points": np.zeros((0, 2))}, "needs points Float[n, 2], got shape (0, 2)"),
        ({"slce": {}}, "errors and effective rows for the same names, got [] and ['kdf']"),
        (
            {"slce": {"kdf": np.zeros(3)}},
            "the errors of 'kdf' must be one number for each of 4 points, got shape (3,)",
        ),
        ({"slce": {"kdf": np.full(4, 2.0)}}, "the errors of 'kdf' must lie in [-1, 1], got 2 to 2"),
    ],
)
def test_invalid_landscape_raises(change, message: str) -> None:
    arguments = {"points": POINTS, "slce": SLCE, "n_eff": N_EFF, "id_box": None, "bandwidth": 0.2}
    with pytest.raises(ValueError, match=re.escape(message)):
        plot_lce_landscape(**arguments | change)


def make_run_data(tables, test=((0.5, -0.5),)) -> RunFigureData:
    """Return a run whose training rows extend from (-1, -2) to (1, 2)."""
    learning = SimpleNamespace(X=np.array([[-1.0, -2.0], [1.0, 2.0], [0.0, 0.0]]))
    splits = SimpleNamespace(learning=learning, test=SimpleNamespace(X=np.array(test)))
    return RunFigureData(splits, Evaluation([], tables, []), (None, None), ("forest", "kdf"))


def table_row(model: str, on: str = "test", **columns) -> dict:
    return {"of": model, "on": on, "ood": None, **columns}


def test_run_landscape_shows_the_errors_of_its_table(texts_of) -> None:
    columns = {
        "x1": 0.5,
        "x2": -0.5,
        "confidence": 0.8,
        "correct": True,
        "n_eff": 9.0,
        "bin_count": 20,
        "bandwidth": 0.4,
    }
    table = [
        table_row("parent", **columns, slce=0.2),
        table_row("calibrated", **columns, slce=-0.1),
    ]
    figure = registered_figures()["lce_landscape"](make_run_data({"lce_map": table}))
    *panels, _ = figure.axes
    assert [axes.get_title() for axes in panels] == ["forest", "kdf"]
    assert [get_dots(axes).get_array().tolist() for axes in panels] == [[0.2], [-0.1]]
    assert panels[0].patches[0].get_bbox().extents.tolist() == [-1, -2, 1, 2]
    assert any(text.startswith("bandwidth 0.4;") for text in texts_of(figure))


def test_landscape_of_another_space_has_no_training_region() -> None:
    columns = {
        "x1": 20.0,
        "x2": -30.0,
        "confidence": 0.8,
        "correct": True,
        "n_eff": 9.0,
        "bin_count": 20,
        "bandwidth": 0.4,
        "slce": 0.1,
    }
    run = make_run_data(
        {"lce_map_tsne": [table_row("parent", **columns), table_row("calibrated", **columns)]},
        test=[[0.5, -0.5, 0.1]],
    )
    assert registered_figures()["lce_landscape"](run) is None
    *panels, _ = registered_figures()["lce_landscape"](run, table="lce_map_tsne").axes
    assert not any(axes.patches for axes in panels)


def test_run_curves_are_sorted_by_bandwidth() -> None:
    more = {"mlce": 0.5, "n_eff": 9.0, "mlce_n_eff": 3.0}
    table = [
        table_row(model, bandwidth=bandwidth, lce=lce, **more)
        for model, scale in (("parent", 1.0), ("calibrated", 0.5))
        for bandwidth, lce in ((0.4, 0.1 * scale), (0.1, 0.2 * scale))
    ]
    figure = registered_figures()["lce_against_bandwidth"](
        make_run_data({"lce_by_bandwidth": table})
    )
    lines = {line.get_label(): line for line in figure.axes[1].lines}
    assert lines["forest"].get_xydata().tolist() == [[0.1, 0.2], [0.4, 0.1]]
    assert lines["kdf"].get_xydata().tolist() == [[0.1, 0.1], [0.4, 0.05]]


def make_lce_map_rows(
    confidence: list[float], correct: list[bool], slce: list[float], bin_count: list[int]
) -> list[dict]:
    """Return rows of ``lce_map`` of a parent, and of a method without local errors."""
    columns = zip(confidence, correct, slce, bin_count, strict=True)
    rows = [
        dict(zip(("confidence", "correct", "slce", "bin_count"), row, strict=True))
        for row in columns
    ]
    positions = [
        {"x1": float(i), "x2": -float(i), "n_eff": 9.0, "bandwidth": 0.4} for i in range(len(rows))
    ]
    model_rows = [("parent", row) for row in rows] + [
        ("calibrated", row | {"slce": 0.0}) for row in rows
    ]
    return [
        table_row(model, **row, **position)
        for (model, row), position in zip(model_rows, positions * 2, strict=True)
    ]


def test_run_figure_shows_best_and_worst_bin(texts_of) -> None:
    confidence = [0.55] * 4 + [0.75] * 4 + [0.95] * 2
    correct = (
        [True, True, False, False] + [False] * 4 + [True] * 2
    )  # the errors are .05, .75 and -.05; the last bin has two rows
    table = make_lce_map_rows(
        confidence, correct, [0.1, 0.2, 0.3, 0.2] + [0.75] * 4 + [-0.05] * 2, [4] * 8 + [2] * 2
    )
    run = make_run_data({"lce_map": table})
    texts = texts_of(registered_figures()["lce_of_bins"](run, bins=5, min_count=3))
    assert (
        "best bin: confidence in (0.4, 0.6], 4 rows; their average error +0.0500, mean LCE 0.2000"
        in texts
    )
    assert (
        "worst bin: confidence in (0.6, 0.8], 4 rows; their average error +0.7500, mean LCE 0.7500"
        in texts
    )
    method_texts = texts_of(
        registered_figures()["lce_of_bins"](run, bins=5, min_count=2, model="calibrated")
    )
    assert any(
        "confidence in (0.8, 1]" in text or "confidence in (0.4, 0.6]" in text
        for text in method_texts
    )
    assert all("mean LCE 0.0000" in text for text in method_texts if " bin: " in text)


def test_only_large_bin_is_drawn_once_and_small_bins_are_not_drawn(texts_of) -> None:
    table = make_lce_map_rows([0.55] * 4, [True, True, False, False], [0.1] * 4, [4] * 4)
    run = make_run_data({"lce_map": table})
    assert (
        sum(
            "the only large bin:" in text
            for text in texts_of(registered_figures()["lce_of_bins"](run, bins=5, min_count=4))
        )
        == 1
    )
    assert registered_figures()["lce_of_bins"](run, bins=5, min_count=5) is None
    assert registered_figures()["lce_of_bins"](make_run_data({})) is None


def test_bins_that_differ_from_the_table_raise() -> None:
    table = make_lce_map_rows([0.55, 0.65], [True, True], [0.1, 0.1], [2, 2])
    with pytest.raises(
        ConfigError,
        match=re.escape(
            "figures.draw.lce_of_bins.bins must be that of the table lce_map, got 5: its rows"
        ),
    ):
        registered_figures()["lce_of_bins"](make_run_data({"lce_map": table}), bins=5)


def test_run_spaces_are_columns() -> None:
    more = {"mlce": 0.5, "n_eff": 9.0, "mlce_n_eff": 3.0, "lce": 0.2}
    table = [
        table_row(model, bandwidth=bandwidth, **more)
        for model in ("parent", "calibrated")
        for bandwidth in (0.1, 0.4)
    ]
    run = make_run_data({"lce_by_bandwidth": table, "lce_by_bandwidth_pca": table})
    keys = ["lce_by_bandwidth", "lce_by_bandwidth_pca", "lce_by_bandwidth_tsne"]
    figure = registered_figures()["lce_against_bandwidth"](run, tables=keys)
    assert [axes.get_title() for axes in figure.axes if axes.get_title()] == ["features", "pca"]


NAN = float("nan")


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {
            "lce_by_bandwidth": [
                table_row(model, bandwidth=0.1, lce=0.1, mlce=0.1, n_eff=2.0, mlce_n_eff=1.0)
                for model in ("parent", "calibrated")
            ]
        },
        {
            "lce_by_bandwidth": [
                table_row(model, bandwidth=bandwidth, lce=NAN, mlce=NAN, n_eff=NAN, mlce_n_eff=NAN)
                for model in ("parent", "calibrated")
                for bandwidth in (0.1, 0.2)
            ]
        },
    ],
    ids=["no table", "one bandwidth", "no row that counts"],
)
def test_figures_without_a_table_are_omitted(tables, tmp_path) -> None:
    assert make_run_data(tables).save(tmp_path, {name: {} for name in NAMES}, ["svg"], 100) == []


TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=5",
    "ood=none",
    "n_jobs=1",
    "metrics=local",
]
NAMES = ("lce_landscape", "lce_of_bins", "lce_against_bandwidth")
FIGURE_OPTIONS = [
    "figures=none",
    *(f"+figures.draw.{name}={{}}" for name in NAMES),
    "figures.formats=[svg]",
    "+figures.draw.lce_of_bins.min_count=3",
]


@pytest.mark.parametrize(
    ("data", "tables", "figure_names"),
    [
        (["dataset=spiral"], {"lce_map", "lce_by_bandwidth"}, set(NAMES)),
        (["dataset=trunk", "dataset.n_dims=5"], {"lce_by_bandwidth"}, {"lce_against_bandwidth"}),
    ],
)
def test_run_draws_maps_for_two_features_and_always_curves(
    data, tables: set, figure_names: set, kdg, tmp_path
) -> None:
    code, _, err = kdg("run", *data, "method=isotonic", *TINY, *FIGURE_OPTIONS)
    assert (code, err) == (0, "")
    (record,) = tmp_path.glob("outputs/*/*/*/result.json")
    assert {path.stem for path in (record.parent / "tables").iterdir()} == tables
    assert {path.stem for path in (record.parent / "figures").iterdir()} == figure_names
