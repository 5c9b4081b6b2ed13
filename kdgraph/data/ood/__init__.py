"""Rows that are not from the training distribution: far fields, noise, shifts, classes left out, other data, several of these."""

from kdgraph.data.ood.far_field import Annulus, Box, GaussianNoise, Sphere
from kdgraph.data.ood.left_out import LeftOutClasses
from kdgraph.data.ood.moved import ColumnPermuted, Shifted
from kdgraph.data.ood.noise import UniformNoise
from kdgraph.data.ood.other_dataset import OtherDataset
from kdgraph.data.ood.several import Several
from kdgraph.data.ood.shifts import SemanticShifts

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
