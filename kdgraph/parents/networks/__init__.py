"""Networks of torch as estimators of scikit-learn. Importing this package imports torch."""

from kdgraph.parents.networks.autoencoder import ConvolutionalAutoencoder
from kdgraph.parents.networks.classifier import NetworkClassifier
from kdgraph.parents.networks.contrastive import SupervisedContrastiveLoss
from kdgraph.parents.networks.convolutional import ConvolutionalNetwork
from kdgraph.parents.networks.encoder import EncoderNetwork
from kdgraph.parents.networks.ensemble import MultilayerPerceptronEnsemble
from kdgraph.parents.networks.gradient_sign import GradientSign
from kdgraph.parents.networks.mlp import MultilayerPerceptron
from kdgraph.parents.networks.mlp_regressor import MultilayerPerceptronRegressor
from kdgraph.parents.networks.module import ModuleClassifier
from kdgraph.parents.networks.monte_carlo_dropout import MonteCarloDropout
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.progress import Progress
from kdgraph.parents.networks.quantile import QuantileNetwork
from kdgraph.parents.networks.regressor import NetworkRegressor
from kdgraph.parents.networks.residual import ResidualNetwork

__all__ = [
    "ConvolutionalAutoencoder",
    "ConvolutionalNetwork",
    "EncoderNetwork",
    "GradientSign",
    "ModuleClassifier",
    "MonteCarloDropout",
    "MultilayerPerceptron",
    "MultilayerPerceptronEnsemble",
    "MultilayerPerceptronRegressor",
    "Network",
    "NetworkClassifier",
    "NetworkRegressor",
    "Progress",
    "QuantileNetwork",
    "ResidualNetwork",
    "SupervisedContrastiveLoss",
]
