"""What a regression network predicts: a family of distributions, its loss, and its parameters from
what the module puts out.

Networks of torch as regressors that predict distributions: outcomes, their units, one dispersion.
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
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor
from torch.nn import functional

from kdgraph.distributions import Distribution, Normal, QuantileGrid, ScipyFamily
from kdgraph.parameters import check_parameters
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.torch_state import default_torch_state
from kdgraph.parents.networks.training import Examples, TrainingLoss, monitored_loss
from kdgraph.parents.regressors import MAX_GAMMA_SHAPE, check_positive_targets, gamma_shape_mle

HeadName = Literal["normal", "normal_scale", "lognormal", "gamma", "gamma_shape"]
"""normal: a mean for each row, and one standard deviation for all, as the squared error has it.
normal_scale: a standard deviation for each row too. lognormal: normal for log y. gamma: the
logarithm of a mean for each row, and one shape for all. gamma_shape: a shape for each row too.
"""

_MAX_LOG_SCALE = 15.0
"""Standard deviations that a module puts out are within e^±15 of that of all rows, and shapes
within e^±15 = 3e6.
"""
_MAX_LOG_MEAN = 60.0
"""Means on a logarithmic scale are within e^±60 = 1e26 of that of all rows, so that Float32 holds
them.
"""


@dataclass(frozen=True)
class TargetScaler:
    """Where outcomes are, or their logarithms, and how far apart: a module learns (y - center) /
    spread; ours.
    """

    center: float
    spread: float


class DistributionHead(ABC):
    """A family of distributions, whose parameters a module puts out for each row, and perhaps one
    number that is the same for all; ours.

    Attributes
    ----------
    name : see :data:`HeadName`.
    n_outputs : of the module, for a row.
    requires_positive_target : whether outcomes must be above 0.
    """

    name: str = ""
    n_outputs: int = 1
    requires_positive_target: bool = False

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:
        """Of outcomes Float[n] with their weights Float[n]: mean and standard deviation, 1 where
        they are all alike.
        """
        y = self.transform_target(y)
        center = float(np.average(y, weights=weight))
        reach = max(
            float(np.abs(y - center).max()), np.finfo(np.float64).tiny
        )  # a unit in which squares have digits
        spread = reach * float(np.sqrt(np.average(((y - center) / reach) ** 2, weights=weight)))
        return TargetScaler(center, spread if spread > 1e-12 * max(abs(center), 1e-300) else 1.0)

    def transform_target(self, y: np.ndarray) -> np.ndarray:
        """Float[n]: the scale on which outcomes Float[n] have a center and a spread."""
        return y

    def loss_targets(self, y: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Float32[n]: outcomes Float[n] as the loss takes them."""
        return ((self.transform_target(y) - scaler.center) / scaler.spread).astype(np.float32)

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Float32[b, n_outputs], Float32[b], Float32[b] → the mean of weight × negative log
        likelihood, up to a constant.
        """

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Float64[n_outputs]: the best that are the same for all rows, of Float64[n], Float64[n];
        None: there are none to compare with.
        """
        return None

    def dispersion(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> float | None:
        """The number that is the same for all rows, of rows: Float64[n, n_outputs], Float64[n],
        Float64[n]; None: there is none.
        """
        return None

    @abstractmethod
    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Float[...]: what is predicted for y, without the noise around it, of outputs Float64[...,
        n_outputs].
        """

    @abstractmethod
    def distribution(
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        """Of n rows, in the units of y, of outputs Float64[n, n_outputs]."""


class NormalHead(DistributionHead):
    """The mean, of outputs Float64[n, 1]; the standard deviation is the root mean square residual:
    Torres et al. (2024), Section 4.1.
    """

    name = "normal"

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean of (z - f)² / 2, of outputs Float32[b, 1] and targets Float32[b]."""
        return (weights * (targets - outputs[:, 0]).square()).mean() / 2

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return np.array([np.average(targets, weights=weights)])

    def dispersion(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:  # noqa: D102 - as in the base
        rms = np.sqrt(np.average((targets - outputs[:, 0]) ** 2, weights=weights))
        return float(
            max(rms, np.finfo(np.float32).eps)
        )  # what Float32 cannot tell apart is no certainty

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:  # noqa: D102
        return scaler.center + scaler.spread * outputs[..., 0]

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        mean = self.point_prediction(outputs, scaler)
        return Normal(mean, np.full(len(mean), scaler.spread * (dispersion or 1.0)))


class LogNormalHead(NormalHead):
    """The mean of log y, as in Torres et al. (2024), Section 4.2; then the mean of y is exp(f +
    s²/2).
    """

    name = "lognormal"
    requires_positive_target = True

    def transform_target(self, y: np.ndarray) -> np.ndarray:  # noqa: D102
        return np.log(y)

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:  # noqa: D102
        return np.exp(np.clip(super().point_prediction(outputs, scaler), -600, 600))

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        median = self.point_prediction(outputs, scaler)
        return ScipyFamily(
            "lognorm",
            {"s": np.full(len(median), scaler.spread * (dispersion or 1.0)), "scale": median},
        )


class NormalScaleHead(DistributionHead):
    """Mean and log standard deviation, of outputs Float64[n, 2].

    Nix and Weigend, "Estimating the mean and variance of the target probability distribution",
    1994.
    """

    name = "normal_scale"
    n_outputs = 2

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean of log s + (z - f)² / (2 s²), of outputs Float32[b, 2] and targets Float32[b]."""
        log_scale = outputs[:, 1].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE)
        return (
            weights * (log_scale + ((targets - outputs[:, 0]) * torch.exp(-log_scale)).square() / 2)
        ).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        mean = np.average(targets, weights=weights)
        return np.array(
            [mean, np.log(max(np.average((targets - mean) ** 2, weights=weights), 1e-30)) / 2]
        )

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:  # noqa: D102
        return scaler.center + scaler.spread * outputs[..., 0]

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        scale = np.exp(np.clip(outputs[:, 1], -_MAX_LOG_SCALE, _MAX_LOG_SCALE))
        return Normal(self.point_prediction(outputs, scaler), scaler.spread * scale)


class GammaHead(DistributionHead):
    """The log mean, of outputs Float64[n, 1], by the likelihood of Torres et al. (2024), Section
    4.4, with one shape.

    The mean that is most likely does not depend on the shape, so the network learns it alone, and
    the shape is its maximum likelihood given the means, where the paper's network learns both by
    gradients.
    """

    name = "gamma"
    requires_positive_target = True

    def fit_scaler(self, y: np.ndarray, weight: np.ndarray) -> TargetScaler:  # noqa: D102 - as in the base
        return TargetScaler(0.0, float(np.average(y, weights=weight)))

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean of f + z e^-f, of outputs Float32[b, 1] and targets Float32[b]."""
        log_mean = outputs[:, 0].clamp(-_MAX_LOG_MEAN, _MAX_LOG_MEAN)
        return (weights * (log_mean + targets * torch.exp(-log_mean))).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        return np.array([np.log(np.average(targets, weights=weights))])

    def dispersion(
        self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> float | None:
        """The shape, at most 1e12; Float64[n, 1], Float64[n], Float64[n]."""
        log_ratio = np.log(np.maximum(targets, 1e-38)) - np.clip(
            outputs[:, 0], -_MAX_LOG_MEAN, _MAX_LOG_MEAN
        )
        return gamma_shape_mle(float(np.average(np.expm1(log_ratio) - log_ratio, weights=weights)))

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:  # noqa: D102
        return scaler.spread * np.exp(np.clip(outputs[..., 0], -_MAX_LOG_MEAN, _MAX_LOG_MEAN))

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        return _gamma_distribution(
            self.point_prediction(outputs, scaler),
            np.full(len(outputs), min(dispersion or 1.0, MAX_GAMMA_SHAPE)),
        )


class GammaShapeHead(GammaHead):
    """Log mean and log shape, of outputs Float64[n, 2] (ours; Torres et al., 2024, Section 4.4,
    have one shape).
    """

    name = "gamma_shape"
    n_outputs = 2

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """The negative log likelihood of z, of outputs Float32[b, 2] and targets Float32[b]."""
        log_mean, log_shape = (
            outputs[:, 0].clamp(-_MAX_LOG_MEAN, _MAX_LOG_MEAN),
            outputs[:, 1].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE),
        )
        shape, log_ratio = torch.exp(log_shape), torch.log(targets.clamp(min=1e-38)) - log_mean
        # Of large shapes log Γ(a) and a log a are nearly the same: together they are their
        # difference in Float64.
        stirling = (
            torch.lgamma(shape.double()) - shape.double() * log_shape.double() + shape.double()
        ).float()
        return (
            weights
            * (shape * (torch.expm1(log_ratio) - log_ratio) + stirling + log_mean + log_ratio)
        ).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        mean = super().best_constant_output(targets, weights)
        return np.append(
            mean,
            np.log(super().dispersion(np.full((len(targets), 1), mean), targets, weights) or 1.0),
        )

    def dispersion(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> None:  # noqa: D102 - as in the base
        return None

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        return _gamma_distribution(
            self.point_prediction(outputs, scaler),
            np.exp(np.clip(outputs[:, 1], -_MAX_LOG_SCALE, _MAX_LOG_SCALE)),
        )


def _gamma_distribution(mean: np.ndarray, shape: np.ndarray) -> ScipyFamily:
    return ScipyFamily("gamma", {"a": shape, "scale": mean / shape})


DISTRIBUTION_HEADS: dict[str, DistributionHead] = {
    head.name: head
    for head in (NormalHead(), NormalScaleHead(), LogNormalHead(), GammaHead(), GammaShapeHead())
}
"""By the name that an estimator's ``head`` has."""


class QuantileHead(DistributionHead):
    """Quantiles at m levels, by the check loss of Koenker (2005), which never cross (ours).

    The first output is the quantile of the middle level; each further one is the step to the next,
    as softplus times the step that a standard normal distribution has there, so that training
    starts near that.

    Parameters
    ----------
    levels : Float[m], increasing, in (0, 1).
    """

    name = "quantiles"

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels = np.asarray(levels, dtype=np.float64)
        self.n_outputs = len(self.levels)
        self.middle_index = self.n_outputs // 2
        self.initial_steps = np.diff(ndtri(self.levels)) / np.log(2)  # softplus(0) = log 2

    def loss(self, outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
        """Mean over rows and levels of (τ - [z < v]) (z - v), of outputs Float32[b, m] and targets
        Float32[b].
        """
        steps, levels = (
            torch.from_numpy(each.astype(np.float32)).to(outputs.device)
            for each in (self.initial_steps, self.levels)
        )
        reached = torch.cumsum(functional.softplus(outputs[:, 1:]) * steps, dim=1)
        reached = torch.cat([torch.zeros_like(outputs[:, :1]), reached], dim=1)
        over = targets[:, None] - (
            outputs[:, :1] + (reached - reached[:, self.middle_index : self.middle_index + 1])
        )
        return (weights * torch.maximum(levels * over, (levels - 1) * over).mean(dim=1)).mean()

    def best_constant_output(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        known = np.quantile(targets, self.levels, weights=weights, method="inverted_cdf")
        steps = np.maximum(np.diff(known) / self.initial_steps, 1e-6)
        return np.append(
            known[self.middle_index], steps + np.log(-np.expm1(-steps))
        )  # softplus of the latter is the steps

    def quantiles(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Float64[..., m], increasing, of outputs Float64[..., m]."""
        reached = np.cumsum(np.logaddexp(0, outputs[..., 1:]) * self.initial_steps, axis=-1)
        reached = np.concatenate([np.zeros_like(outputs[..., :1]), reached], axis=-1)
        return scaler.center + scaler.spread * (
            outputs[..., :1] + (reached - reached[..., self.middle_index, None])
        )

    def point_prediction(self, outputs: np.ndarray, scaler: TargetScaler) -> np.ndarray:
        """Float[...]: the quantile of the middle level, of outputs Float64[..., m]."""
        return scaler.center + scaler.spread * outputs[..., 0]

    def distribution(  # noqa: D102
        self, outputs: np.ndarray, scaler: TargetScaler, dispersion: float | None
    ) -> Distribution:
        return QuantileGrid(self.levels, self.quantiles(outputs, scaler))


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRegressor(RegressorMixin, Network):
    """A network of torch as a regressor and a transformer of scikit-learn, which predicts a
    distribution for each row.

    A subclass is a dataclass too; its fields are parameters, and it implements ``_head``, what is
    predicted, and ``_make_module``, from rows to what the head takes.

    Parameters
    ----------
    **others : those of :class:`Network`.

    Attributes
    ----------
    target_scaler_ : where outcomes are and how far apart; the module learns standardised ones.
    dispersion_ : of a head that has one for all rows: the standard deviation of standardised
        outcomes, or the shape. It is estimated on the held-out rows that decided when to stop, or
        without them on the training rows; so where the network overfits, it does not call itself
        certain. None where each row has its own.
    **others : those of :class:`Network`.

    Notes
    -----
    Dropout and batch normalisation are as in inference when the dispersion is estimated: the
    "weight scaling inference rule" of Torres et al., "Model-free local recalibration of neural
    networks", 2024, Section 4.2. What a layer puts out, the last one too, is ``transform(X,
    layer)``; ``layer_names_`` has their names.
    """

    def _head(self) -> DistributionHead:
        """What is predicted, and the loss of that."""
        raise NotImplementedError

    def _loss(self) -> TrainingLoss:
        return self._head().loss

    def fit(self, X, y, sample_weight=None):
        """Train a new module.

        Parameters
        ----------
        X : Float[n, d], or more axes, such as images Float[n, channels, height, width].
        y : Float[n]; above 0 with the heads "lognormal" and "gamma".
        sample_weight : Float[n] or None, from 0; a row of weight 0 is left out.

        Raises
        ------
        ParameterError : for a parameter outside its range; for a y that must be above 0.
        ValueError : for NaN or infinity, for a device that is not there, for a training that
            diverges.

        Warns
        -----
        ConvergenceWarning : when the network does no better than one distribution for all rows.
        """
        check_parameters(self)
        self._device()  # one that is not there is told before the rows are looked at
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], allow_nd=True, y_numeric=True
        )
        head = self._head()
        y = (
            check_positive_targets(y, f"head={head.name}")
            if head.requires_positive_target
            else np.asarray(y, dtype=np.float64)
        )
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0).any():
            raise ValueError(f"{type(self).__name__} needs a row whose weight is above 0")
        self.target_scaler_ = head.fit_scaler(y, weight)
        targets = head.loss_targets(y, self.target_scaler_)
        decisive = self._fit_arrays(X, targets, weight, head.n_outputs)
        self._warn_if_no_better_than_constant(
            decisive, head.best_constant_output(targets.astype(float), weight)
        )
        outputs = self._outputs_of_valid_rows(decisive.inputs.numpy())
        self.dispersion_ = head.dispersion(
            outputs, decisive.targets.numpy().astype(float), decisive.weights.numpy().astype(float)
        )
        return self

    @default_torch_state()
    def _warn_if_no_better_than_constant(
        self, monitored: Examples, constant: np.ndarray | None
    ) -> None:
        """``constant``: Float64[n_outputs], the best for all rows alike."""
        if constant is None or not self.history_:
            return
        reached = monitored_loss(self.history_[self.best_epoch_ - 1])
        same = torch.from_numpy(constant.astype(np.float32)).expand(len(monitored), -1)
        known = self._head().loss(same, monitored.targets, monitored.weights).item()
        if reached > known - 1e-6 * max(abs(known), 1.0):
            name = type(self).__name__
            advice = "try another learning_rate or random_state, or more epochs"
            message = (
                f"{name} learnt nothing: its loss, {reached:.3f}, is not below that of one"
                f" distribution for all rows; {advice}"
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def predict_parameters(self, X) -> np.ndarray:
        """Float64[n, n_outputs]: what the module puts out, the parameters of the head in
        standardised units; X as in ``fit``.
        """
        return self._module_outputs(X).astype(np.float64)

    def predict(self, X) -> np.ndarray:
        """Float64[n]: the mean of :meth:`predict_dist`; X as in ``fit``."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """The predicted distributions of rows X (Float[n, *input_shape]), in the units of y."""
        return self._head().distribution(
            self.predict_parameters(X), self.target_scaler_, self.dispersion_
        )

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record; with the dispersion, where there is one."""
        return super().describe() | (
            {} if self.dispersion_ is None else {"dispersion": self.dispersion_}
        )

    def _outputs_of_valid_rows(self, rows: np.ndarray) -> np.ndarray:
        """Float64[n, n_outputs], of rows that are checked."""
        module = self._module_on_device()
        (found,) = self._map_batches(rows, lambda batch: (module(batch),))
        return np.nan_to_num(found).astype(np.float64)

    def __sklearn_tags__(self):
        """With some heads the outcome is above 0."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._head().requires_positive_target
        return tags
