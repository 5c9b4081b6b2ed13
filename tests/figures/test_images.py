"""Tests of rows of images."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from kdgraph.figures import plot_image_row
from kdgraph.figures.style import BLUE, GREY


def make_images(n: int, channels: int = 3, shape: tuple[int, int] = (8, 8)) -> list[np.ndarray]:
    return list(np.random.default_rng(0).random((n, channels, *shape), dtype=np.float32))


def test_pixels_are_unchanged_with_the_first_row_on_top() -> None:
    color, grey, eight_bit = (
        make_images(1)[0],
        make_images(1, channels=1)[0],
        np.arange(48, dtype=np.uint8).reshape(3, 4, 4),
    )
    figure = plot_image_row([color, grey, eight_bit], ["a", "b", "c"])
    artists = [axes.images[0] for axes in figure.axes]
    np.testing.assert_array_equal(artists[0].get_array(), np.moveaxis(color, 0, 2))
    np.testing.assert_array_equal(artists[1].get_array(), grey[0])
    np.testing.assert_array_equal(artists[2].get_array(), np.moveaxis(eight_bit, 0, 2))
    assert {image.origin for image in artists} == {"upper"}
    assert {image.get_interpolation() for image in artists} == {"none"}
    assert artists[1].get_clim() == (0, 1)
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]


def test_dark_images_stay_dark() -> None:
    (axes,) = plot_image_row([np.full((1, 4, 4), 0.2)], ["dark"]).axes
    assert axes.images[0].to_rgba(0.2)[0] == pytest.approx(0.2, abs=1 / 255)


def test_pixels_are_square_for_any_shape() -> None:
    figure = plot_image_row(
        [make_images(1, shape=(4, 8))[0], make_images(1, shape=(8, 8))[0]], ["wide", "square"]
    )
    for axes in figure.axes:
        assert axes.get_aspect() == 1


@pytest.mark.parametrize("n", [1, 3, 5, 13])
def test_any_number_of_images_is_legible(n: int, assert_legible) -> None:
    figure = plot_image_row(
        make_images(n), [f"a family with a long name\nparameter {i}" for i in range(n)]
    )
    assert figure.get_size_inches()[0] <= 7 + 1e-9
    assert_legible(figure)


def test_predictions_are_below_images_in_model_colours(assert_legible, texts_of) -> None:
    predictions = {
        "CNN": ["circle: 1.000", "square: 0.981"],
        "a density network with a long name": ["circle: 0.998", "square: 0.512"],
    }
    figure = plot_image_row(make_images(2), ["circle", "noise"], predictions)
    assert_legible(figure)
    colors = {text.get_text(): text.get_color() for text in figure.texts}
    assert colors == {
        **dict.fromkeys(predictions["CNN"], GREY),
        **dict.fromkeys(predictions["a density network with a long name"], BLUE),
    }
    assert "CNN" in texts_of(figure)


def test_example_images_have_the_confidence_of_both_models(kdg, tmp_path) -> None:
    code, _, err = kdg(
        *("run", "dataset=shapes", "dataset.size=24", "dataset.radius=3", "dataset.sides=[10,5]"),
        *(
            "dataset.n_train=40",
            "dataset.n_calibration=20",
            "dataset.n_test=20",
            "method=temperature",
        ),
        *("parent=cnn", "parent.max_epochs=1", "ood=noise", "ood.n=5"),
        *("figures=none", "figures.formats=[svg]", "+figures.draw.example_images={}"),
    )
    assert code == 0, err
    (svg,) = tmp_path.rglob("example_images.svg")
    texts = re.findall(r">([^<>\n]+)</text>", svg.read_text(encoding="utf-8"))
    assert {"CNN", "Temperature", "circle", "rectangle", "noise"} <= set(texts)
    frame = pd.read_parquet(next(tmp_path.rglob("predictions.parquet")))
    test = frame[frame["set"] == "test"]
    shown = [test[test["y"] == label].iloc[0] for label in ("circle", "rectangle")]
    shown.append(frame[frame["set"] == "noise"].iloc[0])
    for row in shown:
        for model in ("parent", "calibrated"):
            proba = {label: row[f"{model}_{label}"] for label in ("circle", "rectangle")}
            label = max(proba, key=proba.__getitem__)
            assert f"{label}: {proba[label]:.3f}" in texts


@pytest.mark.parametrize(
    ("images", "titles", "message"),
    [
        ([], [], "needs at least one image and a title for each, got 0 images and 0 titles"),
        (
            make_images(2),
            ["a"],
            "needs at least one image and a title for each, got 2 images and 1 titles",
        ),
        (
            make_images(1, channels=2),
            ["a"],
            r"the image 'a' must have shape \(1 or 3 channels, height, width\), got \(2, 8, 8\)",
        ),
        ([np.full((1, 2, 2), 2.0)], ["a"], r"the image 'a' must lie in \[0, 1\], got 2 to 2"),
        ([np.full((1, 2, 2), np.nan)], ["a"], r"the image 'a' must lie in \[0, 1\]"),
    ],
)
def test_invalid_input_raises(images, titles, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_image_row(images, titles)
