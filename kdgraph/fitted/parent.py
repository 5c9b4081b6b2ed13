"""Parents that were fitted elsewhere.

:class:`FittedParent` is the estimator around the model of a file, which :func:`load_fitted` reads.
The model is fitted on nothing here: the rows that ``fit`` receives train a forest, where the model
has no partition that kdgraph reads, and measure the spread of a regressor's errors.
Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from pandas.api.types import is_numeric_dtype
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.rows import is_dataframe
from kdgraph.data.source_columns import SourceColumn
from kdgraph.distributions import Distribution, Normal
from kdgraph.distributions.concatenated import ConcatenatedDistribution
from kdgraph.errors import DataError
from kdgraph.fitted.labels import label_text, match_labels
from kdgraph.fitted.model_files import read_model_once
from kdgraph.fitted.outputs import probabilities_of
from kdgraph.fitted.rows import ModelRows
from kdgraph.fitted.source import (
    SEVERAL_OUTCOMES,
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
from kdgraph.parents import column_encoder, distribution_from_predictions
from kdgraph.wording import first_line, some

_PICKLE_NAME = "pickle:loads"
_N_TREES = 100
_MAX_LISTED_COLUMNS = 8
_MAX_LISTED_CLASSES = 8
_MIN_RELATIVE_SPREAD = 1e-12

_TRANSIENT = ("_loaded", "_wrapped")
"""Attributes of a parent that are made again from the content of its file."""


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

    learns_from_rows: ClassVar[bool] = False
    """False, since ``fit`` does not train the model."""
    transforms_rows: ClassVar[bool] = True
    """True, since categories and missing values are those of the model's own pipeline."""
    file_parameters: ClassVar = {"path": source_files, "object": source_files}
    """Parameter → function that returns the files it names."""

    def __init__(
        self,
        path: str,
        trust: bool = False,
        object: str | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        outputs: Literal["auto", "probabilities", "logits"] = "auto",
        output: str | None = None,
        classes: Sequence[Any] | None = None,
        unseen: Unseen = "refuse",
        missing_category: str | None = None,
        data_columns: Sequence[SourceColumn] = (),
        data_labels: Sequence[Any] = (),
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.path = path
        self.trust = trust
        self.object = object
        self.task = task
        self.outputs = outputs
        self.output = output
        self.classes = classes
        self.unseen: Unseen = unseen
        self.missing_category = missing_category
        self.data_columns = data_columns
        self.data_labels = data_labels
        self.random_state = random_state
        self.n_jobs = n_jobs

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
        self.content_ = np.frombuffer(self._file_content(), np.uint8)
        self.sha256_ = self._digest()
        model = self._model()
        self._check_columns(model)
        if model.columns.n_features is not None:
            self.n_features_in_ = int(model.columns.n_features)
        if model.columns.given_names is not None:
            self.feature_names_in_ = np.array(model.columns.given_names, dtype=object)
        if model.is_classifier:
            self._set_classes(model)
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
        model = self._model()
        if self.trust:
            warnings.warn(
                f"{self.path} is trusted: reading it can run any code that its writer put into it",
                stacklevel=2,
            )
        self.n_features_in_, self.input_shape_ = X.shape[1], tuple(X.shape[1:])
        self._check_rows(model, X)
        with self._source().errors():
            self._rows(model).check_categories(X)
        self.categorical_columns_ = self._categorical_columns(X)
        if len(X) and y is not None:
            self._fit_to_rows(model, X, np.asarray(y))
        return self

    def _fit_to_rows(self, model: ExternalModel, X: Any, y: np.ndarray) -> None:
        """Fit what the model lacks."""
        is_class = model.is_classifier
        if not is_class and model.distribution is None:
            errors = y - self.predict(X)
            scale = np.abs(y).max(initial=0.0) or 1.0
            self.sd_ = float(max(np.sqrt(np.mean(errors**2)), _MIN_RELATIVE_SPREAD * scale))
        if self.has_partition() or len(self.input_shape_) > 1:
            return
        self.forest_ = self.forest_for_new_labels(self.random_state).fit(X, y)
        self.forest_.set_params(forest__n_jobs=1)
        warnings.warn(
            f"the model in {self.path} ({model.kind}) has no partition that can be read: gate,"
            f" detectors and local calibration use a forest of {_N_TREES} trees of their own,"
            f" fitted on {len(X):,} rows",
            stacklevel=3,
        )

    def _categorical_columns(self, X: Any) -> list[bool]:
        """Return for each column of the rows whether it holds categories, or text."""
        if is_dataframe(X):
            return [not is_numeric_dtype(dtype) for dtype in X.dtypes]
        if self._is_table():
            return [column.holds_categories for column in self.data_columns]
        return [False] * X.shape[1]

    def forest_for_new_labels(self, random_state: Any) -> Pipeline:
        """Return a forest that is not fitted, behind an encoder of categories and missing values.

        Parameters
        ----------
        random_state : int, RandomState or None
            Seed of the forest.
        """
        is_class = self._model().is_classifier
        kind = ExtraTreesClassifier if is_class else ExtraTreesRegressor
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
        model = self._model()
        if self.own_partition() == "network":
            return self._network(model)
        if self.has_partition():
            inner = model.estimator
            steps = inner.steps if isinstance(inner, Pipeline) else [("model", inner)]
            return Pipeline([("rows", self._rows(model)), *steps])
        if "forest_" in vars(self):
            return self.forest_
        raise AttributeError(f"the model in {self.path} has no partition that can be read")

    def _network(self, model: ExternalModel) -> Any:
        """Return the torch module as an estimator that was fitted on positions of classes."""
        from kdgraph.parents.networks import TorchClassifier

        if "input_shape_" not in vars(self):
            raise AttributeError(f"the shape of the rows of {self.path} is unknown; call fit(X)")
        if "_wrapped" not in vars(self):
            n = len(self.classes_)
            # What reads logits takes column k for class k.
            if (self.class_order_ != np.arange(n)).any():
                raise self._source().error(
                    "has its classes in another order than the sorted one, in which logits and"
                    " layers are read; choose what needs no network, or sort the outputs"
                )
            network = TorchClassifier(model.network, max_epochs=0, device="cpu")
            self._wrapped = network.fit(np.zeros((n, *self.input_shape_)), np.arange(n))
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
        model = self._model()
        outputs = self._outputs(model, X)
        proba = probabilities_of(outputs, model.outputs, self._source())
        if proba.shape[1] != len(self.classes_):
            raise self._source().error(
                f"predicts {proba.shape[1]} classes, and there are {len(self.classes_)}:"
                f" {some([str(label) for label in self._known_labels()], _MAX_LISTED_CLASSES)}"
            )
        return proba[:, self.class_order_]

    def _predict_dist(self, X: Any) -> Distribution:
        check_is_fitted(self, "content_")
        model = self._model()
        if model.distribution is not None:
            return self._predicted_distribution(model, X)
        if "sd_" not in vars(self):
            raise self._source().error(
                "predicts numbers, and no rows have shown how far off they are; pass some:"
                " fit(X, y)"
            )
        mean = self._outputs(model, X).ravel()
        return Normal(mean, np.full(len(mean), self.sd_))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, or the number that a regressor predicts.

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows.
        """
        check_is_fitted(self, "content_")
        model = self._model()
        if not model.is_classifier:
            return self._outputs(model, X).ravel()
        if model.labels is not None:
            return self.classes_[self._own_positions(model, X)]
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
        predicted = self._own_positions(self._model(), X)
        return TopLabel(predicted, proba[np.arange(len(proba)), predicted], len(self.classes_))

    def _own_positions(self, model: ExternalModel, X: Any) -> np.ndarray:
        """Return the position in ``classes_`` of the label that the model predicts, Int[n]."""
        assert model.labels is not None
        labels = self._call(model, model.labels, X) if len(X) else np.empty(0, dtype=int)
        column = {label_text(label): k for k, label in enumerate(model.classes or ())}
        try:
            columns = [column[label_text(label)] for label in np.asarray(labels).ravel().tolist()]
        except KeyError as error:
            raise self._source().error(f"predicts {error}, which is none of its classes") from error
        return np.argsort(self.class_order_)[np.array(columns, dtype=np.int64)]

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

    def _file_content(self) -> bytes:
        return read_content(self._source())

    def _digest(self) -> str:
        return content_digest(self._source(), self.content_.tobytes())

    def _model(self) -> ExternalModel:
        """Return the model, of the content that was read or of the file."""
        if "content_" not in vars(self):
            return read_model_once(self._source(), self._file_content())
        if "_loaded" not in vars(self):
            self._loaded = read_model_once(self._source(), self.content_.tobytes())
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the model, which is read from the content again."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in _TRANSIENT}

    def _rows(self, model: ExternalModel) -> ModelRows:
        columns = model.columns
        if columns.takes_frames and not self._is_table():
            columns = replace(columns, takes_frames=False)
        return ModelRows(self.data_columns, columns, self.unseen, self.missing_category)

    def _is_table(self) -> bool:
        return len(self.data_columns) > 0

    def _check_columns(self, model: ExternalModel) -> None:
        """Raise DataError unless the columns of the data set are those of the model."""
        if not self._is_table():
            return
        columns, source = self._rows(model).of_model, self._source()
        names = [column.name for column in self.data_columns]
        with source.errors():
            columns.check_names(names)
            if columns.names is not None or columns.takes_frames:
                columns.check_types(self.data_columns)
        categories = [column.name for column in self.data_columns if column.holds_categories]
        if categories and columns.names is None and not columns.takes_frames:
            raise source.error(
                f"takes an array of numbers, and columns hold categories"
                f" ({some(categories, _MAX_LISTED_COLUMNS)}); fit the model on a data frame,"
                " in a pipeline that encodes them"
            )
        if columns.given_names is None and not columns.takes_frames and len(names) > 1:
            warnings.warn(
                f"the model in {self.path} has no names of columns, and takes those of the table in"
                f" their order: {some(names, _MAX_LISTED_COLUMNS)}",
                stacklevel=4,
            )

    def _check_rows(self, model: ExternalModel, X: Any) -> None:
        """Raise DataError unless the columns of X are those of the model."""
        columns, source = self._rows(model).of_model, self._source()
        if is_dataframe(X):
            with source.errors():
                columns.check_names([str(name) for name in X.columns])
        elif not self._is_table() and columns.n_features not in (None, X.shape[1]):
            raise source.error(
                f"was fitted on {columns.n_features} columns, and the rows have {X.shape[1]}"
            )

    def _known_labels(self) -> list[Any]:
        return list(self.data_labels) if len(self.data_labels) else self.classes_.tolist()

    def _set_classes(self, model: ExternalModel) -> None:
        """Set classes, and the column of the outputs that belongs to each of them."""
        given = model.classes if self.classes is None else tuple(self.classes)
        if not len(self.data_labels):
            if given is None:
                raise self._source().error("has no labels of its classes; give classes=[…]")
            labels = np.asarray(given)
            self.class_order_ = np.argsort(labels, kind="stable")
            self.classes_ = labels[self.class_order_]
            return
        self.classes_ = np.arange(len(self.data_labels))
        self.class_order_ = self._order_of_labels(given)

    def _order_of_labels(self, given: tuple[Any, ...] | None) -> np.ndarray:
        """Return the column of the outputs of each label of the data set, Int[K].

        Raises
        ------
        DataError
            If the model has other classes.
        """
        labels = list(self.data_labels)
        if given is None:
            return np.arange(len(labels))
        if (order := match_labels(given, labels)) is not None:
            return order
        shown = [
            some([str(label) for label in part], _MAX_LISTED_CLASSES) for part in (given, labels)
        ]
        # Boosted trees number their classes, and encoders of labels do so in sorted order.
        if self.classes is None and list(given) == list(range(len(labels))):
            warnings.warn(
                f"the model in {self.path} numbers its classes; number k is taken for the k-th of"
                f" {shown[1]} (another order: parent.classes=[…])",
                stacklevel=3,
            )
            return np.arange(len(labels))
        raise self._source().error(
            f"has the classes {shown[0]}, and the data has {shown[1]}; the rows must contain every"
            " class of the model and no other"
        )

    def _outputs(self, model: ExternalModel, X: Any) -> np.ndarray:
        """Return the outputs of the model for rows, Float64[n] or Float64[n, K]."""
        n = len(X)
        if not n:
            width = len(getattr(self, "classes_", ())) or 1
            return np.zeros((0, width))
        outputs = self._call(model, model.predict, X)
        if len(outputs) != n or outputs.ndim > 2 or outputs.dtype.kind not in "fiub":
            raise self._source().error(
                f"must predict numbers [{n}, K] for {n} rows, got {outputs.dtype} of shape"
                f" {outputs.shape}"
            )
        if not model.is_classifier and outputs.size != n:
            raise self._source().error(
                f"{SEVERAL_OUTCOMES} (it predicts {outputs.shape[1]} numbers)"
            )
        if not model.is_classifier and not np.isfinite(outputs).all():
            row = int(np.argmin(np.isfinite(outputs.ravel())))
            raise self._source().error(
                f"must predict finite numbers, and row {row} has {outputs.ravel()[row]}"
            )
        return outputs.astype(np.float64)

    def _call(self, model: ExternalModel, function: Callable[[Any], Any], X: Any) -> np.ndarray:
        """Return the result of a function of the model for rows, which are at least one."""
        parts = [(rows, np.asarray(result)) for rows, result in self._results(model, function, X)]
        if len(parts) == 1:
            return parts[0][1]
        first = parts[0][1]
        values = np.empty((len(X), *first.shape[1:]), dtype=np.result_type(*(v for _, v in parts)))
        for rows, result in parts:
            values[rows] = result
        return values

    def _results(
        self, model: ExternalModel, function: Callable[[Any], Any], X: Any
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield positions of rows whose columns have one type, and the result for them."""
        rows = self._rows(model)
        types = rows.types_of_rows(X)
        for number in range(int(types.max(initial=0)) + 1):
            members = np.flatnonzero(types == number)
            with self._source().errors():
                part = rows.transform(X if len(members) == len(X) else X[members])
            try:
                yield members, function(part)
            except DataError:
                raise
            except Exception as error:  # any: models are of any library
                problem = f"does not predict these rows ({first_line(error)})"
                raise self._source().error(problem + rows.way_out_of_gaps(X)) from error

    def _predicted_distribution(self, model: ExternalModel, X: Any) -> Distribution:
        """Return the distributions that a probabilistic regressor predicts."""
        assert model.distribution is not None
        parts = [
            (rows, distribution_from_predictions(result))
            for rows, result in self._results(model, model.distribution, X)
        ]
        if len(parts) == 1:
            return parts[0][1]
        return ConcatenatedDistribution.from_parts(parts, len(X))

    def __sklearn_tags__(self) -> Any:
        """Return tags: rows of any number of axes, with missing values and categories."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.three_d_array = True
        is_class = self._model().is_classifier
        tags.estimator_type = "classifier" if is_class else "regressor"
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
