"""Parameters of data sets and of OOD sets: one line with the rule and the value."""

from __future__ import annotations

import pytest

from kdgraph.data.ood.synthetic import Annulus, Box, GaussianNoise, Sphere
from kdgraph.data.simulations import (
    Circle,
    GaussianXor,
    PointCloud,
    Polynomial,
    Sinewave,
    Spiral,
    Trunk,
)
from kdgraph.data.simulations.clouds import Blobs, Circles, Moons
from kdgraph.data.tables.scikit_learn import (
    FriedmanTable,
    SyntheticClassification,
    SyntheticRegression,
)
from kdgraph.errors import ParameterError


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Spiral(noise_std=0), r"noise_std must be in \[0.05, inf\), got 0"),
        (lambda: Circle(radii=[1.0]), r"radii must be one for each of the 2 classes, got \[1.0\]"),
        (
            lambda: Circle(radii=[1.0, 3.0]),
            r"radii must be a list of which each is in \(0, 1.25\], got \[1.0, 3.0\]",
        ),
        (lambda: Sinewave(first="tan"), r"first must be one of sin, cos, got 'tan'"),
        (
            lambda: Polynomial(exponents=[1, 2, 3]),
            r"exponents must be one for each of the 2 classes, got \[1, 2, 3\]",
        ),
        (lambda: GaussianXor(truth="grid"), r"truth must be one of exact, paper_grid, got 'grid'"),
        (lambda: Trunk(n_dims=0), r"n_dims must be in \[1, inf\), got 0"),
        (lambda: Moons(noise_std=-1), r"noise_std must be in \[0, inf\), got -1"),
        (lambda: Circles(factor=1.0), r"factor must be in \(0, 1\), got 1\.0"),
        (lambda: Blobs(n_blobs=1), r"n_blobs must be in \[2, inf\), got 1"),
        (lambda: FriedmanTable(4), "number must be one of 1, 2, 3, got 4"),  # type: ignore[arg-type]
        (
            lambda: SyntheticRegression(n_informative=30),
            "n_informative must be at most n_features, 20, got 30",
        ),
        (
            lambda: SyntheticClassification(n_features=6),
            r"n_features must be at least n_informative \+ n_redundant, 7, got 6",
        ),
        (
            lambda: SyntheticClassification(n_classes=5, n_informative=3),
            (
                "5 classes of 2 clusters need 10 corners of a hypercube; n_informative=3 gives 8:"
                " raise it"
            ),
        ),
        (
            lambda: PointCloud("triangles"),
            "shape must be one of circles, lines, squares, got 'triangles'",
        ),  # type: ignore[arg-type]
        (lambda: PointCloud("lines", n_dims=1), r"n_dims must be in \[2, inf\), got 1"),
        (
            lambda: PointCloud("lines", noise_std=-1.0),
            r"noise_std must be in \[0, inf\), got -1\.0",
        ),
        (
            lambda: Sphere(radii=[1, -1]),
            r"radii must be a list of which each is in \[0, inf\), got \[1, -1\]",
        ),
        (lambda: Sphere(draw="ball"), "draw must be one of uniform, cube, got 'ball'"),
        (lambda: Annulus(inner=5, outer=2), "inner must be less than outer = 2, got 5"),
        (lambda: Box(low=1, high=1), "low must be less than high = 1, got 1"),
        (
            lambda: Box(hole=[-2, 2]),
            (
                r"hole must be two increasing ends in \[-2.0, 2.0\] that leave 1 % of it free, or"
                r" null, got \[-2, 2\]"
            ),
        ),
        (lambda: GaussianNoise(std=0), r"std must be in \(0, inf\), got 0"),
    ],
)
def test_parameters_out_of_range_are_refused(build, message):
    with pytest.raises(ParameterError, match=f"^{message}$"):
        build()
