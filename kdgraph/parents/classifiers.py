"""Precomputed scores as a parent, and parents that are fitted again to other labels.

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
