"""Rows that are not from the training distribution: far fields, noise, shifts, classes left out,
other data, several of these.
"""

from kdgraph.data.ood.other_data import LeftOutClasses, OtherDataset, CompositeOod
from kdgraph.data.ood.shifts import PermutedColumns, ShapeShifts, ShiftedRows
from kdgraph.data.ood.synthetic import Annulus, Box, GaussianNoise, Sphere, UniformNoise

__all__ = [
    "Annulus",
    "Box",
    "PermutedColumns",
    "GaussianNoise",
    "LeftOutClasses",
    "OtherDataset",
    "ShapeShifts",
    "CompositeOod",
    "ShiftedRows",
    "Sphere",
    "UniformNoise",
]
