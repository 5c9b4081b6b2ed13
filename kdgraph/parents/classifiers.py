"""Classifiers that are parents: precomputed scores, and pipelines with a trained encoder.

:class:`PrecomputedScores` is the parent of rows that already contain class probabilities, and maybe
features, of a model that was trained elsewhere. :class:`LatentClassifier` is a classifier in the
latent space of a transformer, such as a forest behind an autoencoder of images.
Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.posthoc import seeded_clone
from kdgraph.errors import did_you_mean

PROBABILITY_SUM_TOLERANCE = 1e-6
"""Largest difference to 1 of the sum of a row of probabilities."""


@dataclass(eq=False, repr=False)
class PrecomputedScores(ClassifierMixin, BaseEstimator):
    """Model that was trained elsewhere, of which only the predictions are available.

    The rows contain class probabilities, and optionally features behind them.

    Parameters
    ----------
    layer_widths : sequence of (str, int), default=()
        Name and number of columns of each layer whose features follow the probabilities in X, in
        this order.

    Attributes
    ----------
    classes_ : Int[K]
        0 to K - 1: the first columns of X.

    Examples
    --------
    >>> PrecomputedScores().fit([[0.9, 0.1]], [0]).predict([[0.25, 0.75]])
    array([1])
    >>> scores = PrecomputedScores([("hidden", 1)]).fit([[0.9, 0.1, 5.0]], [0])
    >>> scores.transform([[0.25, 0.75, 7.0]])
    array([[7.]])
    """

    layer_widths: Sequence[tuple[str, int]] = ()

    learns_from_rows: ClassVar[bool] = False
    """False, since ``fit`` uses only the shape of its rows."""

    def fit(self, X, y=None):
        """Set the classes from the number of columns of X, Float[n, K + m]; n may be 0."""
        n_features = sum(width for _, width in self.layer_widths)
        X = validate_data(
            self, X, dtype=np.float64, ensure_min_samples=0, ensure_min_features=2 + n_features
        )
        self.classes_ = np.arange(X.shape[1] - n_features)
        return self

    def predict_proba(self, X) -> np.ndarray:
        """Return the first columns of X, Float[n, K].

        A row that is not a distribution raises ValueError.
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
        """Return the class with the largest probability for each row, Int[n]."""
        return self.predict_proba(X).argmax(axis=1)

    def transform(self, X, layer: str | None = None) -> np.ndarray:
        """Return the features of a layer, Float[n, m], the first one by default.

        It is like the method of the same name of networks. An unknown layer raises ValueError.
        """
        X, names = self._validate_X(X), [name for name, _ in self.layer_widths]
        name = layer if layer is not None else next(iter(names), None)
        if not names:
            raise ValueError(
                "the given scores have no features; name arrays of the file in dataset.features"
            )
        if name not in names:
            advice = did_you_mean(str(name), names, f"; they have {', '.join(names)}")
            raise ValueError(f"the given scores have no features '{name}'{advice}")
        position = names.index(name)
        starts = len(self.classes_) + np.cumsum([0, *(width for _, width in self.layer_widths)])
        return X[:, starts[position] : starts[position + 1]]

    def _validate_X(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)


class LatentClassifier(Pipeline):
    """Pipeline of a transformer and a classifier, both of which are parameters.

    A config can thus describe both. The estimator can be used wherever a pipeline of scikit-learn
    can: its polytopes, leaves and distances are those of the classifier, in the latent space.

    Parameters
    ----------
    encoder : transformer
        Such as :class:`~kdgraph.parents.networks.ConvolutionalAutoencoder`.
    classifier : classifier
        Classifier of vectors, the outputs of the transformer.

    Notes
    -----
    Rows have the shape that ``encoder`` takes, which is not included in the tags of scikit-learn's
    own pipelines.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import ExtraTreesClassifier
    >>> from kdgraph.parents.networks import ConvolutionalAutoencoder
    >>> images = np.random.default_rng(0).random((20, 1, 8, 8), dtype=np.float32)
    >>> y = np.arange(20) % 2
    >>> encoder = ConvolutionalAutoencoder(max_epochs=1, device="cpu", random_state=0)
    >>> model = LatentClassifier(encoder, ExtraTreesClassifier(10, random_state=0))
    >>> model.fit(images, y).score(images, y)
    1.0
    """

    def __init__(self, encoder: Any, classifier: Any) -> None:
        super().__init__([("encoder", encoder), ("classifier", classifier)])

    def fit(self, X, y=None, *, X_unlabelled=(), **params):
        """Fit both steps to rows that the encoder takes, and their labels.

        The encoder is trained on ``X_unlabelled`` too, further sets of rows like X, such as those
        that are predicted afterwards; see
        :class:`~kdgraph.parents.networks.ConvolutionalAutoencoder`. ``params`` are parameters of
        the ``fit`` of the steps, as for scikit-learn's pipelines.
        """
        if len(X_unlabelled):
            params["encoder__X_unlabelled"] = X_unlabelled
        return super().fit(X, y, **params)

    @property
    def paper_protocol(self) -> str | None:
        """State "unlabelled" if the encoder is trained on the rows to predict, as in TOOD."""
        return "unlabelled" if getattr(self.encoder, "unlabelled_epochs", 0) else None

    @property
    def encoder(self) -> Any:
        """The first step."""
        return self.steps[0][1]

    @property
    def classifier(self) -> Any:
        """The last step."""
        return self.steps[-1][1]

    def _validate_names(self, names: Any) -> None:
        """Allow steps with the names of parameters, which scikit-learn refuses.

        A step could hide a parameter there. Here they are the same objects.
        """

    def __getitem__(self, ind: Any) -> Any:
        return Pipeline(self.steps[ind]) if isinstance(ind, slice) else super().__getitem__(ind)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.encoder).input_tags
        return tags


def clone_for_new_labels(fitted: Any, random_state: Any) -> Any:
    """Return a clone of a fitted parent, to be fitted on the same rows with other labels.

    What was fitted on the rows alone is kept. These are the steps of a pipeline before the last, if
    labels do not matter to any of them (``learns_from_labels`` is False): they are frozen, so that
    an autoencoder is trained once. A model that was fitted elsewhere cannot be fitted again, and
    has a forest in its place (``forest_for_new_labels``). The result for any other parent is that
    of :func:`~kdgraph.base.seeded_clone`.
    """
    if hasattr(fitted, "forest_for_new_labels"):
        return fitted.forest_for_new_labels(random_state)
    if not isinstance(fitted, Pipeline) or any(
        getattr(step, "learns_from_labels", True) for _, step in fitted.steps[:-1]
    ):
        return seeded_clone(fitted, random_state)
    *transformers, (last_name, last) = fitted.steps
    return Pipeline(
        [
            *((name, FrozenEstimator(step)) for name, step in transformers),
            (last_name, seeded_clone(last, random_state)),
        ]
    )
