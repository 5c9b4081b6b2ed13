"""Posteriors inside the training distribution: around the query itself (ours), or of the nearest polytope (Dey et al., Eq. 5 to 13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.density.graph import KernelDensityGraph, Visit


@dataclass(frozen=True)
class QueryPosterior:
    """Class masses around the query itself, mixed with the parent's own vote.

    P(y|x) = v·vote_y(x)^β / Σ_k vote_k(x)^β + (1 - v)·(Σ_i K(x, x_i)^p [y_i = y] + a·prior_y) / (Σ_i K(x, x_i)^p + a).

    The paper reads the posterior at the nearest polytope's centre; around the query the same sum is smooth, and costs nothing more.
    """

    exponent: float
    pseudo_count: float
    vote_share: float
    vote_power: float
    prior: np.ndarray

    @property
    def exponents(self) -> np.ndarray:
        """Float[1]: what to ask :meth:`KernelDensityGraph.visit` for."""
        return np.array([self.exponent])

    def __call__(self, visit: Visit, graph: KernelDensityGraph) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] posterior and Float[n] log density."""
        smoothed = smooth(visit.masses[:, :, 0], self.pseudo_count, self.prior)
        if not self.vote_share:
            return smoothed, visit.log_density
        vote = tempered(graph.partition.vote(visit.place), self.vote_power)
        return self.vote_share * vote + (1 - self.vote_share) * smoothed, visit.log_density


@dataclass(frozen=True)
class NearestPosterior:
    """The posterior of the nearest polytope, p_y = (n_ry/n_y)·P_y / Σ (Eq. 5, 7, 13); the log density is log G plus that sum's log.

    ``log_share``: Float[p, K], log((n_ry/n_y)·P_y).
    """

    exponent: float
    log_share: np.ndarray
    exponents = np.empty(0)

    def __call__(self, visit: Visit, graph: KernelDensityGraph) -> tuple[np.ndarray, np.ndarray]:
        """Float[n, K] posterior and Float[n] log density."""
        log_share = self.log_share[np.maximum(visit.polytope, 0)]
        total = np.logaddexp.reduce(log_share, axis=1)
        return np.exp(log_share - total[:, None]), visit.log_density + total

    @classmethod
    def from_masses(cls, exponent: float, masses: np.ndarray, prior: np.ndarray) -> NearestPosterior:
        """From n_ry, Float[p, K], of Eq. 11."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_share = np.log(masses) - np.log(masses.sum(axis=0)) + np.log(prior)
        return cls(exponent, np.where(masses > 0, log_share, -np.inf))


def tempered(vote: np.ndarray, power: float) -> np.ndarray:
    """Float[n, K]: ``vote`` raised to ``power``, as if its logits were divided by a temperature of 1/power."""
    if power == 1:
        return vote
    raised = (vote / vote.max(axis=1, keepdims=True)) ** power
    return raised / raised.sum(axis=1, keepdims=True)


def smooth(masses: np.ndarray, pseudo_count: float, prior: np.ndarray) -> np.ndarray:
    """Float[n, K]: class shares of ``masses`` (Float[n, K]), with ``pseudo_count`` rows added that follow the prior."""
    return (masses + pseudo_count * prior) / (masses.sum(axis=1, keepdims=True) + pseudo_count)
