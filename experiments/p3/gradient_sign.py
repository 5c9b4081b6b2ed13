"""Adversarial images as OOD sets: the fast gradient sign method (Goodfellow et al. 2015)."""

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

# Intensity of a pixel of value 1.
MAX_INTENSITY = 255
# Number of trained networks that are kept in memory.
_MAX_CACHED_NETWORKS = 2
# Trained networks by a hash of their training rows and settings, least recently used first.
_network_cache: OrderedDict[str, Any] = OrderedDict()


class FastGradientSign:
    """OOD sets of perturbed images x + ε · sign(∇ₓ loss), clipped to [0, 1], one for each ε.

    Goodfellow, Shlens and Szegedy (2015), Section 4. As in Figure 5 of the paper on TOOD
    (tree-based OOD detection), the images may be OOD images already.

    The network is trained on the training rows of the parent, but it is another network: nothing of
    the parent is used. All sets for the same training rows use one network. If its random state is
    not set, it is derived from the rows. The loss is the cross-entropy of the predicted class, so
    no labels are required.

    Parameters
    ----------
    network : Network
        Classifier of :mod:`kdgraph.parents.networks` for images; a clone of it is trained.
    images : OodSource or None, default=None
        Images that are perturbed; None uses test rows.
    epsilons : sequence of float, default=(0, 2, 4, 8)
        Values of ε in intensities, out of 255.
    n : int, default=1000
        Largest number of test rows that are perturbed. It is not used with ``images``.

    Examples
    --------
    >>> from kdgraph.parents.networks import ConvolutionalNetwork
    >>> FastGradientSign(ConvolutionalNetwork(max_epochs=1), epsilons=(4,)).epsilons
    (4,)
    """

    def __init__(
        self,
        network: Any,
        images: OodSource | None = None,
        epsilons: Sequence[NonNegative] = (0, 2, 4, 8),
        n: Count = 1000,
    ) -> None:
        self.network = network
        self.images = images
        self.epsilons = epsilons
        self.n = n
        check_parameters(self)
        if not isinstance(network, Network) or not hasattr(network, "predict_proba"):
            raise ParameterError(
                f"network must be a classifier of kdgraph.parents.networks, got {network!r}"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Download the images if they are not on this machine."""
        if (prefetch_source := getattr(self.images, "prefetch", None)) is not None:
            prefetch_source(progress)

    def sets(self, splits: Splits, rng: np.random.Generator) -> Iterator[OodSet]:
        """Yield for each set of images one perturbed set for each ε.

        A set keeps its name; perturbed test rows are named "fgsm". Its ``params`` contain ε.
        Training rows that are not images raise DataError; images that are not available raise
        DataNotAvailable, before anything is trained.
        """
        train = splits.train
        if not train.are_images:
            raise DataError(
                f"{train.name} has vectors, and only images can be perturbed, by intensities of"
                " pixels; choose another ood"
            )
        # Draw the first set before training, so that missing images are reported without a
        # training.
        image_sets = iter(self._source_images(splits, rng))
        if not (first_set := list(islice(image_sets, 1))):
            return
        network = _train_cached(self.network, train)
        accuracy = f"{network.score(splits.test.X, splits.test.y):.3f}"
        for images in chain(first_set, image_sets):
            sign = np.sign(network.input_gradient(images.X, _predicted_class_loss))
            for level in map(float, self.epsilons):
                epsilon = np.float32(level / MAX_INTENSITY)
                step = f"{level:g}/{MAX_INTENSITY}"
                facts = {
                    **images.facts,
                    "perturbed": f"{step} against a network of test accuracy {accuracy}",
                }
                yield replace(
                    images,
                    X=np.clip(images.X + epsilon * sign, 0, 1),
                    params={**images.params, "epsilon": level / MAX_INTENSITY},
                    id_values=(),
                    facts=facts,
                )

    def _source_images(self, splits: Splits, rng: np.random.Generator) -> Iterable[OodSet]:
        if self.images is not None:
            return self.images.sets(splits, rng)
        rows = rng.choice(len(splits.test.y), min(self.n, len(splits.test.y)), replace=False)
        test_rows = splits.test.rows(rows)
        return [OodSet("fgsm", test_rows.X, source_rows=test_rows.source_rows)]


def _train_cached(network: Any, train: Dataset) -> Any:
    """Return a clone of the network trained on these rows; the latest networks are cached."""
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
    """Return the cross-entropy of the predicted class, Float[n], for logits Float[n, K]."""
    return F.cross_entropy(logits, logits.argmax(dim=1), reduction="none")
