"""Images that are moved against a network: the fast gradient sign method, as a source of rows out of distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from kdgraph.data.dataset import OodSet, Splits
from kdgraph.data.sources import OodSource
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, check_parameters
from kdgraph.parents.networks.network import Network
from kdgraph.parents.posthoc import seeded_clone

BRIGHTEST = 255
"""The intensity that is 1."""


class GradientSign:
    """Images x + ε · sign(∇ₓ loss), cut to [0, 1], one set for each ε (Goodfellow, Shlens and Szegedy, 2015, Section 4).

    As in Figure 5 of the tree-based detector's paper (TOOD), which moves images that are out of distribution. The network is trained on
    the same training rows as the parent, and is another one: nothing is known of the parent. The loss is the cross-entropy of the class
    that the network predicts, so that no label is needed.

    Parameters
    ----------
    network : a network of :mod:`kdgraph.parents.networks` that classifies images; a clone of it is trained.
    of : the source of the images; None: test rows.
    levels : ε in intensities, of 255.
    n : test rows that are moved; all where there are fewer. Not used with ``of``.
    """

    def __init__(self, network: Any, of: OodSource | None = None, levels: Sequence[NonNegative] = (0, 2, 4, 8), n: Count = 1000) -> None:
        self.network = network
        self.of = of
        self.levels = levels
        self.n = n
        check_parameters(self)
        if not isinstance(network, Network) or not hasattr(network, "predict_proba"):
            raise ParameterError(f"network must be a classifier of kdgraph.parents.networks, got {network!r}")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the images are on this machine."""
        if (fetch := getattr(self.of, "prefetch", None)) is not None:
            fetch(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """For each set of images one for each ε, by the name of the set, "fgsm" of test rows; its ``params`` give ε.

        Raises
        ------
        DataError
            If the training rows are no images.
        """
        train = splits.train
        if not train.are_images:
            raise DataError(f"{train.name} has vectors, and images are moved here, by intensities of pixels; choose another ood")
        network: Any = seeded_clone(self.network, int(rng.integers(2**31 - 1))).fit(train.X, train.y)
        accuracy = f"{network.score(splits.test.X, splits.test.y):.3f}"
        for each in self._images(splits, rng):
            sign = np.sign(network.input_gradient(each.X, _loss))
            for level in map(float, self.levels):
                epsilon = np.float32(level / BRIGHTEST)
                facts = {**each.facts, "moved": f"{level:g}/{BRIGHTEST} against a network of test accuracy {accuracy}"}
                yield OodSet(each.name, np.clip(each.X + epsilon * sign, 0, 1), {**each.params, "epsilon": level / BRIGHTEST}, facts=facts)

    def _images(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """What is moved."""
        if self.of is not None:
            return self.of.sets(splits, rng)
        rows = rng.choice(len(splits.test.y), min(self.n, len(splits.test.y)), replace=False)
        return [OodSet("fgsm", splits.test.X[rows])]


def _loss(logits: Tensor) -> Tensor:
    """Float[n]: the cross-entropy of the class that logits Float[n, K] predict."""
    return F.cross_entropy(logits, logits.argmax(dim=1), reduction="none")
