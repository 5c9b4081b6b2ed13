"""A fitted model with the description of its rows, which predicts data frames.

:class:`~kdgraph.base.FittedModel` takes arrays: categories as positions, scaled numbers. A
:class:`DeployedModel` takes the table that they came from. Original to kdgraph.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.base import OUTPUT_COLUMNS, FittedModel
from kdgraph.base.validation import is_dataframe
from kdgraph.data.frames.cells import label_array
from kdgraph.deployment.cells import Cells
from kdgraph.deployment.schema import Schema, read_schema
from kdgraph.distributions import Distribution
from kdgraph.errors import DataError
from kdgraph.metrics import TopLabel
from kdgraph.parameters import Unseen
from kdgraph.wording import some

BLOCK = 4096
"""Rows that a model predicts in one call.

Blocks begin at multiples of it, however many rows are in memory: the last bits of a matrix product
may depend on its number of rows.
"""
BLOCK_BYTES = 16_000_000
"""A block has fewer rows if they are wide, such as images."""
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

    Rows are a data frame, or an array of the numbers that the columns hold: an array has positions
    in ``schema.features[j].categories`` where a column holds categories.

    Parameters
    ----------
    model : FittedModel
        Parent with the components that were fitted after it.
    schema : Schema
        Description of the rows that it takes.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model was not fitted with: an error, or a missing value.
    allow_unseen : str, default='dataclasses.replace(model, unseen="missing")'
        What makes it a missing value, for messages.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels, sorted; none for a regressor.
    feature_names_in_ : ndarray of str
        Columns of the table that it takes, in any order and among others.

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
    allow_unseen: str = 'dataclasses.replace(model, unseen="missing")'

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
            The columns of ``kdg predict``, without the number of the row, and with the index of X
            if that is a data frame. A frame without rows gives :attr:`meta`.
        """
        if is_dataframe(X) and not len(X):
            return self.meta.set_axis(X.index[:0], axis=0)
        rows, groups = self._rows(X)
        index = getattr(X, "index", None) if is_dataframe(X) else None
        return pd.DataFrame(self.output_columns(rows, groups), index=index)

    @property
    def meta(self) -> pd.DataFrame:
        """Frame without rows that has the columns and types of :meth:`predict_frame`.

        Dask requires it as ``meta``.
        """
        row = np.zeros(
            (1, *self.schema.shape), np.float32 if len(self.schema.shape) == 3 else float
        )
        if self.schema.scores is not None:
            row[:, : len(self.schema.classes)] = 1 / len(self.schema.classes)
        groups = np.zeros(1, dtype=np.int64) if self.schema.groups else None
        return pd.DataFrame(self.output_columns(self.schema.scaled(row), groups)).iloc[:0]

    def output_columns(self, X: np.ndarray, groups: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return name → values of each predicted column, for rows as the inner model takes them.

        Scaled rows, Float[n, d] or Float[n, c, h, w], with groups Int[n], are predicted in blocks
        of :func:`block_rows`, so that memory does not grow with n times the size of the model.
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
        cells = Cells("X", self.schema, self.unseen, self.allow_unseen)
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


class PartitionPredictor:
    """Function of a partition of a table that predicts it with the model of a file.

    It is pickled as the name of the file. Each process loads the model on its first partition, so
    that a scheduler such as Dask or Ray sends no model with its tasks.

    Its predictions are those of :meth:`DeployedModel.predict_frame`.

    Parameters
    ----------
    path : str or path
        File of ``kdg repair``, or ``model/calibrated.kdg`` of a run with ``schema.json`` beside it.
        Every process must find it under this name.
    trust : bool or sequence of str, default=False
        As in :func:`kdgraph.load`.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model was not fitted with.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> import kdgraph
    >>> from kdgraph.deployment.schema import Feature
    >>> tree = DecisionTreeClassifier(random_state=0).fit([[1.0], [2.0], [8.0]], [0, 0, 1])
    >>> schema = Schema("people", "rich", [Feature("age")], shape=[1], classes=["no", "yes"])
    >>> table = pd.DataFrame({"age": [1.5, 8.5, 2.5]}, index=["a", "b", "c"])
    >>> with TemporaryDirectory() as folder:
    ...     kdgraph.save(DeployedModel(FittedModel(tree), schema), f"{folder}/repaired.kdg")
    ...     predictor = PartitionPredictor(f"{folder}/repaired.kdg")
    ...     pd.concat([predictor(table[:2]), predictor(table[2:])])["predicted"].to_dict()
    {'a': 'no', 'b': 'yes', 'c': 'no'}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        trust: bool | Sequence[str] = False,
        unseen: Unseen = "refuse",
    ) -> None:
        # A process on a cluster may have another working directory.
        self.path = os.path.abspath(path)
        self.trust = trust if isinstance(trust, bool) else tuple(trust)
        self.unseen: Unseen = unseen

    @property
    def model(self) -> DeployedModel:
        """The model, which is loaded once in each process, and again when its file changes.

        Raises
        ------
        DataError
            If the file holds something else, or a model without the schema of its rows.
        FileNotFoundError, kdgraph.persistence.LoadError
            As :func:`kdgraph.load`.
        """
        with _loading:  # threads of one process wait for the first
            model = _load(self.path, self.trust, os.stat(self.path).st_mtime_ns)
        return model if model.unseen == self.unseen else replace(model, unseen=self.unseen)

    @property
    def meta(self) -> pd.DataFrame:
        """Frame without rows that has the columns and types of the predictions."""
        return self.model.meta

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the predictions of a partition, with its index.

        Parameters
        ----------
        frame : DataFrame
            Rows with the columns of the model, in any order and among others; it may be empty.
        """
        return self.model.predict_frame(frame)


_loading = threading.Lock()


@lru_cache(maxsize=4)
def _load(path: str, trust: bool | tuple[str, ...], version: int) -> DeployedModel:
    from kdgraph.persistence import load

    model = load(path, trust)
    schema = Path(path).with_name("schema.json")
    if isinstance(model, FittedModel) and schema.is_file():
        return DeployedModel(model, read_schema(schema))
    if not isinstance(model, DeployedModel):
        raise DataError(
            f"{path} holds a {type(model).__name__} without the columns of its rows; give a file of"
            " 'kdg repair', or model/calibrated.kdg of a run beside its schema.json"
        )
    return model
