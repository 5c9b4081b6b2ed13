"""Tests of the joint distribution of true and predicted classes."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.figures import plot_joint_distribution

PHANNS = [
    "Major capsid",
    "Minor capsid",
    "Baseplate",
    "Major tail",
    "Minor tail",
    "Portal",
    "Tail fiber",
    "Tail shaft",
    "Collar",
    "HTJ",
]


def cell_texts(axes, n: int) -> np.ndarray:
    """Return the text of each cell, Str[n, n]."""
    cells = np.full((n, n), "", dtype=object)
    for text in axes.texts:
        j, i = (round(value) for value in text.get_position())
        cells[i, j] = text.get_text()
    return cells


def make_counts(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(np.exp(rng.uniform(-2, 3, (n, n)))) + np.diag(rng.integers(50, 5000, n))


def test_counts_and_both_normalisations():
    counts = np.array([[8, 2, 0], [1, 0, 199], [0, 0, 0]])
    rows, by_true, by_predicted = plot_joint_distribution(counts, ["a", "b", "c"]).axes
    assert cell_texts(rows, 3).tolist() == [["8", "2", ""], ["1", "", "199"], ["", "", ""]]
    assert cell_texts(by_true, 3).tolist() == [
        [".80", ".20", ""],
        [".01", "", "1"],
        ["", "", ""],
    ]  # .005 and .995 are rounded up
    assert cell_texts(by_predicted, 3).tolist() == [
        [".89", "1", ""],
        [".11", "", "1"],
        ["", "", ""],
    ]
    shades = by_true.images[0].get_array()
    np.testing.assert_allclose(shades[:2], counts[:2] / counts[:2].sum(axis=1, keepdims=True))
    assert (
        shades.mask[2].all() and not shades.mask[:2].any()
    )  # grey, since no row belongs to class c


@pytest.mark.parametrize(
    "classes",
    [
        ["setosa", "versicolor", "virginica"],
        [*PHANNS, "Other"],
        [f"aquatic animal {k}" for k in range(12)],
    ],
)
def test_text_is_legible(classes, assert_legible):
    figure = plot_joint_distribution(make_counts(len(classes)), classes)
    assert figure.get_size_inches()[0] == 7.0 and len(figure.axes) == 3
    assert_legible(figure)


def test_most_frequent_classes_have_fractions_of_all_rows(texts_of, assert_legible):
    counts = make_counts(100)
    figure = plot_joint_distribution(counts, [f"c{k}" for k in range(100)])
    most_frequent = np.sort(
        np.argsort(-(counts.sum(axis=0) + counts.sum(axis=1)), kind="stable")[:12]
    )
    rows, by_true, _ = figure.axes
    assert [label.get_text() for label in rows.get_yticklabels()] == [
        f"c{k}" for k in most_frequent
    ]
    np.testing.assert_allclose(
        by_true.images[0].get_array(),
        (counts / counts.sum(axis=1, keepdims=True))[np.ix_(most_frequent, most_frequent)],
    )
    assert any(
        text.startswith("the 12 of 100 classes with most rows, shares of all rows;")
        for text in texts_of(figure)
    )
    assert_legible(figure)


@pytest.mark.parametrize(
    "counts",
    [
        np.zeros((2, 2), int),
        np.array([[1, -1], [0, 1]]),
        np.eye(2),
        np.ones((2, 3), int),
        np.ones((3, 3), int),
    ],
)
def test_invalid_counts_raise(counts):
    with pytest.raises(
        ValueError,
        match=r"^counts must be whole numbers of rows, one for each two of 2 classes, got ",
    ):
        plot_joint_distribution(counts, ["a", "b"])
