"""A softmax with a temperature and an award for the predicted class (Salamon et al., Eq. 18), as log odds of the confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kdgraph.calibration.top_label.losses import Loss, Minimum, binary_loss, minimised

CLIP = 1e-12
"""The least score that has a logarithm."""
LOG_BETA = (-10.0, 10.0)
"""Bounds of the log of an inverse temperature, as scikit-learn has them."""
_GRID = np.linspace(-3, 3, 13)
"""Where the minimum over a log inverse temperature is first looked for: 20 times colder to 20 times hotter."""


@dataclass(frozen=True)
class LogScores:
    """Log scores of rows: of the predicted class, and of the others.

    Attributes
    ----------
    own : Float[n], log y_k of the predicted class k.
    best : Float[n], the largest of the other classes.
    below : Float[n, K - 1], what the other classes are less than ``best``.
    """

    own: np.ndarray
    best: np.ndarray
    below: np.ndarray

    @classmethod
    def of(cls, proba: np.ndarray, predicted: np.ndarray) -> LogScores:
        """Of scores Float[n, K], K at least 2, and predicted classes Int[n]."""
        n, n_classes = proba.shape
        logs = np.log(np.maximum(proba.astype(np.float64, copy=False), CLIP))
        others = logs[np.arange(n_classes) != predicted[:, None]].reshape(n, n_classes - 1)
        best = others.max(axis=1)
        return cls(logs[np.arange(n), predicted], best, others - best[:, None])

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, index: np.ndarray) -> LogScores:
        return LogScores(self.own[index], self.best[index], self.below[index])

    def rest(self, beta: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """The log of the other classes' sum of y^beta, and its derivative by beta: their mean log score as the softmax weighs it.

        Parameters
        ----------
        beta : 1/T, one or Float[n].

        Returns
        -------
        Float[n], Float[n].
        """
        powers = np.exp(np.reshape(beta, (-1, 1)) * self.below)
        total = powers.sum(axis=1)
        return beta * self.best + np.log(total), self.best + np.einsum("nk,nk->n", powers, self.below) / total

    def log_odds(self, beta: np.ndarray | float, shift: np.ndarray | float = 0.0) -> np.ndarray:
        """Float[n]: log odds of y_hat at the predicted class.

        Parameters
        ----------
        beta, shift : 1/T and A/T of the row's predicted class, one or Float[n] each.

        Notes
        -----
        Salamon et al., Eq. 18: the award stands at the predicted class alone, so with l = log y the confidence is the sigmoid of
        (l_k + A)/T - log sum over j ≠ k of exp(l_j/T).

        Examples
        --------
        >>> rows = LogScores.of(np.array([[0.8, 0.1, 0.1]]), np.array([0]))
        >>> np.exp(rows.log_odds(1.0)).round(6), np.exp(rows.log_odds(0.5)).round(4)
        (array([4.]), array([1.4142]))
        """
        return beta * self.own + shift - self.rest(beta)[0]


@dataclass(frozen=True)
class AwardedLoss:
    """The mean loss of rows under one temperature, and awards for groups of them.

    Attributes
    ----------
    rows : of n rows.
    correct, weight : Bool[n] and Float[n].
    truth : Float[n], log score of the row's label; "full_nll" asks for it.
    loss : as of :func:`~kdgraph.calibration.top_label.losses.binary_loss`.
    award_of : Int[n], the award of each row; m: it has none.
    n_awards : m.
    ridge : times the sum of squared awards, beside the sum over rows.
    """

    rows: LogScores
    correct: np.ndarray
    weight: np.ndarray
    truth: np.ndarray
    loss: Loss = "nll"
    award_of: np.ndarray | int = 0
    n_awards: int = 0
    ridge: float = 0.0

    def __getitem__(self, index: np.ndarray) -> AwardedLoss:
        """Of these rows alone; without awards."""
        return AwardedLoss(self.rows[index], self.correct[index], self.weight[index], self.truth[index], self.loss)

    def with_awards(self, award_of: np.ndarray | int, n_awards: int, ridge: float) -> AwardedLoss:
        """Of the same rows, each with an award: Int[n], or one for all. Salamon et al., Eq. 18."""
        return replace(self, award_of=award_of, n_awards=n_awards, ridge=ridge)

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Value, and gradient Float[1 + m], at the log inverse temperature and the m shifts A/T.

        Shifts make the loss better conditioned than awards do: the log odds are linear in them.

        Notes
        -----
        Salamon et al., Eq. 14, 15 and 18. The K-class NLL is Eq. 14 and, of wrong rows, the log of the other classes' sum less their
        label's log score over T.
        """
        beta, shift = np.exp(parameters[0]), parameters[1:]
        log_rest, mean_rest = self.rows.rest(beta)
        z = beta * self.rows.own + np.append(shift, 0.0)[self.award_of] - log_rest
        value, slope = binary_loss(z, self.correct, self.loss)
        by_beta = slope * (self.rows.own - mean_rest)
        if self.loss == "full_nll":
            value = value + np.where(self.correct, 0, log_rest - beta * self.truth)
            by_beta = by_beta + np.where(self.correct, 0, mean_rest - self.truth)
        award, total = shift / beta, self.weight.sum()
        award_of = np.broadcast_to(self.award_of, slope.shape)
        by_shift = np.bincount(award_of, self.weight * slope, minlength=self.n_awards + 1)[:-1] + 2 * self.ridge * award / beta
        penalty = self.ridge * award @ award
        by_log_beta = beta * (self.weight @ by_beta) - 2 * penalty
        return float((self.weight @ value + penalty) / total), np.concatenate([[by_log_beta], by_shift]) / total

    def minimised(self, start: np.ndarray) -> Minimum:
        """The least loss, no greater than that at ``start``, Float[1 + m]. By scipy."""
        grid = [np.concatenate([[log_beta], start[1:]]) for log_beta in _GRID]
        return minimised(self, [start, *grid], [LOG_BETA, *[(None, None)] * self.n_awards])
