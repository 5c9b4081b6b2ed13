"""Rows that are not from the training distribution: far fields, noise, shifted shapes, another data set."""

from kdgraph.data.ood.far_field import Annulus, Box, GaussianNoise, Sphere
from kdgraph.data.ood.noise import UniformNoise
from kdgraph.data.ood.other_dataset import OtherDataset
from kdgraph.data.ood.shifts import SemanticShifts

__all__ = ["Annulus", "Box", "GaussianNoise", "OtherDataset", "SemanticShifts", "Sphere", "UniformNoise"]
