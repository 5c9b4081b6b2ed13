"""A fitted model with the description of its rows, which predicts data frames.

:class:`~kdgraph.base.FittedModel` takes arrays: categories as positions, scaled numbers. A
:class:`DeployedModel` takes the table that they came from. Original to kdgraph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.base import OUTPUT_COLUMNS, FittedModel
from kdgraph.base.rows import is_dataframe
from kdgraph.data.frames.cells import label_array
from kdgraph.deployment.cells import Cells, Unseen
from kdgraph.deployment.schema import Schema
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.metrics import TopLabel
from kdgraph.wording import some

BLOCK = 4096
"""Rows that a model predicts in one call.

Blocks begin at multiples of it, however many rows are in memory: the last bits of a matrix product
may depend on its number of rows.
"""
BLOCK_BYTES = 16_000_000
"""A block has fewer rows if they are wide, such as images."""
_ALLOW_UNSEEN = 'dataclasses.replace(model, unseen="missing")'
_OPTIONAL_OUTPUTS = ("proba", "top_label", "distribution", "prediction_set", "ood_p_value")


def block_rows(schema: Schema) -> int:
    """Return the rows of a block; the same for all rows that the model predicts."""
    rows = BLOCK
    while rows > 1 and rows * 8 * math.prod(schema.shape) > BLOCK_BYTES:
        rows //= 2
    return rows


@dataclass(frozen=True)
class DeployedModel:
    """Fitted model that predicts tables with the columns, categories and gaps of its rows.

    ``kdg repair`` writes such a model, and :func:`kdgraph.load` reads it.

    Parameters
    ----------
    model : FittedModel
        Parent with the components that were fitted after it.
    schema : Schema
        Description of the rows that it takes.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model was not fitted with: an error, or a missing value.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels, sorted; none for a regressor.
    feature_names_in_ : ndarray of str
        Columns of the table that it takes, in any order and among others.

    Notes
    -----
    Original to kdgraph. Rows are a data frame, or an array of the numbers that the columns hold: an
    array has positions in ``schema.features[j].categories`` where a column holds categories.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph.deployment.schema import Feature
    >>> X, y = np.array([[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [9.0, 1.0]]), np.array([0, 0, 1, 1])
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> features = [Feature("age"), Feature("job", ["chef", "nurse"])]
    >>> schema = Schema("people", "rich", features, shape=[2], classes=["no", "yes"])
    >>> model = DeployedModel(FittedModel(forest), schema)
    >>> model.predict(pd.DataFrame({"job": ["nurse", "chef"], "age": [1.5, 8.5]})).tolist()
    ['no', 'yes']
    """

    model: FittedModel
    schema: Schema
    unseen: Unseen = "refuse"

    @property
    def classes_(self) -> np.ndarray:
        """Labels, sorted."""
        return label_array(self.schema.classes)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Columns of the table that it takes."""
        return np.array(Cells("X", self.schema, self.unseen).features, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of an array that it takes."""
        return int(np.prod(self.schema.shape))

    def supports(self, output: str) -> bool:
        """Return whether the model predicts an output, a key of ``kdgraph.base.OUTPUT_METHODS``."""
        return self.model.supports(output)

    def predict(self, X: Any) -> np.ndarray:
        """Return the label of each row, or the mean of its distribution.

        Parameters
        ----------
        X : DataFrame, Float[n, d] or images
            Rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        if not self.model.is_classifier:
            return self.predict_dist(X).mean()
        return self.classes_[self._output("top_label", X).predicted]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, Float64[n, K], in the order of ``classes_``.

        Raises
        ------
        TypeError
            If the model is a regressor, or predicts a confidence of the top label alone.
        DataError
            If a column is missing, or a cell has a value that the model does not take.
        """
        return self._output("proba", X)

    def predict_confidence(self, X: Any) -> np.ndarray:
        """Return the confidence in the predicted label of each row, Float64[n]."""
        return self._output("top_label", X).confidence

    def predict_set(self, X: Any) -> np.ndarray:
        """Return a prediction set for each row, Bool[n, K]; needs a conformal component."""
        return self._output("prediction_set", X)

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distributions of a regressor."""
        return self._output("distribution", X)

    def ood_score(self, X: Any) -> np.ndarray:
        """Return a score that is higher farther from the training data, Float64[n].

        That of a gate, a kernel density graph or a detector is above 0 out of distribution; the
        score of other classifiers is minus the confidence.
        """
        return self._output("ood_score", X)

    def p_value(self, X: Any) -> np.ndarray:
        """Return the conformal p-value of each row being in distribution; needs a detector."""
        return self._output("ood_p_value", X)

    def predict_frame(self, X: Any) -> pd.DataFrame:
        """Return everything that the model predicts, with a row for each row of X.

        Returns
        -------
        DataFrame
            The columns of ``kdg predict``, without the number of the row.
        """
        rows, groups = self._rows(X)
        return pd.DataFrame(self.output_columns(rows, groups))

    def output_columns(self, X: np.ndarray, groups: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return name → values of each predicted column, for rows as the inner model takes them.

        Parameters
        ----------
        X : Float[n, d] or Float[n, c, h, w]
            Scaled rows. They are predicted in blocks of :func:`block_rows`, so that memory does not
            grow with n times the size of the model.
        groups : Int[n] or None
            Group of each row.
        """
        step = block_rows(self.schema)
        blocks = [slice(first, first + step) for first in range(0, max(len(X), 1), step)]
        parts = [
            self._output_columns(X[rows], None if groups is None else groups[rows])
            for rows in blocks
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _output_columns(self, X: np.ndarray, groups: np.ndarray | None) -> dict[str, np.ndarray]:
        names = [name for name in _OPTIONAL_OUTPUTS if self.model.supports(name)]
        scores = ["ood_score"] if self.schema.scores_rows else []
        outputs = self.model.predict_outputs([*names, *scores], X, groups)
        classes, columns = self.classes_, {}
        if self.model.is_classifier:
            top_label = (
                outputs["top_label"]
                if "top_label" in outputs
                else TopLabel.from_proba(outputs["proba"])
            )
            columns["predicted"] = classes[top_label.predicted]
            columns["confidence"] = top_label.confidence
        if "distribution" in outputs:
            columns |= OUTPUT_COLUMNS["distribution"](outputs["distribution"], classes)
        for name in ("prediction_set", "ood_score", "ood_p_value"):
            columns |= OUTPUT_COLUMNS[name](outputs[name], classes) if name in outputs else {}
        if "proba" in outputs:
            columns |= {
                f"probability_{name}": column
                for name, column in OUTPUT_COLUMNS["proba"](outputs["proba"], classes).items()
            }
        return columns

    def _output(self, output: str, X: Any) -> Any:
        rows, groups = self._rows(X)
        return self.model.predict_outputs([output], rows, groups)[output]

    def _rows(self, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scaled rows and their groups."""
        cells = Cells("X", self.schema, self.unseen, _ALLOW_UNSEEN)
        if is_dataframe(X):
            names = [str(name) for name in X.columns]
            cells.unused_columns(names)
            rows, groups = cells.encode(X.set_axis(names, axis=1))
            return self.schema.scaled(rows), groups
        if self.schema.text or self.schema.groups:
            raise DataError(
                f"X must be a data frame with the columns {some(cells.columns)}, got"
                f" {type(X).__name__}"
            )
        rows = np.asarray(X, dtype=np.float32 if len(self.schema.shape) == 3 else np.float64)
        if list(rows.shape[1:]) != list(self.schema.shape):
            raise DataError(
                f"X must have rows of shape {self.schema.shape}, got {list(rows.shape[1:])}"
            )
        return self.schema.scaled(cells.with_probabilities(rows, 0)), None
