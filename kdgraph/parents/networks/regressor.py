"""Networks of torch as regressors that predict distributions: outcomes, their units, one dispersion."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data

from kdgraph.distributions import Distribution
from kdgraph.parameters import check_parameters
from kdgraph.parents.gamma_glm import positive
from kdgraph.parents.networks.determinism import plain_torch
from kdgraph.parents.networks.heads import Head
from kdgraph.parents.networks.network import Network
from kdgraph.parents.networks.training import Examples, Loss, decisive_loss


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRegressor(RegressorMixin, Network):
    """A network of torch as a regressor and a transformer of scikit-learn, which predicts a distribution for each row.

    A subclass is a dataclass too; its fields are parameters, and it implements ``_head``, what is predicted, and ``_make_module``, from
    rows to what the head takes.

    Parameters
    ----------
    **others : those of :class:`Network`.

    Attributes
    ----------
    units_ : where outcomes are and how far apart; the module learns standardised ones.
    dispersion_ : of a head that has one for all rows: the standard deviation of standardised outcomes, or the shape. It is estimated on the
        held-out rows that decided when to stop, or without them on the training rows; so where the network overfits, it does not
        call itself certain. None where each row has its own.
    **others : those of :class:`Network`.

    Notes
    -----
    Dropout and batch normalisation are as in inference when the dispersion is estimated: the "weight scaling inference rule" of Torres et
    al., "Model-free local recalibration of neural networks", 2024, Section 4.2. What a layer puts out, the last one too, is
    ``transform(X, layer)``; ``layer_names_`` has their names.
    """

    def _head(self) -> Head:
        """What is predicted, and the loss of that."""
        raise NotImplementedError

    def _loss(self) -> Loss:
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
        ValueError : for NaN or infinity, for a device that is not there, for a training that diverges.

        Warns
        -----
        ConvergenceWarning : when the network does no better than one distribution for all rows.
        """
        check_parameters(self)
        self._device()  # one that is not there is told before the rows are looked at
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], allow_nd=True, y_numeric=True)
        head = self._head()
        y = positive(y, f"head={head.name}") if head.positive else np.asarray(y, dtype=np.float64)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0).any():
            raise ValueError(f"{type(self).__name__} needs a row whose weight is above 0")
        self.units_ = head.units(y, weight)
        targets = head.targets(y, self.units_)
        decisive = self._trained_on(X, targets, weight, head.n_outputs)
        self._warn_if_nothing_was_learnt(decisive, head.constant(targets.astype(float), weight))
        outputs = self._outputs_of(decisive.inputs.numpy())
        self.dispersion_ = head.dispersion(outputs, decisive.targets.numpy().astype(float), decisive.weights.numpy().astype(float))
        return self

    @plain_torch()
    def _warn_if_nothing_was_learnt(self, decisive: Examples, constant: np.ndarray | None) -> None:
        """``constant``: Float64[n_outputs], the best for all rows alike."""
        if constant is None or not self.history_:
            return
        reached = decisive_loss(self.history_[self.best_epoch_ - 1])
        same = torch.from_numpy(constant.astype(np.float32)).expand(len(decisive), -1)
        known = self._head().loss(same, decisive.targets, decisive.weights).item()
        if reached > known - 1e-6 * max(abs(known), 1.0):
            name = type(self).__name__
            advice = "try another learning_rate or random_state, or more epochs"
            message = f"{name} learnt nothing: its loss, {reached:.3f}, is not below that of one distribution for all rows; {advice}"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def outputs(self, X) -> np.ndarray:
        """Float64[n, n_outputs]: what the module puts out, the parameters of the head in standardised units; X as in ``fit``."""
        return self._outputs(X).astype(np.float64)

    def predict(self, X) -> np.ndarray:
        """Float64[n]: the mean of :meth:`predict_dist`; X as in ``fit``."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """The predicted distributions of rows X (Float[n, *input_shape]), in the units of y."""
        return self._head().distribution(self.outputs(X), self.units_, self.dispersion_)

    def describe(self) -> dict[str, Any]:
        """What training came to, for the record; with the dispersion, where there is one."""
        return super().describe() | ({} if self.dispersion_ is None else {"dispersion": self.dispersion_})

    def _outputs_of(self, rows: np.ndarray) -> np.ndarray:
        """Float64[n, n_outputs], of rows that are checked."""
        module = self._placed()
        (found,) = self._in_batches(rows, lambda batch: (module(batch),))
        return np.nan_to_num(found).astype(np.float64)

    def __sklearn_tags__(self):
        """With some heads the outcome is above 0."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self._head().positive
        return tags
