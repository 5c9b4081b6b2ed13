"""Rows that are not from the training distribution: far fields, noise, shifts, classes left out,
other data, several of these.
"""

from kdgraph.data.ood.other_data import LeftOutClasses, OtherDataset, Several
from kdgraph.data.ood.shifts import ColumnPermuted, SemanticShifts, Shifted
from kdgraph.data.ood.synthetic import Annulus, Box, GaussianNoise, Sphere, UniformNoise

__all__ = [
    "Annulus",
    "Box",
    "ColumnPermuted",
    "GaussianNoise",
    "LeftOutClasses",
    "OtherDataset",
    "SemanticShifts",
    "Several",
    "Shifted",
    "Sphere",
    "UniformNoise",
]
