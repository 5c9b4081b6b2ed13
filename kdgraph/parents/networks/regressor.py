"""Network regressors and the families of distributions that they predict.

A :class:`DistributionHead` is a family of distributions: it defines the loss, and converts the
outputs of a module to the parameters of the distributions. :class:`NetworkRegressor` standardises
the outcomes, trains a module with the loss of its head, and estimates a dispersion that is common
to all rows. The heads follow Torres et al. (2024), Sections 4.1 to 4.4.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data
from torch import Tensor
from torch.nn import functional

from kdgraph.base.validation import check_single_precision, check_weights
from kdgraph.distributions import Distribution, Normal, QuantileGrid, ScipyFamily
from kdgraph.errors import DataError
from kdgraph.parameters import check_parameters
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.parents.networks.training import Examples, TrainingLoss, monitored_loss
from kdgraph.parents.regressors import (
    MAX_GAMMA_SHAPE,
    DistributionRegressor,
    check_positive_targets,
    gamma_shape_mle,
)

HeadName = Literal["normal", "normal_scale", "lognormal", "gamma", "gamma_shape"]
"""Name of a head.

- normal: a mean for each row and one standard deviation for all, by the squared error.
- normal_scale: a mean and a standard deviation for each row.
- lognormal: normal for log y.
- gamma: the logarithm of a mean for each row and one shape for all, by maximum likelihood.
- gamma_shape: the logarithm of a mean and a shape for each row.
"""

# Bound of log scales: predicted standard deviations are within e^±15 of the overall one. Predicted
# shapes are within e^±15 = 3e6.
_MAX_LOG_SCALE = 15.0
# Bound of log means: predicted means are within e^±60 = 1e26 of the overall one. So they are finite
# in Float32.
_MAX_LOG_MEAN = 60.0


@dataclass(frozen=True)
class TargetScaler:
    """Location and scale of the outcomes; the module is trained on (y - center) / spread.

    Both are in the units of y, and the spread is above 0.
    """

    center: float
    spread: float


class DistributionHead(ABC):
    """Family of distributions whose parameters are the outputs of a module.

    A family may also have one parameter that is the same for all rows, the dispersion. Heads have a
    ``name``, see :data:`HeadName`, and a number of outputs of the module for a row. Outcomes must
    be above 0 if ``requires_positive_target``. Original to kdgraph.
    """

    name: str = ""
    n_outputs: int = 1
    requires_positive_target: bool = False

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:
        """Return mean and standard deviation of outcomes Float[n] with weights Float[n].

        The spread is 1 if all outcomes are equal.
        """
        y = self.transform_target(y)
        center = float(np.average(y, weights=weight))
        # Divide by the largest deviation first: squares of tiny or huge deviations would underflow
        # or overflow.
        max_deviation = max(float(np.abs(y - center).max()), np.finfo(np.float64).tiny)
        spread = max_deviation * float(
            np.sqrt(np.average(((y - center) / max_deviation) ** 2, weights=weight))
        )
        return TargetScaler(center, spread if spread > 1e-12 * max(abs(center), 1e-300) else 1.0)

    def transform_target(self, y: np.ndarray) -> np.ndarray:
        """Return outcomes Float[n] on the scale on which center and spread are computed."""
        return y

    def loss_targets(self, y: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Return outcomes Float[n] as the loss expects them, Float32[n]."""
        return ((self.transform_target(y) - scaler.center) / scaler.spread).astype(np.float32)

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of weight × negative log likelihood, up to a constant, a scalar.

        Outputs of the module are Float32[b, n_outputs], targets Float32[b] as returned by
        :meth:`loss_targets`, and weights Float32[b].
        """

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Return the outputs Float64[n_outputs] that are best if they are the same for all rows.

        Targets are Float64[n] as returned by :meth:`loss_targets`. Without such a baseline it is
        None.
        """
        return None

    def dispersion(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> float | None:
        """Return the parameter that is the same for all rows, or None if there is none.

        Outputs of the module are Float64[n, n_outputs], targets Float64[n] as of
        :meth:`loss_targets`.
        """
        return None

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Return the prediction Float[...] of y without noise, from Float64[..., n_outputs].

        It is the first output, unless a head replaces it.
        """
        return scaler.center + scaler.spread * outputs[..., 0]

    @abstractmethod
    def distribution(
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        """Return the distributions of n rows, in the units of y, from Float64[n, n_outputs]."""


class NormalHead(DistributionHead):
    """Normal distribution with a mean for each row, from outputs Float64[n, 1].

    The standard deviation is the root mean square residual: Torres et al. (2024), Section 4.1.
    """

    name = "normal"

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of (z - f)² / 2 for outputs f Float32[b, 1] and targets z Float32[b]."""
        return (weights * (targets - outputs[:, 0]).square()).mean() / 2

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.array([np.average(targets, weights=weights)])

    def dispersion(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
        rms = np.sqrt(np.average((targets - outputs[:, 0]) ** 2, weights=weights))
        # A residual below the resolution of Float32 is not evidence of certainty.
        return float(max(rms, np.finfo(np.float32).eps))

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        mean = self.point_prediction(outputs, scaler)
        return Normal(mean, np.full(len(mean), scaler.spread * (dispersion or 1.0)))


class LogNormalHead(NormalHead):
    """Lognormal distribution with a mean of log y for each row: Torres et al. (2024), Section 4.2.

    Outputs f are Float64[n, 1]. The mean of y is then exp(f + s²/2).
    """

    name = "lognormal"
    requires_positive_target = True

    def transform_target(self, y: np.ndarray) -> np.ndarray:
        return np.log(y)

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        return np.exp(np.clip(super().point_prediction(outputs, scaler), -600, 600))

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        median = self.point_prediction(outputs, scaler)
        return ScipyFamily(
            "lognorm",
            {"s": np.full(len(median), scaler.spread * (dispersion or 1.0)), "scale": median},
        )


class NormalScaleHead(DistributionHead):
    """Normal distribution with mean and log standard deviation for each row, outputs Float64[n, 2].

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution",
    1994.
    """

    name = "normal_scale"
    n_outputs = 2

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of log s + (z - f)² / (2 s²) for outputs Float32[b, 2]."""
        log_scale = outputs[:, 1].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE)
        return (
            weights * (log_scale + ((targets - outputs[:, 0]) * torch.exp(-log_scale)).square() / 2)
        ).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        mean = np.average(targets, weights=weights)
        return np.array(
            [mean, np.log(max(np.average((targets - mean) ** 2, weights=weights), 1e-30)) / 2]
        )

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        scale = np.exp(np.clip(outputs[:, 1], -_MAX_LOG_SCALE, _MAX_LOG_SCALE))
        return Normal(self.point_prediction(outputs, scaler), scaler.spread * scale)


class GammaHead(DistributionHead):
    """Gamma distribution with a log mean for each row, from outputs Float64[n, 1], and one shape.

    It has the likelihood of Torres et al. (2024), Section 4.4. The maximum likelihood mean does not
    depend on the shape. So the network is trained for the mean alone, and the shape is its maximum
    likelihood estimate given the means. The network of the paper learns both by gradients.
    """

    name = "gamma"
    requires_positive_target = True

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:
        return TargetScaler(0.0, float(np.average(y, weights=weight)))

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the mean of f + z e^-f for outputs f Float32[b, 1] and targets z Float32[b]."""
        log_mean = outputs[:, 0].clamp(-_MAX_LOG_MEAN, _MAX_LOG_MEAN)
        return (weights * (log_mean + targets * torch.exp(-log_mean))).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.array([np.log(np.average(targets, weights=weights))])

    def dispersion(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> float | None:
        """Return the shape, at most 1e12, from Float64[n, 1], Float64[n], Float64[n]."""
        log_ratio = np.log(np.maximum(targets, 1e-38)) - np.clip(
            outputs[:, 0], -_MAX_LOG_MEAN, _MAX_LOG_MEAN
        )
        return gamma_shape_mle(float(np.average(np.expm1(log_ratio) - log_ratio, weights=weights)))

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        return scaler.spread * np.exp(np.clip(outputs[..., 0], -_MAX_LOG_MEAN, _MAX_LOG_MEAN))

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        return _gamma_distribution(
            self.point_prediction(outputs, scaler),
            np.full(len(outputs), min(dispersion or 1.0, MAX_GAMMA_SHAPE)),
        )


class GammaShapeHead(GammaHead):
    """Gamma distribution with log mean and log shape for each row, from outputs Float64[n, 2].

    Original to kdgraph: Torres et al. (2024), Section 4.4, have one shape for all rows.
    """

    name = "gamma_shape"
    n_outputs = 2

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the negative log likelihood of z, for outputs Float32[b, 2] and Float32[b]."""
        log_mean = outputs[:, 0].clamp(-_MAX_LOG_MEAN, _MAX_LOG_MEAN)
        log_shape = outputs[:, 1].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE)
        shape, log_ratio = torch.exp(log_shape), torch.log(targets.clamp(min=1e-38)) - log_mean
        # For large shapes log Γ(a) and a log a nearly cancel, so their difference is computed in
        # Float64.
        stirling = (
            torch.lgamma(shape.double()) - shape.double() * log_shape.double() + shape.double()
        ).float()
        return (
            weights
            * (shape * (torch.expm1(log_ratio) - log_ratio) + stirling + log_mean + log_ratio)
        ).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        mean = super().best_constant_output(targets, weights)
        return np.append(
            mean,
            np.log(super().dispersion(np.full((len(targets), 1), mean), targets, weights) or 1.0),
        )

    def dispersion(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:
        return None

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        return _gamma_distribution(
            self.point_prediction(outputs, scaler),
            np.exp(np.clip(outputs[:, 1], -_MAX_LOG_SCALE, _MAX_LOG_SCALE)),
        )


def _gamma_distribution(mean: np.ndarray, shape: np.ndarray) -> ScipyFamily:
    return ScipyFamily("gamma", {"a": shape, "scale": mean / shape})


DISTRIBUTION_HEADS: dict[str, DistributionHead] = {
    head.name: head()
    for head in (NormalHead, NormalScaleHead, LogNormalHead, GammaHead, GammaShapeHead)
}
"""Heads by the name that the parameter ``head`` has."""


def check_loss(residuals: Tensor, levels: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over rows and levels of (τ - [z < v]) (z - v) for residuals z - v.

    Residuals are Float32[b, m] and levels τ broadcast with them (Koenker 2005).
    """
    return (
        weights * torch.maximum(levels * residuals, (levels - 1) * residuals).mean(dim=1)
    ).mean()


class QuantileHead(DistributionHead):
    """Quantiles at m levels, Float[m], trained with the check loss of Koenker (2005).

    The first output is the quantile of the middle level. Each further output determines the step to
    the next level: softplus of the output times the step of a standard normal distribution. So
    training starts close to a normal distribution, and quantiles never cross. The positive steps
    are original to kdgraph.
    """

    name = "quantiles"

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels = np.asarray(levels, dtype=np.float64)
        self.n_outputs = len(self.levels)
        self.middle_index = self.n_outputs // 2
        # softplus(0) = log 2, so an output of 0 gives exactly the normal step.
        self.initial_steps = np.diff(ndtri(self.levels)) / np.log(2)

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Return the :func:`check_loss` of outputs Float32[b, m] and targets Float32[b]."""
        steps, levels = (
            torch.from_numpy(values.astype(np.float32)).to(outputs.device)
            for values in (self.initial_steps, self.levels)
        )
        cumulative = torch.cumsum(functional.softplus(outputs[:, 1:]) * steps, dim=1)
        cumulative = torch.cat([torch.zeros_like(outputs[:, :1]), cumulative], dim=1)
        residuals = targets[:, None] - (
            outputs[:, :1] + (cumulative - cumulative[:, self.middle_index : self.middle_index + 1])
        )
        return check_loss(residuals, levels, weights)

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        empirical = np.quantile(targets, self.levels, weights=weights, method="inverted_cdf")
        steps = np.maximum(np.diff(empirical) / self.initial_steps, 1e-6)
        # steps + log(1 - exp(-steps)) is the inverse of softplus at the steps.
        return np.append(empirical[self.middle_index], steps + np.log(-np.expm1(-steps)))

    def quantiles(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Return increasing quantiles Float64[..., m] from outputs Float64[..., m]."""
        cumulative = np.cumsum(np.logaddexp(0, outputs[..., 1:]) * self.initial_steps, axis=-1)
        cumulative = np.concatenate([np.zeros_like(outputs[..., :1]), cumulative], axis=-1)
        return scaler.center + scaler.spread * (
            outputs[..., :1] + (cumulative - cumulative[..., self.middle_index, None])
        )

    def distribution(self, outputs, scaler, dispersion) -> Distribution:
        return QuantileGrid(self.levels, self.quantiles(outputs, scaler))


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRegressor(DistributionRegressor, Network):
    """Torch network as a regressor that predicts distributions, and a transformer of scikit-learn.

    A subclass is a dataclass too. Its fields are parameters, and it implements ``_head``, which
    returns the family of distributions, and ``_make_module``, which returns a module that maps rows
    to the outputs that the head requires.

    Attributes
    ----------
    target_scaler_ : TargetScaler
        Location and scale of the outcomes; the module is trained on standardised outcomes.
    dispersion_ : float or None
        Dispersion of a head that has one for all rows: the standard deviation of standardised
        outcomes, or the shape. It is estimated on the held-out rows of early stopping, or without
        them on the training rows. With held-out rows, overfitting of the network does not make its
        predictions overconfident. None if each row has its own.

    Notes
    -----
    The dispersion is estimated with dropout and batch normalisation in inference mode: the "weight
    scaling inference rule" of Torres et al., "Model-free local recalibration of neural networks",
    2024, Section 4.2. ``transform(X, layer)`` returns the outputs of a layer, also of the last one;
    ``layer_names_`` lists the names.

    Examples
    --------
    >>> import numpy as np
    >>> from kdgraph.parents.networks import MultilayerPerceptronRegressor, NetworkRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 1))
    >>> mlp = MultilayerPerceptronRegressor(
    ...     learning_rate=0.01, max_epochs=20, device="cpu", random_state=0
    ... )
    >>> isinstance(mlp, NetworkRegressor)
    True
    >>> distribution = mlp.fit(X, 2 * X[:, 0]).predict_dist([[-1.0], [1.0]])
    >>> low, high = distribution.mean()
    >>> bool(low < 0 < high), distribution.interval(0.9)[0].shape
    (True, (2,))
    """

    def _head(self) -> DistributionHead:
        """Return the family of distributions that is predicted, which defines the loss."""
        raise NotImplementedError

    def _loss(self) -> TrainingLoss:
        return self._head().loss

    def fit(self, X, y, sample_weight=None):
        """Train a new module.

        Rows and weights are as in :meth:`NetworkClassifier.fit`, outcomes Float[n], above 0 with
        the head "lognormal" and those of Gamma distributions; others raise ParameterError. If the
        network is not better than one distribution for all rows, there is a ConvergenceWarning.
        """
        check_parameters(self)
        # Report a missing device before the rows are validated.
        self._device()
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], allow_nd=True, y_numeric=True
        )
        head = self._head()
        y = np.asarray(y, dtype=np.float64)
        if head.requires_positive_target:
            y = check_positive_targets(y, f"head={head.name}")
        check_single_precision(X, type(self).__name__)
        weight = check_weights(sample_weight, X)
        self.target_scaler_ = head.fit_scaler(y, weight)
        with np.errstate(over="ignore"):
            targets = head.loss_targets(y, self.target_scaler_)
        too_far = np.flatnonzero(~np.isfinite(targets))
        if len(too_far):
            raise DataError(
                f"y has {y[too_far[0]]:g} in row {too_far[0]}, which in units of the outcomes'"
                f" spread is beyond single precision, in which {type(self).__name__} computes;"
                " correct it"
            )
        monitored = self._fit_arrays(X, targets, weight, head.n_outputs)
        self._warn_if_no_better_than_constant(
            monitored, head.best_constant_output(targets.astype(float), weight)
        )
        outputs = self._outputs_of_valid_rows(monitored.inputs.numpy())
        self.dispersion_ = head.dispersion(
            outputs.astype(np.float64),
            monitored.targets.numpy().astype(float),
            monitored.weights.numpy().astype(float),
        )
        return self

    @default_torch_state()
    def _warn_if_no_better_than_constant(
        self, monitored: Examples, constant: np.ndarray | None
    ) -> None:
        """Warn if the monitored loss is not below that of the best constant output."""
        if constant is None or not self.history_:
            return
        network_loss = monitored_loss(self.history_[self.best_epoch_ - 1])
        constant_outputs = torch.from_numpy(constant.astype(np.float32)).expand(len(monitored), -1)
        constant_loss = (
            self._head().loss(constant_outputs, monitored.targets, monitored.weights).item()
        )
        if network_loss > constant_loss - 1e-6 * max(abs(constant_loss), 1.0):
            message = (
                f"{type(self).__name__} learnt nothing: its loss, {network_loss:.3f}, is not below"
                " that of one distribution for all rows; try another learning_rate or random_state,"
                " or more epochs"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def predict_parameters(self, X) -> np.ndarray:
        """Return the outputs of the module, Float64[n, n_outputs].

        They are the parameters of the head in standardised units.
        """
        return self._module_outputs(X).astype(np.float64)

    def predict_dist(self, X) -> Distribution:
        """Return the predicted distribution of each row, Float[n, *input_shape], in units of y."""
        return self._head().distribution(
            self.predict_parameters(X), self.target_scaler_, self.dispersion_
        )

    def describe(self) -> dict[str, Any]:
        """Return a summary of the training for the record, with the dispersion if there is one."""
        return super().describe() | (
            {} if self.dispersion_ is None else {"dispersion": self.dispersion_}
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._head().requires_positive_target
        return tags
