"""Figures 1, 3 and 4: the parent counts once, and published numbers stand beside ours."""

from __future__ import annotations

import re

import numpy as np
import pytest

from experiments.common.published import read_published
from experiments.p1.figures.__main__ import PAPER, _images
from experiments.p1.figures.numbers import frame
from experiments.p1.figures.tables import (
    FROM,
    GROUPS,
    MEASURES,
    SIZES,
    figure1_table,
    first_at_the_prior,
)
from experiments.p1.versions import version_of
from tests.experiments.p1_runs import record_of


def test_the_parent_of_several_runs_counts_once(configs) -> None:
    errors = frame(record_of(config, 0.1) for config in configs).query("metric == 'error'")
    parents = errors[errors.model == "parent"]
    assert len(parents) == 4  # two parents, two seeds
    assert set(parents.variant) == {""}
    assert len(errors) == 4 + 16


def test_a_parent_fitted_to_more_rows_is_not_that_of_fewer(configs) -> None:
    """Out of bag the forest is fitted to the calibration rows too."""
    records = [record_of(config, 0.1) for config in configs]
    for record in records:
        if version_of(record["config"]["calibrator"]) == "kdgraph":
            record["dataset"]["n_train"] = 1430
            record["metrics"][0]["value"] = 0.2
    parents = frame(records).query("metric == 'error' and model == 'parent'")
    assert parents.groupby("n_train").value.unique().map(list).to_dict() == {
        1000: [0.25],
        1430: [0.2],
    }


def test_the_table_has_published_and_measured_numbers(configs) -> None:
    errors = {"figure1": 0.2, "kdgraph": 0.1}
    plane = frame(record_of(c, errors[version_of(c.calibrator)] + 0.02 * c.seed) for c in configs)
    published = read_published(PAPER)
    table = figure1_table(plane, published)
    (line,) = [line for line in table.splitlines() if line.startswith("| spiral | kdf geodesic")]
    assert line.split("|")[3].strip() == ".088 / .210 / .110"  # medians of two seeds
    assert line.split("|")[-2].strip() == "3.5 / 2.0 / 2.0"  # .508 is within .01 of the prior
    (line,) = [line for line in table.splitlines() if line.startswith("| circle | relu network")]
    assert line.split("|")[3].strip() == "– / –"
    assert not re.search(r"\bnan\b", table)


@pytest.mark.parametrize(
    ("confidence", "first"),
    [
        ([0.9, 0.5, 0.5], 1.0),
        ([0.9, 0.5, 0.6], np.inf),
        ([0.5, 0.5, 0.5], 0.0),
        ([0.9, 0.52, 0.509], 2.0),
        ([0.5, 0.8, 0.5], 2.0),
    ],
)
def test_the_first_radius_at_the_prior_is_followed_by_no_other(confidence, first) -> None:
    assert first_at_the_prior(np.arange(3.0), np.array(confidence)) == first


def test_shapes_are_those_of_the_paper() -> None:
    """A circle of radius 10, a rectangle of 50 × 20 and an ellipse of half axes 10 and 30, in the
    grey of the training images.
    """
    images, titles = _images()
    painted = [image[0] > 0 for image in images]
    assert [title.split()[-1] for title in titles] == ["circle", "rectangle", "ellipse"]
    sides = [(each.any(axis=0).sum(), each.any(axis=1).sum()) for each in painted]
    assert sides == [
        (20, 20),
        (50, 20),
        (20, 59),
    ]  # the ends of the ellipse are thinner than a pixel
    assert painted[1].sum() == 1000 and abs(painted[0].sum() - 100 * np.pi) < 10
    assert {float(value) for image in images for value in np.unique(image)} == {
        0.0,
        float(np.float32(127 / 255)),
    }


def test_published_numbers_cover_both_parents_and_distances() -> None:
    published = read_published(PAPER).query("item == 'Figure 1'")
    for parent, method in GROUPS.values():
        for n in SIZES:
            hellinger = published[
                (published.metric == "hellinger on the grid") & (published.n_train == n)
            ]
            for model in (parent, f"{method} geodesic", f"{method} euclidean"):
                assert (hellinger.method == model).sum() == 5, (model, n)
    assert set(published.metric) == {*MEASURES, FROM}
