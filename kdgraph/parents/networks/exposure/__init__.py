"""Networks that are trained with outliers beside their training rows, so that they are less sure of what they do not know."""

from kdgraph.parents.networks.exposure.adversary import Acet
from kdgraph.parents.networks.exposure.base import Exposure
from kdgraph.parents.networks.exposure.losses import Ceda, EnergyMargin, OutlierExposure
from kdgraph.parents.networks.exposure.outliers import MixedOutliers, NoiseOutliers, Outliers, PermutedOutliers
from kdgraph.parents.networks.exposure.rows import RowsOutliers

__all__ = [
    "Acet",
    "Ceda",
    "EnergyMargin",
    "Exposure",
    "MixedOutliers",
    "NoiseOutliers",
    "OutlierExposure",
    "Outliers",
    "PermutedOutliers",
    "RowsOutliers",
]
