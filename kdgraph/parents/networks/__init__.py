"""Networks of torch as estimators of scikit-learn. Importing this package imports torch."""

from kdgraph.extras import needs_library

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(needs_library(__name__, "torch"), name="torch") from error

from kdgraph.parents.networks.checkpoint import TrainingProgress
from kdgraph.parents.networks.classifier import NetworkClassifier, TorchClassifier
from kdgraph.parents.networks.convolutional import ConvolutionalNetwork, ResidualNetwork
from kdgraph.parents.networks.encoder import EncoderNetwork
from kdgraph.parents.networks.ensembles import MonteCarloDropout, MultilayerPerceptronEnsemble
from kdgraph.parents.networks.exposure import Acet, Ceda, EnergyMargin, Exposure, OutlierExposure
from kdgraph.parents.networks.mlp import MultilayerPerceptron, MultilayerPerceptronRegressor
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.outlier_sources import (
    DatasetOutliers,
    MixedOutliers,
    NoiseOutliers,
    OutlierSource,
    PermutedOutliers,
)
from kdgraph.parents.networks.quantile_networks import QuantileNetwork
from kdgraph.parents.networks.regressor import NetworkRegressor

__all__ = [
    "Acet",
    "Ceda",
    "ConvolutionalNetwork",
    "DatasetOutliers",
    "EncoderNetwork",
    "EnergyMargin",
    "Exposure",
    "MixedOutliers",
    "MonteCarloDropout",
    "MultilayerPerceptron",
    "MultilayerPerceptronEnsemble",
    "MultilayerPerceptronRegressor",
    "Network",
    "NetworkClassifier",
    "NetworkRegressor",
    "NoiseOutliers",
    "OutlierExposure",
    "OutlierSource",
    "PermutedOutliers",
    "QuantileNetwork",
    "ResidualNetwork",
    "TorchClassifier",
    "TrainingProgress",
]
