"""A classifier behind a transformer that is trained with it, such as a forest on what an autoencoder makes of images."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from kdgraph.parents.posthoc import seeded_clone


class LatentClassifier(Pipeline):
    """scikit-learn's pipeline of a transformer and a classifier, each a parameter, so that a config can describe both.

    Whatever takes a pipeline takes it: its polytopes, leaves and distances are those of the classifier, in the space of the latents.

    Parameters
    ----------
    encoder : a transformer, such as :class:`~kdgraph.parents.networks.ConvolutionalAutoencoder`.
    classifier : of vectors, the rows that the transformer gives.

    Notes
    -----
    Ours. It takes rows of the shape that ``encoder`` takes, which scikit-learn's own pipelines do not tell by their tags.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from kdgraph.parents.networks import ConvolutionalAutoencoder
    >>> images, y = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32), np.arange(20) % 2
    >>> encoder = ConvolutionalAutoencoder(max_epochs=1, device="cpu", random_state=0)
    >>> LatentClassifier(encoder, ExtraTreesClassifier(10, random_state=0)).fit(images, y).score(images, y)
    1.0
    """

    def __init__(self, encoder: Any, classifier: Any) -> None:
        super().__init__([("encoder", encoder), ("classifier", classifier)])

    @property
    def encoder(self) -> Any:
        """The first step."""
        return self.steps[0][1]

    @property
    def classifier(self) -> Any:
        """The last step."""
        return self.steps[-1][1]

    def _validate_names(self, names: Any) -> None:
        """Steps are named as the parameters, which scikit-learn refuses, for one could hide the other; here they are the same objects."""

    def __getitem__(self, ind: Any) -> Any:
        """A step by its number or name; of a slice a pipeline of these steps."""
        return Pipeline(self.steps[ind]) if isinstance(ind, slice) else super().__getitem__(ind)

    def __sklearn_tags__(self) -> Any:
        """As of a pipeline, but that rows are those of the encoder."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.encoder).input_tags
        return tags


def clone_for_other_labels(fitted: Any, random_state: Any) -> Any:
    """A clone of a fitted parent, to be fitted on the same rows with other labels; what came of the rows alone is kept. Ours.

    These are the steps of a pipeline before the last, where all of them say that labels do not matter to them (``learns_from_labels``,
    False): they come frozen, so that an autoencoder is trained once. Of any other parent it is :func:`~kdgraph.parents.seeded_clone`.

    Parameters
    ----------
    fitted : the parent.
    random_state : seeds what has no seed of its own.
    """
    if not isinstance(fitted, Pipeline) or any(getattr(step, "learns_from_labels", True) for _, step in fitted.steps[:-1]):
        return seeded_clone(fitted, random_state)
    *before, (name, last) = fitted.steps
    return Pipeline([*((each, FrozenEstimator(step)) for each, step in before), (name, seeded_clone(last, random_state))])
