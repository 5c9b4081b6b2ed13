"""Images that are moved against a network: the fast gradient sign method, as a source of rows out
of distribution.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import joblib
import numpy as np
import torch.nn.functional as F
from torch import Tensor

from kdgraph.base.posthoc import seeded_clone
from kdgraph.data.dataset import Dataset, OodSet, OodSource, Splits
from kdgraph.errors import DataError, ParameterError
from kdgraph.parameters import Count, NonNegative, check_parameters
from kdgraph.parents.networks.network import Network

_MAX_INTENSITY = 255
"""The intensity that is 1."""
_MAX_CACHED_NETWORKS = 2
"""Trained networks that stay in memory."""
_network_cache: OrderedDict[str, Any] = OrderedDict()
"""Networks by a hash of the rows and the settings that they were trained with; the one asked for
last is last.
"""


class FastGradientSign:
    """Images x + ε · sign(∇ₓ loss), cut to [0, 1], one set for each ε (Goodfellow, Shlens and
    Szegedy, 2015, Section 4).

    As in Figure 5 of the tree-based detector's paper (TOOD), which moves images that are out of
    distribution. The network is trained on the same training rows as the parent, and is another
    one: nothing is known of the parent. All sets of these training rows are moved against one
    network; a random state that is not set is made of the rows. The loss is the cross-entropy of
    the class that the network predicts, so that no label is needed.

    Parameters
    ----------
    network : a network of :mod:`kdgraph.parents.networks` that classifies images; a clone of it is
    trained.
    of : the source of the images; None: test rows.
    levels : ε in intensities, of 255.
    n : test rows that are moved; all where there are fewer. Not used with ``of``.
    """

    def __init__(
        self,
        network: Any,
        of: OodSource | None = None,
        levels: Sequence[NonNegative] = (0, 2, 4, 8),
        n: Count = 1000,
    ) -> None:
        self.network = network
        self.of = of
        self.levels = levels
        self.n = n
        check_parameters(self)
        if not isinstance(network, Network) or not hasattr(network, "predict_proba"):
            raise ParameterError(
                f"network must be a classifier of kdgraph.parents.networks, got {network!r}"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Make sure that the images are on this machine."""
        if (fetch := getattr(self.of, "prefetch", None)) is not None:
            fetch(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """For each set of images one for each ε, by the name of the set, "fgsm" of test rows; its
        ``params`` give ε.

        Raises
        ------
        DataError
            If the training rows are no images.
        NotAtHand
            If the images are not at hand; nothing is trained then.
        """
        train = splits.train
        if not train.are_images:
            raise DataError(
                f"{train.name} has vectors, and images are moved here, by intensities of pixels;"
                " choose another ood"
            )
        drawn = iter(self._source_images(splits, rng))
        if not (first := list(islice(drawn, 1))):
            return
        network = _train_cached(self.network, train)
        accuracy = f"{network.score(splits.test.X, splits.test.y):.3f}"
        for each in chain(first, drawn):
            sign = np.sign(network.input_gradient(each.X, _predicted_class_loss))
            for level in map(float, self.levels):
                epsilon = np.float32(level / _MAX_INTENSITY)
                facts = {
                    **each.facts,
                    "moved": f"{level:g}/{_MAX_INTENSITY} against a network of test accuracy {accuracy}",
                }
                yield replace(
                    each,
                    X=np.clip(each.X + epsilon * sign, 0, 1),
                    params={**each.params, "epsilon": level / _MAX_INTENSITY},
                    id_values=(),
                    facts=facts,
                )

    def _source_images(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        """What is moved."""
        if self.of is not None:
            return self.of.sets(splits, rng)
        rows = rng.choice(len(splits.test.y), min(self.n, len(splits.test.y)), replace=False)
        drawn = splits.test.rows(rows)
        return [OodSet("fgsm", drawn.X, source_rows=drawn.source_rows)]


def _train_cached(network: Any, train: Dataset) -> Any:
    """A clone of the network that is trained on these rows; once, for all that ask for it while it
    is kept.
    """
    key = joblib.hash((type(network), network.get_params(), train.fingerprint))
    if key not in _network_cache:
        _network_cache[key] = seeded_clone(network, int(train.fingerprint[:7], 16)).fit(
            train.X, train.y
        )
    _network_cache.move_to_end(key)
    while len(_network_cache) > _MAX_CACHED_NETWORKS:
        _network_cache.popitem(last=False)
    return _network_cache[key]


def _predicted_class_loss(logits: Tensor) -> Tensor:
    """Float[n]: the cross-entropy of the class that logits Float[n, K] predict."""
    return F.cross_entropy(logits, logits.argmax(dim=1), reduction="none")
