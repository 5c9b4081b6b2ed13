"""The parent of rows that are class scores already.

A classifier behind a transformer that is trained with it, such as a forest on what an autoencoder
makes of images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.posthoc import seeded_clone
from kdgraph.errors import did_you_mean

PROBABILITY_SUM_TOLERANCE = 1e-6
"""How far a row may be from summing to 1."""


class PrecomputedScores(ClassifierMixin, BaseEstimator):
    """A model that was trained elsewhere, of which only what it says is at hand: class
    probabilities, and maybe features. Ours.

    Parameters
    ----------
    given_layers : name and number of columns of each layer whose features stand in X behind the
        probabilities, in this order.

    Attributes
    ----------
    classes_ : [K], 0 to K - 1: the first columns of X.

    Examples
    --------
    >>> PrecomputedScores().fit([[0.9, 0.1]], [0]).predict([[0.25, 0.75]])
    array([1])
    >>> PrecomputedScores([("hidden", 1)]).fit([[0.9, 0.1, 5.0]], [0]).transform([[0.25, 0.75, 7.0]])
    array([[7.]])
    """

    learns_from_rows = False
    """Whether ``fit`` uses more of its rows than their shape."""

    def __init__(self, given_layers: Sequence[tuple[str, int]] = ()) -> None:
        self.given_layers = given_layers

    def fit(self, X, y=None):
        """Learn how many classes there are; X: Float[n, K + m], of any number of rows, 0 too; y is
        not used.
        """
        n_features = sum(width for _, width in self.given_layers)
        X = validate_data(
            self, X, dtype=np.float64, ensure_min_samples=0, ensure_min_features=2 + n_features
        )
        self.classes_ = np.arange(X.shape[1] - n_features)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: the first columns of X.

        Raises
        ------
        ValueError
            A row that is no distribution.
        """
        proba = self._validate_X(X)[:, : len(self.classes_)]
        bad = np.flatnonzero(
            (proba.min(axis=1) < 0) | (np.abs(proba.sum(axis=1) - 1) > PROBABILITY_SUM_TOLERANCE)
        )
        if len(bad):
            raise ValueError(
                f"X must be class probabilities, row {bad[0]} sums to {proba[bad[0]].sum():g}"
                f" ({len(bad)} such)"
            )
        return proba

    def predict(self, X) -> np.ndarray:
        """Int[n]: the class of the largest probability."""
        return self.predict_proba(X).argmax(axis=1)

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Float[n, m]: the features of the layer of that name; None: of the first one. As networks
        have it.

        Raises
        ------
        ValueError
            There is no such layer.
        """
        X, names = self._validate_X(X), [name for name, _ in self.given_layers]
        found = layer if layer is not None else next(iter(names), None)
        if not names:
            raise ValueError(
                "the given scores have no features; name arrays of the file in dataset.features"
            )
        if found not in names:
            known = did_you_mean(str(found), names, f"; they have {', '.join(names)}")
            raise ValueError(f"the given scores have no features '{found}'{known}")
        at = names.index(found)
        starts = len(self.classes_) + np.cumsum([0, *(width for _, width in self.given_layers)])
        return X[:, starts[at] : starts[at + 1]]

    def _validate_X(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)


class LatentClassifier(Pipeline):
    """scikit-learn's pipeline of a transformer and a classifier, each a parameter, so that a config
    can describe both.

    Whatever takes a pipeline takes it: its polytopes, leaves and distances are those of the
    classifier, in the space of the latents.

    Parameters
    ----------
    encoder : a transformer, such as :class:`~kdgraph.parents.networks.ConvolutionalAutoencoder`.
    classifier : of vectors, the rows that the transformer gives.

    Notes
    -----
    Ours. It takes rows of the shape that ``encoder`` takes, which scikit-learn's own pipelines do
    not tell by their tags.

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
        """Steps are named as the parameters, which scikit-learn refuses, for one could hide the
        other; here they are the same objects.
        """

    def __getitem__(self, ind: Any) -> Any:
        """A step by its number or name; of a slice a pipeline of these steps."""
        return Pipeline(self.steps[ind]) if isinstance(ind, slice) else super().__getitem__(ind)

    def __sklearn_tags__(self) -> Any:
        """As of a pipeline, but that rows are those of the encoder."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.encoder).input_tags
        return tags


def clone_for_new_labels(fitted: Any, random_state: Any) -> Any:
    """A clone of a fitted parent, to be fitted on the same rows with other labels; what came of the
    rows alone is kept. Ours.

    These are the steps of a pipeline before the last, where all of them say that labels do not
    matter to them (``learns_from_labels``, False): they come frozen, so that an autoencoder is
    trained once. Of any other parent it is :func:`~kdgraph.base.seeded_clone`.

    Parameters
    ----------
    fitted : the parent.
    random_state : seeds what has no seed of its own.
    """
    if not isinstance(fitted, Pipeline) or any(
        getattr(step, "learns_from_labels", True) for _, step in fitted.steps[:-1]
    ):
        return seeded_clone(fitted, random_state)
    *before, (name, last) = fitted.steps
    return Pipeline(
        [
            *((each, FrozenEstimator(step)) for each, step in before),
            (name, seeded_clone(last, random_state)),
        ]
    )
