"""Tests of user-defined names in figures, which are never parsed as mathtext."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.legend import Legend
from matplotlib.text import Text

from kdgraph.figures import plot_pit_histogram, plot_reliability_diagram, save_figure, style_context
from kdgraph.figures.style import (
    PowerOfTenFormatter,
    add_axes,
    legend_label,
    new_figure,
    set_log_scale,
    shorten_text,
    text_size,
)
from kdgraph.metrics import reliability_bins

CLASSES = [r"$\frac$", "a_b^2", "_x<&>", "[b]5%\\"]
GROUPS = ["$5", "_g|", "$$"]
FIGURES = [
    "confidence_by_class",
    "joint_distribution",
    "group_tables",
    "posterior_maps",
    "reliability_diagram",
    "confidence_against_radius",
]


def svg_text(path) -> str:
    """Return all text of an SVG."""
    return "\n".join(
        "".join(element.itertext())
        for element in ElementTree.parse(path).iter()
        if element.tag.endswith("}text")
    )


@pytest.mark.slow
def test_run_figures_contain_special_characters_unchanged(kdg, tmp_path):
    rng = np.random.default_rng(0)
    with open("my $x_1$.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["$x_1$", r"\frac{a", "$label$", "g$"])
        for i in range(160):
            k = i % 4
            rows.writerow(
                [rng.normal(k, 0.7), rng.normal(k % 2 * 2, 0.7), CLASSES[k], GROUPS[i % 3]]
            )
    data = [
        "dataset=table",
        'dataset.path="my $x_1$.csv"',
        'dataset.target="$label$"',
        'dataset.group="g$"',
        'dataset.drop=["g$"]',
    ]
    model = [
        "parent.n_estimators=5",
        "parent.name=_rf",
        "method=kdf",
        "metrics=groups",
        "figures=default",
        "figures.formats=[svg]",
    ]
    draw = [
        "figures.draw.posterior_maps.grid=10",
        *(f"+figures.draw.{name}={{}}" for name in FIGURES[:3]),
    ]
    code, _, err = kdg("run", *data, *model, *draw)
    assert code == 0, err
    text_by_figure = {path.stem: svg_text(path) for path in tmp_path.rglob("*.svg")}
    assert set(FIGURES) <= set(text_by_figure)
    for label in CLASSES:
        assert (
            label in text_by_figure["joint_distribution"]
            and f"{label}: " in text_by_figure["confidence_by_class"]
        )
    for group in GROUPS:
        assert group in text_by_figure["group_tables"]
    assert f"P(class {CLASSES[0]} | x)" in text_by_figure["posterior_maps"]
    for name in ("group_tables", "posterior_maps", "reliability_diagram", "confidence_by_class"):
        assert "_rf" in text_by_figure[name]
    code, _, err = kdg("report")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert code == 0 and "<&>" not in page


def test_legends_contain_names_that_begin_with_an_underscore():
    confidence, correct = np.linspace(0.5, 1, 50), np.arange(50) % 3 > 0
    bins, counts = reliability_bins(confidence, correct), np.full(20, 5.0)
    figures = [
        plot_reliability_diagram({"_rf": bins, "_kdf": bins}, ece={"_rf": 0.1, "_kdf": 0.2}),
        plot_pit_histogram({"_rf": counts, "_kdf": counts}),
    ]
    for figure in figures:
        (legend,) = figure.findobj(Legend)
        names = " ".join(text.get_text() for text in legend.get_texts())
        assert names.count("_rf") == names.count("_kdf") == 1
    assert legend_label("rf") == "rf"


@pytest.mark.parametrize("name", [r"$\frac$", "$x$", r"\$5$"])
def test_text_is_measured_without_mathtext(name):
    figure = new_figure(2, 1)  # without the style sheet, which disables mathtext
    assert shorten_text(figure, name, 7, 2.0) == name
    assert text_size(figure, name, 7)[0] > text_size(figure, name[:-1], 7)[0]


def test_powers_of_ten_are_labelled_without_mathtext(tmp_path):
    with style_context():
        figure = new_figure(5, 2)
        axes = add_axes(figure, 0.5, 0.5, 4, 1)
        axes.plot([1e-3, 1, 1e3], [0.2, 0.3, 0.5])
        set_log_scale(axes, "x")
        set_log_scale(axes, "y")
        save_figure(figure, tmp_path / "f", ["svg"])
        labels = [
            text.get_text()
            for axis in (axes.xaxis, axes.yaxis)
            for text in axis.get_ticklabels(which="both")
        ]
    assert {"10⁻²", "10²", "2×10⁻¹"} <= set(labels) and not any("$" in label for label in labels)
    assert PowerOfTenFormatter()(1.0, 0) == "10⁰"
    assert not any(text.get_parse_math() for text in figure.findobj(Text) if "1" in text.get_text())
