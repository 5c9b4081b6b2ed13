"""Networks of torch as estimators of scikit-learn. Importing this package imports torch."""

from kdgraph.parents.networks.autoencoder import ConvolutionalAutoencoder
from kdgraph.parents.networks.checkpoint import Progress
from kdgraph.parents.networks.classifier import ModuleClassifier, NetworkClassifier
from kdgraph.parents.networks.convolutional import ConvolutionalNetwork, ResidualNetwork
from kdgraph.parents.networks.encoder import EncoderNetwork, SupervisedContrastiveLoss
from kdgraph.parents.networks.ensembles import MonteCarloDropout, MultilayerPerceptronEnsemble
from kdgraph.parents.networks.exposure import Acet, Ceda, EnergyMargin, Exposure, OutlierExposure
from kdgraph.parents.networks.gradient_sign import GradientSign
from kdgraph.parents.networks.mlp import MultilayerPerceptron, MultilayerPerceptronRegressor
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.outlier_sources import (
    MixedOutliers,
    NoiseOutliers,
    Outliers,
    PermutedOutliers,
    RowsOutliers,
)
from kdgraph.parents.networks.quantile_networks import QuantileNetwork
from kdgraph.parents.networks.regressor import NetworkRegressor

__all__ = [
    "Acet",
    "Ceda",
    "ConvolutionalAutoencoder",
    "ConvolutionalNetwork",
    "EncoderNetwork",
    "EnergyMargin",
    "Exposure",
    "GradientSign",
    "MixedOutliers",
    "ModuleClassifier",
    "MonteCarloDropout",
    "MultilayerPerceptron",
    "MultilayerPerceptronEnsemble",
    "MultilayerPerceptronRegressor",
    "Network",
    "NetworkClassifier",
    "NetworkRegressor",
    "NoiseOutliers",
    "OutlierExposure",
    "Outliers",
    "PermutedOutliers",
    "Progress",
    "QuantileNetwork",
    "ResidualNetwork",
    "RowsOutliers",
    "SupervisedContrastiveLoss",
]
