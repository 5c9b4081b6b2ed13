"""Parents that were fitted elsewhere.

:class:`FittedParent` is the estimator around the model of a file, which :func:`load_fitted` reads.
The model is fitted on nothing here: the rows that ``fit`` receives train a forest, where the model
has no partition that kdgraph reads, and measure the spread of a regressor's errors.
Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kdgraph.data.source_columns import SourceColumn
from kdgraph.distributions import Distribution, Normal
from kdgraph.fitted.labels import order_classes
from kdgraph.fitted.model_files import read_model_once
from kdgraph.fitted.predictor import ModelPredictor
from kdgraph.fitted.rows import ModelRows
from kdgraph.fitted.source import (
    ExternalModel,
    ModelSource,
    content_digest,
    names_function,
    read_content,
    source_files,
)
from kdgraph.geometry import PartitionKind
from kdgraph.metrics import TopLabel
from kdgraph.parameters import Unseen, check_parameters
from kdgraph.parents import column_encoder

_PICKLE_NAME = "pickle:loads"
_N_TREES = 100
_MIN_RELATIVE_SPREAD = 1e-12

_TRANSIENT = ("_loaded", "_wrapped")
"""Attributes of a parent that are made again from the content of its file."""


@dataclass(eq=False, repr=False)
class FittedParent(BaseEstimator):
    """Classifier or regressor that was fitted elsewhere, of a file or a Python function.

    Parameters
    ----------
    path : str
        A file of skops (.skops), joblib or pickle (.joblib, .pkl, .pickle), ONNX (.onnx), torch
        (.pt, .pth, .pt2), XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm) or ``kdg repair``
        (.kdg), or the import path ``package.module:function`` of a function that maps rows to class
        probabilities Float[n, K]. For a table it gets a data frame.
    trust : bool, default=False
        True reads files that can run code of their writer's choosing: pickles, whole modules,
        TorchScript and exported programs of torch, skops files of more than public estimators, and
        ONNX files of other operators than the standard's. Use it only for files of known and
        trusted origin.
    object : str or None, default=None
        For a file of torch weights: the import path ``package.module:factory`` of a function
        without arguments that returns the module.
    task : {"auto", "classification", "regression"}, default="auto"
        Task of a model whose file leaves it open. "auto" is classification for torch and functions.
    outputs : {"auto", "probabilities", "logits"}, default="auto"
        Kind of the outputs of a model whose file leaves it open: "auto" is logits for torch,
        unless the last layer is a softmax, and probabilities for functions.
    output : str or None, default=None
        Name of the output of an ONNX model that has several.
    classes : sequence or None, default=None
        Labels of the columns of the outputs. None takes those in the file, or else the labels in
        sorted order.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model does not know, where its library refuses it, as
        XGBoost and models of ``kdg repair`` do: an error, or a missing value.
    missing_category : str or None, default=None
        Text that stands for a missing category in a model of CatBoost, which takes none: the one
        that replaced missing cells when it was fitted, such as "nan".
    data_columns : sequence of SourceColumn, default=()
        Columns of the arrays that are predicted, see :class:`ModelRows`. A run sets it.
    data_labels : sequence, default=()
        Labels that the positions 0 to K - 1 stand for, where ``y`` contains positions. A run sets
        it, and ``classes_`` then contains positions.
    random_state : int, RandomState or None, default=None
        Seed of the forest.
    n_jobs : int or None, default=None
        Number of threads of the forest. It never changes a number.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels, or positions with ``data_labels``, sorted. Only of classifiers.
    n_features_in_ : int
        Number of columns, where it is known.
    feature_names_in_ : ndarray of str
        Columns of the data frame that the model takes, if it takes one.
    estimator_ : Pipeline or torch estimator
        What partitions are read from: the model behind its rows, or the forest.
    categorical_columns_ : list of bool
        Columns that hold categories or text, for a forest that is fitted here.
    forest_ : Pipeline
        Forest that was fitted here, where the model has no partition that kdgraph reads.
    sd_ : float
        Root mean square error on the rows of ``fit``, of a regressor that predicts numbers.
    sha256_ : str
        Digest of the file's content.

    Notes
    -----
    Original to kdgraph. Outputs that are logits pass through the softmax, a single one through the
    logistic function. The content of the file is part of the fitted estimator, so that it can be
    saved and read without the file; a pickle in it is read only by a reader that trusts it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import joblib
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = pd.DataFrame({"a": np.arange(8.0), "b": np.zeros(8)})
    >>> model = LogisticRegression().fit(X, ["low"] * 4 + ["high"] * 4)
    >>> with TemporaryDirectory() as folder:
    ...     _ = joblib.dump(model, f"{folder}/model.joblib")
    ...     parent = FittedParent(f"{folder}/model.joblib", trust=True).load()
    >>> parent.predict(X)[[0, 7]].tolist()
    ['low', 'high']
    """

    path: str
    trust: bool = False
    object: str | None = None
    task: Literal["auto", "classification", "regression"] = "auto"
    outputs: Literal["auto", "probabilities", "logits"] = "auto"
    output: str | None = None
    classes: Sequence[Any] | None = None
    unseen: Unseen = "refuse"
    missing_category: str | None = None
    data_columns: Sequence[SourceColumn] = ()
    data_labels: Sequence[Any] = ()
    random_state: Any = None
    n_jobs: int | None = None

    learns_from_rows: ClassVar[bool] = False
    """False, since ``fit`` does not train the model."""
    transforms_rows: ClassVar[bool] = True
    """True, since categories and missing values are those of the model's own pipeline."""
    file_parameters: ClassVar = {"path": source_files, "object": source_files}
    """Parameter → function that returns the files it names."""

    def imported_names(self) -> list[str]:
        """Return the names that reading the model imports or calls, besides its library."""
        names = [name for name in (self.object,) if name is not None]
        names += [self.path] if names_function(self.path) else []
        return [*names, *([_PICKLE_NAME] if self.trust else [])]

    def check_file(self) -> None:
        """Raise DataError unless the model can be read."""
        check_parameters(self, "parent.")
        self._model()

    def needs_errors(self) -> bool:
        """Return whether the model predicts numbers without a distribution."""
        model = self._model()
        return not model.is_classifier and model.distribution is None

    def load(self) -> FittedParent:
        """Read the file, without any rows.

        Returns
        -------
        self : FittedParent
            Estimator that predicts, without a forest and without the spread of a regressor.

        Raises
        ------
        DataError
            If the file cannot be read or is not trusted, or its classes are unknown.
        """
        check_parameters(self)
        for name in _TRANSIENT:
            self.__dict__.pop(name, None)
        source = self._source()
        content = read_content(source)
        self.content_ = np.frombuffer(content, np.uint8)
        self.sha256_ = content_digest(source, content)
        predictor = self._predictor()
        model, columns = predictor.model, predictor.model.columns
        with source.errors():
            predictor.rows.check_columns(self.path)
            if model.is_classifier:
                self.classes_, self.class_order_ = order_classes(
                    self.path, model.classes, self.classes, self.data_labels
                )
        if columns.n_features is not None:
            self.n_features_in_ = int(columns.n_features)
        if columns.given_names is not None:
            self.feature_names_in_ = np.array(columns.given_names, dtype=object)
        return self

    def fit(self, X: Any, y: Any = None) -> FittedParent:
        """Read the file; where the model needs it, fit a forest, or the spread of its errors.

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows that the model was not fitted on; n may be 0.
        y : array of shape (n,), default=None
            Labels or targets of the rows, for the forest and the spread.

        Returns
        -------
        self : FittedParent

        Raises
        ------
        DataError
            As :meth:`load`, or if the rows have other columns than the model.

        Warns
        -----
        UserWarning
            If a trusted file can run code, and if a forest is fitted.
        """
        self.load()
        if self.trust:
            warnings.warn(
                f"{self.path} is trusted: reading it can run any code that its writer put into it",
                stacklevel=2,
            )
        self.n_features_in_, self.input_shape_ = X.shape[1], tuple(X.shape[1:])
        predictor = self._predictor()
        with predictor.source.errors():
            predictor.rows.check_rows(X)
        self.categorical_columns_ = predictor.rows.holds_categories(X)
        if len(X) and y is not None:
            self._fit_to_rows(X, np.asarray(y))
        return self

    def _fit_to_rows(self, X: Any, y: np.ndarray) -> None:
        """Fit what the model lacks."""
        if self.needs_errors():
            errors = y - self.predict(X)
            scale = np.abs(y).max(initial=0.0) or 1.0
            self.sd_ = float(max(np.sqrt(np.mean(errors**2)), _MIN_RELATIVE_SPREAD * scale))
        if self.has_partition() or len(self.input_shape_) > 1:
            return
        self.forest_ = self.forest_for_new_labels(self.random_state).fit(X, y)
        self.forest_.set_params(forest__n_jobs=1)
        warnings.warn(
            f"the model in {self.path} ({self._model().kind}) has no partition that can be read:"
            f" gate, detectors and local calibration use a forest of {_N_TREES} trees of their own,"
            f" fitted on {len(X):,} rows",
            stacklevel=3,
        )

    def forest_for_new_labels(self, random_state: Any) -> Pipeline:
        """Return a forest that is not fitted, behind an encoder of categories and missing values.

        Parameters
        ----------
        random_state : int, RandomState or None
            Seed of the forest.
        """
        kind = ExtraTreesClassifier if self._model().is_classifier else ExtraTreesRegressor
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        forest = kind(_N_TREES, random_state=seed, n_jobs=self.n_jobs)
        encoder = column_encoder(self.categorical_columns_, categories="ordinal")
        return Pipeline([("columns", encoder), ("forest", forest)])

    def own_partition(self) -> PartitionKind | None:
        """Return the kind of partition that kdgraph reads from the model itself, or None."""
        return self._model().own_partition

    def has_partition(self) -> bool:
        """Return whether kdgraph reads a partition of the model itself."""
        return self.own_partition() is not None

    @property
    def estimator_(self) -> Any:
        """The model behind its rows, or its forest; AttributeError if there is neither."""
        if self.own_partition() == "network":
            return self._network()
        if self.has_partition():
            return self._predictor().pipeline()
        if "forest_" in vars(self):
            return self.forest_
        raise AttributeError(f"the model in {self.path} has no partition that can be read")

    def _network(self) -> Any:
        if "input_shape_" not in vars(self):
            raise AttributeError(f"the shape of the rows of {self.path} is unknown; call fit(X)")
        if "_wrapped" not in vars(self):
            self._wrapped = self._predictor().network(self.class_order_, self.input_shape_)
        return self._wrapped

    @property
    def predict_proba(self) -> Any:
        """Method that returns Float64[n, K], the probabilities of ``classes_``.

        It does not exist for regressors. Its argument X is Float[n, d], images or a DataFrame.
        """
        if not self._model().is_classifier:
            raise AttributeError(f"the model in {self.path} is a regressor")
        return self._predict_proba

    @property
    def predict_dist(self) -> Any:
        """Method that returns the predictive distributions of the rows X.

        It does not exist for classifiers. A regressor that predicts numbers has normal
        distributions around them, with the root mean square error on the rows of ``fit``.
        """
        if self._model().is_classifier:
            raise AttributeError(f"the model in {self.path} is a classifier")
        return self._predict_dist

    def _predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "content_")
        labels = self.data_labels if len(self.data_labels) else self.classes_.tolist()
        return self._predictor().proba(X, labels)[:, self.class_order_]

    def _predict_dist(self, X: Any) -> Distribution:
        check_is_fitted(self, "content_")
        predictor = self._predictor()
        if predictor.model.distribution is not None:
            return predictor.distribution(X)
        if "sd_" not in vars(self):
            raise predictor.source.error(
                "predicts numbers, and no rows have shown how far off they are; pass some:"
                " fit(X, y)"
            )
        mean = predictor.numbers(X)
        return Normal(mean, np.full(len(mean), self.sd_))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, or the number that a regressor predicts.

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows.
        """
        check_is_fitted(self, "content_")
        predictor = self._predictor()
        if not predictor.model.is_classifier:
            return predictor.numbers(X)
        if predictor.model.labels is not None:
            return self.classes_[predictor.label_positions(X, self.class_order_)]
        return self.classes_[self._predict_proba(X).argmax(axis=1)]

    @property
    def predict_top_label(self) -> Any:
        """Method that returns the model's own label of each row and its probability.

        It exists only for classifiers whose labels may be others than those of the largest
        probability, such as one with a threshold of its own.
        """
        if self._model().labels is None:
            raise AttributeError(f"the model in {self.path} predicts the most probable class")
        return self._predict_top_label

    @property
    def predict_confidence(self) -> Any:
        """Method that returns the probability of the model's own label, Float64[n].

        It exists where :attr:`predict_top_label` does.
        """
        predict = self.predict_top_label
        return lambda X: predict(X).confidence

    def _predict_top_label(self, X: Any) -> TopLabel:
        proba = self._predict_proba(X)
        predicted = self._predictor().label_positions(X, self.class_order_)
        return TopLabel(predicted, proba[np.arange(len(proba)), predicted], len(self.classes_))

    def describe(self) -> dict[str, Any]:
        """Return the format and the digest of the file for the record of a run."""
        return {"format": self._model().kind, "sha256": self.sha256_}

    def _source(self) -> ModelSource:
        task: Any = self.task
        outputs: Any = self.outputs
        return ModelSource(
            self.path,
            self.trust,
            self.object,
            task=None if task == "auto" else task,
            outputs=None if outputs == "auto" else outputs,
            output=self.output,
            unseen=self.unseen,
            key="parent." if len(self.data_columns) or len(self.data_labels) else "",
        )

    def _model(self) -> ExternalModel:
        """Return the model, of the content that was read or of the file."""
        source = self._source()
        if "content_" not in vars(self):
            return read_model_once(source, read_content(source))
        if "_loaded" not in vars(self):
            self._loaded = read_model_once(source, self.content_.tobytes())
        return self._loaded

    def _predictor(self) -> ModelPredictor:
        model = self._model()
        rows = ModelRows(self.data_columns, model.columns, self.unseen, self.missing_category)
        return ModelPredictor(model, self._source(), rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the model, which is read from the content again."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _TRANSIENT}

    def __sklearn_tags__(self) -> Any:
        """Return tags: rows of any number of axes, with missing values and categories."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.three_d_array = True
        tags.estimator_type = "classifier" if self._model().is_classifier else "regressor"
        return tags


def load_fitted(
    path: str,
    trust: bool = False,
    *,
    object: str | None = None,
    classes: Sequence[Any] | None = None,
    **parameters: Any,
) -> FittedParent:
    """Return the model of a file as an estimator that predicts.

    Parameters
    ----------
    path : str
        The file, or the import path of a function.
    trust : bool, default=False
        True reads files that can run code of their writer's choosing.
    object : str or None, default=None
        Import path of the factory of a torch module.
    classes : sequence or None, default=None
        Labels of the columns of the outputs. None takes those in the file; a file of torch has
        none, and ONNX files and functions may have none.
    **parameters
        Further parameters of :class:`FittedParent`.

    Returns
    -------
    FittedParent
        Give it to a component in ``FrozenEstimator``. A component that needs a partition takes
        ``load_fitted(path).fit(X, y)``, with a forest that is fitted on these rows where the model
        has no partition that kdgraph reads.

    Raises
    ------
    DataError
        As :meth:`FittedParent.load`.

    Examples
    --------
    >>> parent = load_fitted("kdgraph.fitted.parent:_uniform_proba", classes=["no", "yes"])
    >>> parent.predict_proba(np.zeros((1, 3)))
    array([[0.5, 0.5]])
    """
    parameters |= {"trust": trust, "object": object, "classes": classes}
    return FittedParent(path, **parameters).load()


def _uniform_proba(X: Any) -> np.ndarray:
    """Return probabilities of 1/2 for the example of :func:`load_fitted`."""
    return np.full((len(X), 2), 0.5)
