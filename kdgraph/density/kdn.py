"""The kernel density network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from kdgraph.density.classifier import KernelDensityClassifier
from kdgraph.density.published import NETWORK, Published
from kdgraph.geometry import Partition, kind_of
from kdgraph.parents.frozen import unwrap


@dataclass(eq=False, repr=False)
class KernelDensityNetwork(KernelDensityClassifier):
    """A ReLU network whose probabilities are calibrated inside the training distribution and fall back to the class prior far outside it.

    Everything is as in :class:`~kdgraph.density.KernelDensityForest`, with the network's partition in place of the forest's: a polytope is
    the set of points that switch the same units on, and K is the share of activation paths on which two points agree (Eq. 16).

    Parameters
    ----------
    estimator : a network of :mod:`kdgraph.parents.networks`, anything with ``predict_proba`` and a torch module as ``module_``, or a
        pipeline that ends in one; None for four layers of 1,000 units (Table 3). Cloned and fitted; ``FrozenEstimator(fitted)`` is used as
        it is.
    variant, k, pseudo_count, vote_share, vote_power, criterion, floor, alpha, min_weight, distance, lend_calibration, max_polytopes,
    calibration_size, n_jobs, random_state : as in :class:`~kdgraph.density.KernelDensityForest`; of "reference" and "figure1", what was
        published for networks.
    output_bits : whether the output's bits, p > 1/K, count as one more layer.
    layers : the ReLU-like layers whose units are read: "all", or "head", those of the dense layers at the network's end (the one before
        them if they have none).
    embedding : the space of the Gaussians: "head", what enters these dense layers (of a network that is dense throughout: the features),
        "last", what enters the last of them, "input", or "auto": "head", but "last" if that has more than 1,024 numbers.

    Attributes
    ----------
    estimator_, classes_, prior_, graph_, posterior_, log_floor_ : as in :class:`~kdgraph.density.KernelDensityForest`.

    References
    ----------
    Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution calibrated inference, Sections 4.4 and 5.2.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> kdn = KernelDensityNetwork(MultilayerPerceptron(hidden=(20, 20), max_epochs=20), random_state=0).fit(X, y)
    >>> kdn.predict_proba([[0.5, 1.0], [50.0, 50.0]]).round(2)[1]
    array([0.5, 0.5])
    """

    output_bits: bool = True
    layers: Literal["head", "all"] = "all"
    embedding: Literal["auto", "head", "last", "input"] = "auto"

    published: ClassVar[Published] = NETWORK
    parent_is: ClassVar = "network"

    def _default_estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        from kdgraph.parents.networks import MultilayerPerceptron

        return MultilayerPerceptron(n_jobs=self.n_jobs)

    def _parent(self) -> Any:
        parent = super()._parent()
        if kind_of(parent) == "forest":
            name = type(unwrap(parent)).__name__
            raise TypeError(f"KernelDensityNetwork needs a network, got {name}, a forest; use KernelDensityForest in its place")
        return parent

    def _partition(self) -> Partition:
        reading = {name: getattr(self, name) for name in ("output_bits", "layers", "embedding")}
        return self._partition_of(self.estimator_, **reading)
