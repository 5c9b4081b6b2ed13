"""Rows that are not from the training distribution: far fields, noise, shifts, classes left out,
other data, several of these.
"""

from kdgraph.data.ood.other_data import CompositeOod, LeftOutClasses, OtherDataset
from kdgraph.data.ood.shifts import PermutedColumns, ShapeShifts, ShiftedRows
from kdgraph.data.ood.synthetic import Annulus, Box, GaussianNoise, Sphere, UniformNoise

__all__ = [
    "Annulus",
    "Box",
    "CompositeOod",
    "GaussianNoise",
    "LeftOutClasses",
    "OtherDataset",
    "PermutedColumns",
    "ShapeShifts",
    "ShiftedRows",
    "Sphere",
    "UniformNoise",
]
