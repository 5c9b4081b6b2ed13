"""Predictions of a model of another library for the rows of a data set.

Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from kdgraph.distributions import Distribution
from kdgraph.distributions.concatenated import ConcatenatedDistribution
from kdgraph.errors import DataError
from kdgraph.fitted.labels import label_text
from kdgraph.fitted.outputs import probabilities_of
from kdgraph.fitted.rows import ModelRows
from kdgraph.fitted.source import SEVERAL_OUTCOMES, ExternalModel, ModelSource
from kdgraph.parents import distribution_from_predictions
from kdgraph.wording import first_line, some

_MAX_LISTED_CLASSES = 8


@dataclass(frozen=True)
class ModelPredictor:
    """Model of another library behind the transformer of its rows, whose outputs are checked.

    Methods raise DataError where the model refuses the rows, or predicts something else. Their
    argument ``class_order``, Int[K], is the column of the outputs of each class.

    Attributes
    ----------
    model : ExternalModel
        The model.
    source : ModelSource
        Its file or function, for errors.
    rows : ModelRows
        Transformer of the rows.
    """

    model: ExternalModel
    source: ModelSource
    rows: ModelRows

    def proba(self, X: Any, labels: Sequence[Any]) -> np.ndarray:
        """Return the probabilities of a classifier, Float64[n, K], in the order of its outputs.

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows.
        labels : sequence of K labels
            Labels of the classes, in any order: the model must predict as many.
        """
        outputs = self._outputs(X, len(labels))
        proba = probabilities_of(outputs, self.model.outputs, self.source)
        if proba.shape[1] != len(labels):
            raise self.source.error(
                f"predicts {proba.shape[1]} classes, and there are {len(labels)}:"
                f" {some([str(label) for label in labels], _MAX_LISTED_CLASSES)}"
            )
        return proba

    def numbers(self, X: Any) -> np.ndarray:
        """Return the numbers that a regressor predicts, Float64[n]."""
        outputs = self._outputs(X, 1)
        if outputs.size != len(X):
            raise self.source.error(f"{SEVERAL_OUTCOMES} (it predicts {outputs.shape[1]} numbers)")
        numbers = outputs.ravel()
        if not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers)))
            raise self.source.error(
                f"must predict finite numbers, and row {row} has {numbers[row]}"
            )
        return numbers

    def distribution(self, X: Any) -> Distribution:
        """Return the distributions that a probabilistic regressor predicts."""
        assert self.model.distribution is not None
        parts = [
            (rows, distribution_from_predictions(result))
            for rows, result in self._results(self.model.distribution, X)
        ]
        if len(parts) == 1:
            return parts[0][1]
        return ConcatenatedDistribution.from_parts(parts, len(X))

    def label_positions(self, X: Any, class_order: np.ndarray) -> np.ndarray:
        """Return the position of the class whose label the model predicts, Int[n]."""
        assert self.model.labels is not None
        labels = self._values(self.model.labels, X) if len(X) else np.empty(0, dtype=int)
        column = {label_text(label): k for k, label in enumerate(self.model.classes or ())}
        try:
            columns = [column[label_text(label)] for label in np.asarray(labels).ravel().tolist()]
        except KeyError as error:
            raise self.source.error(f"predicts {error}, which is none of its classes") from error
        return np.argsort(class_order)[np.array(columns, dtype=np.int64)]

    def pipeline(self) -> Pipeline:
        """Return the estimator of the model behind the transformer of its rows."""
        inner = self.model.estimator
        steps = inner.steps if isinstance(inner, Pipeline) else [("model", inner)]
        return Pipeline([("rows", self.rows), *steps])

    def network(self, class_order: np.ndarray, row_shape: tuple[int, ...]) -> Any:
        """Return the torch module as an estimator that was fitted on positions of classes."""
        from kdgraph.parents.networks import TorchClassifier

        positions = np.arange(len(class_order))
        # What reads logits takes column k for class k.
        if (class_order != positions).any():
            raise self.source.error(
                "has its classes in another order than the sorted one, in which logits and layers"
                " are read; choose what needs no network, or sort the outputs"
            )
        network = TorchClassifier(self.model.network, max_epochs=0, device="cpu")
        return network.fit(np.zeros((len(positions), *row_shape)), positions)

    def _outputs(self, X: Any, width: int) -> np.ndarray:
        """Return the outputs for rows, Float64[n] or Float64[n, K]; K = width if there are none."""
        n = len(X)
        if not n:
            return np.zeros((0, width))
        outputs = self._values(self.model.predict, X)
        if len(outputs) != n or outputs.ndim > 2 or outputs.dtype.kind not in "fiub":
            raise self.source.error(
                f"must predict numbers [{n}, K] for {n} rows, got {outputs.dtype} of shape"
                f" {outputs.shape}"
            )
        return outputs.astype(np.float64)

    def _values(self, function: Callable[[Any], Any], X: Any) -> np.ndarray:
        """Return the result of a function of the model for rows, which are at least one."""
        parts = [(rows, np.asarray(result)) for rows, result in self._results(function, X)]
        if len(parts) == 1:
            return parts[0][1]
        first = parts[0][1]
        values = np.empty((len(X), *first.shape[1:]), dtype=np.result_type(*(v for _, v in parts)))
        for rows, result in parts:
            values[rows] = result
        return values

    def _results(self, function: Callable[[Any], Any], X: Any) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield positions of rows whose columns have one type, and the result for them."""
        types = self.rows.types_of_rows(X)
        for number in range(int(types.max(initial=0)) + 1):
            members = np.flatnonzero(types == number)
            with self.source.errors():
                part = self.rows.transform(X if len(members) == len(X) else X[members])
            try:
                yield members, function(part)
            except DataError:
                raise
            except Exception as error:  # any: models are of any library
                problem = f"does not predict these rows ({first_line(error)})"
                raise self.source.error(problem + self.rows.way_out_of_gaps(X)) from error
