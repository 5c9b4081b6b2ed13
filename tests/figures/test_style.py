"""Tests of the common style and of saved files."""

from __future__ import annotations

import subprocess
import sys
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
def draw(maps, bins, curves):
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
def test_svg_keeps_text_and_two_drawings_are_the_same_bytes(
    draw, name: str, tmp_path: Path
) -> None:
    first, second = (save_figure(draw[name](), tmp_path / stem) for stem in ("first", "second"))
    assert [path.name for path in first] == ["first.svg", "first.png"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg = first[0].read_text()
    assert ">random forest" in svg
    assert "<dc:date>" not in svg
    assert matplotlib.__version__ not in svg


@pytest.mark.parametrize("name", ["posterior", "reliability", "radius"])
def test_saving_one_figure_twice_gives_the_same_bytes(draw, name: str, tmp_path: Path) -> None:
    figure = draw[name]()
    assert (
        save_figure(figure, tmp_path / "a")[0].read_bytes()
        == save_figure(figure, tmp_path / "b")[0].read_bytes()
    )


@pytest.mark.parametrize("name", ["posterior", "reliability", "radius"])
def test_everything_is_inside_and_nothing_overlaps(draw, name: str, assert_legible) -> None:
    assert_legible(draw[name]())


def test_size_and_resolution_are_as_requested(draw, tmp_path: Path) -> None:
    (path,) = save_figure(draw["radius"](), tmp_path / "radius_1.5", formats=["png"], dpi=100)
    assert path.name == "radius_1.5.png"
    assert imread(path).shape[1] == 350


def test_the_user_s_settings_change_nothing_and_are_kept(draw, tmp_path: Path) -> None:
    plain = save_figure(draw["radius"](), tmp_path / "plain")[0].read_bytes()
    with matplotlib.rc_context({"font.size": 20, "axes.grid": True, "svg.fonttype": "path"}):
        assert save_figure(draw["radius"](), tmp_path / "other")[0].read_bytes() == plain
        assert matplotlib.rcParams["font.size"] == 20
    assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_threads_draw_the_same_figures(draw, tmp_path: Path) -> None:
    alone = {
        name: save_figure(make(), tmp_path / f"alone_{name}")[0].read_bytes()
        for name, make in draw.items()
    }
    names = list(draw) * 2
    with ThreadPoolExecutor(3) as pool:
        together = list(
            pool.map(
                lambda i: save_figure(draw[names[i]](), tmp_path / f"thread_{i}", ["svg"])[
                    0
                ].read_bytes(),
                range(len(names)),
            )
        )
    assert together == [alone[name] for name in names]


def test_figures_import_no_pyplot() -> None:
    code = (
        "import sys, kdgraph.figures; print([m for m in ('matplotlib.pyplot', 'sklearn', 'scipy',"
        " 'pandas') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_roles_are_given_by_position_and_truth_by_name() -> None:
    result = styles_by_name(["truth", "forest", "kdf", "isotonic"])
    assert (result["truth"], result["forest"], result["kdf"], result["isotonic"]) == (
        TRUTH_STYLE,
        PARENT_STYLE,
        METHOD_STYLES[0],
        METHOD_STYLES[1],
    )
    assert len({(role.color, role.marker) for role in (PARENT_STYLE, *METHOD_STYLES)}) == 1 + len(
        METHOD_STYLES
    )


def test_twelve_methods_look_different_and_the_thirteenth_begins_again() -> None:
    result = list(styles_by_name([f"method {i}" for i in range(14)]).values())
    assert result[1:7] == list(METHOD_STYLES)
    assert (
        len({(role.color, role.linestyle, role.marker, role.filled) for role in result[:13]}) == 13
    )
    assert (
        len({(role.color, role.linestyle) for role in result[:13]}) == 13
    )  # lines without markers too
    assert result[13] == result[1]


def test_legend_handles_have_the_styles_of_the_names() -> None:
    names = ["forest", "kdf", *(f"method {i}" for i in range(6))]
    with style_context():
        handles = legend_handles(names)
    assert [handle.get_label() for handle in handles] == names
    for handle, role in zip(handles, styles_by_name(names).values(), strict=True):
        assert (handle.get_color(), handle.get_marker()) == (role.color, role.marker)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("receding hairline", ["receding", "hairline"]),
        ("a very long name of it", ["a very long", "name of it"]),
        ("recedinghairline", ["recedinghairline"]),
        ("a b", ["a b"]),
    ],
)
def test_wide_text_is_cut_at_the_space_nearest_to_its_middle(text: str, lines: list[str]) -> None:
    with style_context():
        assert split_in_two_lines(new_figure(3, 1), text, 7, 0.5) == lines


def test_long_names_lose_their_middle() -> None:
    with style_context():
        figure = new_figure(3, 1)
        name = "random_forest-kernel_density_forest-density_gate"
        short = shorten_text(figure, name, 7, 1.0)
        assert text_size(figure, short, 7)[0] <= 1.0
        assert short.startswith("random")
        assert short.endswith("gate")
        assert shorten_text(figure, "kdf", 7, 1.0) == "kdf"
