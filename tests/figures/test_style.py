"""Tests of the common style and of saved files."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib
import pytest
from matplotlib.image import imread

from kdgraph.figures import (
    plot_confidence_against_radius,
    plot_posterior_maps,
    plot_reliability_diagram,
    save_figure,
    style_context,
)
from kdgraph.figures.style import (
    METHOD_STYLES,
    PARENT_STYLE,
    TRUTH_STYLE,
    legend_handles,
    new_figure,
    shorten_text,
    split_in_two_lines,
    styles_by_name,
    text_size,
)


@pytest.fixture
def draw_functions(maps, bins, curves):
    return {
        "posterior": lambda: plot_posterior_maps(
            maps, (-2, 2, -2, 2), (-1, 1, -1, 1), class_label="P(class 0 | x)"
        ),
        "reliability": lambda: plot_reliability_diagram(
            bins, ece={"random forest": 0.051, "kdf": 0.035}
        ),
        "radius": lambda: plot_confidence_against_radius(curves, [0, 1, 2, 3], 0.5),
    }


@pytest.mark.parametrize("name", ["posterior", "reliability", "radius"])
def test_svg_contains_text_and_is_reproducible(draw_functions, name: str, tmp_path: Path) -> None:
    first, second = (
        save_figure(draw_functions[name](), tmp_path / stem) for stem in ("first", "second")
    )
    assert [path.name for path in first] == ["first.svg", "first.png"]
    for first_path, second_path in zip(first, second, strict=True):
        assert first_path.read_bytes() == second_path.read_bytes()
    svg = first[0].read_text()
    assert ">random forest" in svg
    assert "<dc:date>" not in svg
    assert matplotlib.__version__ not in svg


@pytest.mark.parametrize("name", ["posterior", "reliability", "radius"])
def test_saving_one_figure_twice_gives_the_same_bytes(
    draw_functions, name: str, tmp_path: Path
) -> None:
    figure = draw_functions[name]()
    assert (
        save_figure(figure, tmp_path / "a")[0].read_bytes()
        == save_figure(figure, tmp_path / "b")[0].read_bytes()
    )


@pytest.mark.parametrize("name", ["posterior", "reliability", "radius"])
def test_text_is_legible(draw_functions, name: str, assert_legible) -> None:
    assert_legible(draw_functions[name]())


def test_notebook_shows_a_figure_without_pyplot(draw_functions) -> None:
    """The process has not imported pyplot, with which IPython would show any figure."""
    figure = draw_functions["radius"]()
    content, size = figure._repr_png_()
    height, width, _ = imread(io.BytesIO(content), format="png").shape
    assert (width, height) == tuple(round(200 * inches) for inches in figure.get_size_inches())
    # 3.5 inches; 200 dots in an inch of print, which has 120 CSS pixels.
    assert 1.6 < width / size["width"] < 1.7 and size["width"] == 420
    assert content == figure._repr_png_()[0]


def test_size_and_resolution_are_as_requested(draw_functions, tmp_path: Path) -> None:
    (path,) = save_figure(
        draw_functions["radius"](), tmp_path / "radius_1.5", formats=["png"], dpi=100
    )
    assert path.name == "radius_1.5.png"
    assert imread(path).shape[1] == 350


def test_matplotlib_settings_are_ignored_and_kept(draw_functions, tmp_path: Path) -> None:
    expected_bytes = save_figure(draw_functions["radius"](), tmp_path / "plain")[0].read_bytes()
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True, "svg.fonttype": "path"}):
        assert (
            save_figure(draw_functions["radius"](), tmp_path / "changed_settings")[0].read_bytes()
            == expected_bytes
        )
        assert matplotlib.rcParams["font.size"] == 20
    assert matplotlib.rcParams["svg.fonttype"] == "path"


@pytest.mark.slow
def test_threads_draw_the_same_figures(draw_functions, tmp_path: Path) -> None:
    sequential = {
        name: save_figure(draw_figure(), tmp_path / f"sequential_{name}")[0].read_bytes()
        for name, draw_figure in draw_functions.items()
    }
    names = list(draw_functions) * 2
    with ThreadPoolExecutor(3) as pool:
        threaded = list(
            pool.map(
                lambda i: save_figure(
                    draw_functions[names[i]](), tmp_path / f"thread_{i}", ["svg"]
                )[0].read_bytes(),
                range(len(names)),
            )
        )
    assert threaded == [sequential[name] for name in names]


def test_styles_depend_on_position_and_truth_on_its_name() -> None:
    styles = styles_by_name(["truth", "forest", "kdf", "isotonic"])
    assert (styles["truth"], styles["forest"], styles["kdf"], styles["isotonic"]) == (
        TRUTH_STYLE,
        PARENT_STYLE,
        METHOD_STYLES[0],
        METHOD_STYLES[1],
    )
    assert len(
        {(style.color, style.marker) for style in (PARENT_STYLE, *METHOD_STYLES)}
    ) == 1 + len(METHOD_STYLES)


def test_twelve_methods_have_distinct_styles() -> None:
    styles = list(styles_by_name([f"method {i}" for i in range(14)]).values())
    assert styles[1:7] == list(METHOD_STYLES)
    assert (
        len({(style.color, style.linestyle, style.marker, style.filled) for style in styles[:13]})
        == 13
    )
    assert (
        len({(style.color, style.linestyle) for style in styles[:13]}) == 13
    )  # also distinct without markers
    assert styles[13] == styles[1]


def test_legend_handles_have_the_styles_of_the_names() -> None:
    names = ["forest", "kdf", *(f"method {i}" for i in range(6))]
    with style_context():
        handles = legend_handles(names)
    assert [handle.get_label() for handle in handles] == names
    for handle, style in zip(handles, styles_by_name(names).values(), strict=True):
        assert (handle.get_color(), handle.get_marker()) == (style.color, style.marker)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("receding hairline", ["receding", "hairline"]),
        ("a very long name of it", ["a very long", "name of it"]),
        ("recedinghairline", ["recedinghairline"]),
        ("a b", ["a b"]),
    ],
)
def test_wide_text_is_split_at_the_middle_space(text: str, lines: list[str]) -> None:
    with style_context():
        assert split_in_two_lines(new_figure(3, 1), text, 7, 0.5) == lines


def test_long_names_are_shortened_in_the_middle() -> None:
    with style_context():
        figure = new_figure(3, 1)
        name = "random_forest-kernel_density_forest-density_gate"
        short = shorten_text(figure, name, 7, 1.0)
        assert text_size(figure, short, 7)[0] <= 1.0
        assert short.startswith("random")
        assert short.endswith("gate")
        assert shorten_text(figure, "kdf", 7, 1.0) == "kdf"
