"""Sources of rows that are out of distribution (OOD).

They are points far away from the training rows, noise, shifted test rows, left-out classes, rows of
other data sets, and combinations of these.
"""

from kdgraph.data.ood.other_data import CompositeOod, Contaminated, LeftOutClasses, OtherDataset
from kdgraph.data.ood.shifts import PermutedColumns, ShapeShifts, ShiftedRows
from kdgraph.data.ood.synthetic import Annulus, Box, GaussianNoise, Sphere, UniformNoise

__all__ = [
    "Annulus",
    "Box",
    "CompositeOod",
    "Contaminated",
    "GaussianNoise",
    "LeftOutClasses",
    "OtherDataset",
    "PermutedColumns",
    "ShapeShifts",
    "ShiftedRows",
    "Sphere",
    "UniformNoise",
]
