"""Fitted models, their outputs and their predictions.

A run fits a parent and, after it, up to five components: calibrator, gate, detector, recalibrator
and conformal prediction sets. :class:`FittedModel` combines them into one model with up to six
*outputs* (``proba``, ``top_label``, ``prediction_set``, ``ood_score``, ``ood_p_value``,
``distribution``). The last component that defines an output provides it. Metrics, figures and
prediction depend on outputs and not on components.

:class:`Predictions` holds the outputs for one set of rows, :class:`Evaluation` the metrics that are
computed from them, and :func:`predictions_frame` makes the table ``predictions.parquet``.
Original to kdgraph.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.distributions import CorrectedIntervals, Distribution, as_distribution
from kdgraph.metrics import TopLabel

if TYPE_CHECKING:
    import pandas as pd

Outputs = dict[str, Any]
"""Output name → values, one for each row.

The values are arrays or objects that can be indexed by rows like arrays. The ``ood_score`` of a
model that scores sets of rows is an exception: see :class:`SetScores`.
"""

OUTPUT_METHODS = {
    "proba": "predict_proba",
    "top_label": "predict_confidence",
    "prediction_set": "predict_set",
    "ood_score": "ood_score",
    "ood_p_value": "p_value",
    "distribution": "predict_dist",
}
"""Output name, as metrics use it → the method of a component that provides the output."""

# A component that replaces one of these outputs provides both. Otherwise a model could output
# probabilities of one component with a confidence that belongs to another one.
_CLASS_OUTPUT_METHODS = ("predict_proba", "predict_confidence")


@dataclass(frozen=True)
class SetScores:
    """Out-of-distribution scores of sets of rows, which do not belong to single rows.

    Metrics use the scores like an array. The scores cannot be indexed by rows, even where there are
    as many scores as rows.

    Attributes
    ----------
    values : Float[units]
        Scores, one for each unit.
    set_size : int
        Largest number of rows in a set.
    unit : {"instance", "set"}
        What one score belongs to: a row within its set ("instance"), or a set.

    Examples
    --------
    >>> scores = SetScores(np.array([0.2, 0.9]), set_size=50, unit="set")
    >>> len(scores), float(np.mean(scores))
    (2, 0.55)
    """

    values: np.ndarray
    set_size: int
    unit: Literal["instance", "set"]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)


@dataclass(frozen=True)
class FittedModel:
    """Parent and the components that a run fitted after it, as one model.

    Attributes
    ----------
    parent : estimator
        The trained parent.
    post_hoc : mapping of str to estimator, default={}
        Config group → the component of that group, in the order of fitting: calibrator, gate,
        detector, recalibrator, conformal. Groups without a component are left out.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1])
    >>> model = FittedModel(RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> model.supports("proba"), model.supports("distribution")
    (True, False)
    >>> model.predict_outputs(["proba", "ood_score"], X)["proba"].shape
    (4, 2)
    """

    parent: Any
    post_hoc: Mapping[str, Any] = field(default_factory=dict)

    def supports(self, output: str) -> bool:
        """Return whether a component defines this output, a key of :data:`OUTPUT_METHODS`.

        The result is False for outputs that are only derived from other outputs.
        """
        component = self._component_for(output)
        if output == "ood_p_value" and hasattr(component, "ood_score_of_sets"):
            return False  # its p-values are those of sets of rows
        return component is not None and hasattr(component, OUTPUT_METHODS[output])

    @property
    def is_classifier(self) -> bool:
        """True if the model predicts classes."""
        return self.supports("proba") or self.supports("top_label")

    @property
    def has_set_scores(self) -> bool:
        """True if the model gives OOD scores to sets of rows, and so none to a single row."""
        return hasattr(self._component_for("ood_score"), "ood_score_of_sets")

    @property
    def takes_groups(self) -> bool:
        """True if a component uses the subgroups of the rows."""
        return any(
            getattr(component, "takes_groups", False) for component in self.post_hoc.values()
        )

    def score_sets(self, X: np.ndarray, rng: np.random.Generator) -> SetScores:
        """Return out-of-distribution scores of sets that ``rng`` draws from X.

        X is Float[n, d] or Float[n, c, h, w], and the model :attr:`has_set_scores`.
        """
        component = self._component_for("ood_score")
        return SetScores(component.ood_score_of_sets(X, rng), component.set_size_, component.level)

    def predict_outputs(
        self, outputs: Collection[str], X: np.ndarray, groups: np.ndarray | None = None
    ) -> Outputs:
        """Return the outputs for X by name, in the order of ``outputs``.

        Every classifier has a confidence: the largest probability, unless a component has its own
        confidence. Every classifier also has an out-of-distribution score: minus the confidence,
        unless a component has its own score. The outputs for a row do not depend on other rows.

        Parameters
        ----------
        outputs : collection of str
            Keys of :data:`OUTPUT_METHODS`.
        X : Float[n, d] or Float[n, c, h, w]
            Rows or images.
        groups : ndarray of shape [n], default=None
            Subgroup of each row, for components that calibrate by group.

        Raises
        ------
        TypeError
            If the model does not provide an output, also for ``ood_score`` if it
            :attr:`has_set_scores`.
        """
        values: Outputs = {}
        # A density graph derives probabilities and score from one pass over its data. That pass is
        # the expensive part, so it is done once if both are requested.
        if {"proba", "ood_score"} <= set(outputs):
            component = self._component_for("proba")
            is_joint = component is self._component_for("ood_score")
            if is_joint and hasattr(component, "proba_and_ood_score"):
                values["proba"], values["ood_score"] = component.proba_and_ood_score(X)
        if {"ood_score", "ood_p_value"} <= set(outputs) and self.supports("ood_p_value"):
            detector = self._component_for("ood_p_value")
            values["ood_score"], values["ood_p_value"] = detector.ood_score_and_p_value(X)
        for output in outputs:
            if output not in values:
                values[output] = self._predict_output(output, X, values, groups)
        return {output: values[output] for output in outputs}

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities of the last component that defines them, Float[n, K]."""
        return self.predict_outputs(["proba"], X)["proba"]

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return the fitted values that the components report for the record, by config group."""
        return {
            group: component.describe()
            for group, component in self.post_hoc.items()
            if hasattr(component, "describe")
        }

    def _predict_output(
        self, output: str, X: np.ndarray, outputs: Outputs, groups: np.ndarray | None = None
    ) -> Any:
        """Return one output for X, derived from ``outputs``, the computed ones, if possible."""
        component = self._component_for(output)
        use_groups = groups is not None and getattr(component, "takes_groups", False)
        kwargs = {"groups": groups} if use_groups else {}
        if output == "ood_score" and self.has_set_scores:
            raise TypeError(
                f"{type(component).__name__} scores sets of rows and has no score for a single row;"
                " use score_sets"
            )
        if component is not None and hasattr(component, OUTPUT_METHODS[output]):
            if output == "prediction_set" and "proba" in outputs:
                return component.predict_set_from_proba(X, outputs["proba"], **kwargs)
            if output == "distribution":
                return as_distribution(component.predict_dist(X, **kwargs))
            if output != "top_label":
                return getattr(component, OUTPUT_METHODS[output])(X, **kwargs)
            if hasattr(component, "predict_top_label"):
                return component.predict_top_label(X, **kwargs)
            # Metrics need the positions of the predicted classes, and ``predict`` returns labels.
            predicted = np.searchsorted(component.classes_, component.predict(X))
            confidence = component.predict_confidence(X, **kwargs)
            return TopLabel(predicted, confidence, len(component.classes_))
        if output == "top_label" and self.supports("proba"):
            return TopLabel.from_proba(
                outputs["proba"] if "proba" in outputs else self.predict_proba(X)
            )
        if output == "ood_score" and self.is_classifier:
            top_label = (
                outputs["top_label"]
                if "top_label" in outputs
                else self._predict_output("top_label", X, outputs, groups)
            )
            return -top_label.confidence
        raise TypeError(
            f"{type(self.parent).__name__} and the components fitted after it do not provide"
            f" {output}"
        )

    def _component_for(self, output: str) -> Any:
        """Return the last component that defines the output, or None."""
        methods = (
            _CLASS_OUTPUT_METHODS
            if OUTPUT_METHODS[output] in _CLASS_OUTPUT_METHODS
            else (OUTPUT_METHODS[output],)
        )
        return next(
            (
                component
                for component in reversed([self.parent, *self.post_hoc.values()])
                if any(hasattr(component, method) for method in methods)
                # Such a component has the class probabilities of the one below it.
                and not (
                    methods is _CLASS_OUTPUT_METHODS and getattr(component, "repeats_proba", False)
                )
            ),
            None,
        )


@dataclass(frozen=True)
class Predictions:
    """Outputs of the parent and of the calibrated model for one set of rows.

    Attributes
    ----------
    role : {"test", "calibration", "grid", "ood"}
        Role of the rows.
    n_rows : int
        Number of rows.
    parent, calibrated : dict
        Output name (a key of :data:`OUTPUT_METHODS`) → values, one for each row. An ``ood_score``
        may be :class:`SetScores`.
    ood_name : str or None, default=None
        Name of the set if it is out of distribution.
    params : mapping of str to float, default={}
        Parameters that identify the set within its family, e.g. ``{"radius": 2.0}``.
    y : Int[n], Float[n] in regression, or None, default=None
        Targets.
    truth : Float[n, K] or None, default=None
        True class probabilities.
    id_values : tuple of float, default=()
        Values of the only parameter in ``params`` at which the family is in distribution.
    example : UInt8[c, h, w] or None, default=None
        First image of an out-of-distribution set, with values clipped to [0, 1].
    facts : mapping, default={}
        Source of an out-of-distribution set and the changes that were made to its rows.
    groups : Int[n] or None, default=None
        Subgroup of each row.
    source_rows : Int64[n] or None, default=None
        Number of each row in the source that it was read from; None for generated rows.

    Examples
    --------
    >>> outputs = {"proba": np.array([[0.2, 0.8], [0.6, 0.4]])}
    >>> shell = Predictions(
    ...     "ood", 2, outputs, outputs, ood_name="shells", params={"radius": 5.0}, id_values=(1.0,)
    ... )
    >>> shell.in_distribution, sorted(shell.models)
    (False, ['calibrated', 'parent'])
    """

    role: str
    n_rows: int
    parent: Outputs
    calibrated: Outputs
    ood_name: str | None = None
    params: Mapping[str, float] = field(default_factory=dict)
    y: np.ndarray | None = None
    truth: np.ndarray | None = None
    id_values: tuple[float, ...] = ()
    example: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    groups: np.ndarray | None = None
    source_rows: np.ndarray | None = None

    @property
    def in_distribution(self) -> bool:
        """True if the set is the member of its family that is in distribution."""
        return len(self.params) == 1 and next(iter(self.params.values())) in self.id_values

    @property
    def models(self) -> dict[str, Outputs]:
        """Outputs of both models by the name that a record uses for each."""
        return {"parent": self.parent, "calibrated": self.calibrated}


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a run, and the predictions that they were computed from.

    Attributes
    ----------
    metrics : list of dict
        Entries of the record.
    tables : dict
        Table name → rows. Each row contains the model (``of``) and the set (``on``, ``ood`` and its
        parameters) that it was computed for.
    predictions : list of Predictions
        Predictions for the test rows, for the calibration rows and the grid if requested, and for
        every out-of-distribution set.

    Examples
    --------
    >>> outputs = {"proba": np.array([[0.2, 0.8]])}
    >>> facts = {"file": "noise.csv"}
    >>> noise = Predictions("ood", 1, outputs, outputs, ood_name="noise", facts=facts)
    >>> Evaluation(metrics=[], tables={}, predictions=[noise]).ood_sets
    [{'name': 'noise', 'n': 1, 'source': {'file': 'noise.csv'}}]
    """

    metrics: list[dict[str, Any]]
    tables: dict[str, list[dict[str, Any]]]
    predictions: list[Predictions]

    @property
    def ood_sets(self) -> list[dict[str, Any]]:
        """Name, number of rows and source of the OOD sets that are not generated."""
        return [
            {"name": prediction.ood_name, "n": prediction.n_rows, "source": dict(prediction.facts)}
            for prediction in self.predictions
            if prediction.facts
        ]


# Levels that summarise a predictive distribution in ``predictions.parquet``. The second tuple is
# for distributions whose intervals do not end at their quantiles.
_QUANTILE_LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
_INTERVAL_LEVELS = (0.5, 0.95)


def _distribution_columns(distribution: Distribution) -> dict[str, np.ndarray]:
    quantiles = distribution.ppf(np.array(_QUANTILE_LEVELS)).T
    columns = {
        "mean": distribution.mean(),
        **dict(zip((f"q{q:g}" for q in _QUANTILE_LEVELS), quantiles, strict=True)),
    }
    interval_levels = _INTERVAL_LEVELS if isinstance(distribution, CorrectedIntervals) else ()
    with warnings.catch_warnings():
        # Infinite ends give a warning, which is not needed: they are visible in the table.
        warnings.simplefilter("ignore")
        for level in interval_levels:
            columns[f"low{level:g}"], columns[f"high{level:g}"] = distribution.interval(level)
    return columns


OUTPUT_COLUMNS: dict[str, Callable[[Any, np.ndarray], dict[str, np.ndarray]]] = {
    "proba": lambda proba, classes: {
        str(name): proba[:, k] for k, name in enumerate(classes.tolist())
    },
    "top_label": lambda top_label, classes: {
        "predicted": classes[top_label.predicted].astype(object),
        "confidence": top_label.confidence,
    },
    "prediction_set": lambda sets, classes: {
        "set_size": sets.sum(axis=1),
        **{f"in_set_{name}": sets[:, k] for k, name in enumerate(classes.tolist())},
    },
    "ood_score": lambda score, classes: {"ood_score": score},
    "ood_p_value": lambda p_value, classes: {"ood_p_value": p_value},
    "distribution": lambda distribution, classes: _distribution_columns(distribution),
}
"""Output name → function of its values and the class labels that returns its columns."""

# Columns of predictions that a class of the same name must not replace.
_RESERVED_COLUMNS = ("predicted", "confidence", "ood_score", "ood_p_value", "set_size")


def predictions_frame(predictions: Sequence[Predictions], classes: np.ndarray) -> pd.DataFrame:
    """Return the table that is written as ``predictions.parquet``.

    Parameters
    ----------
    predictions : sequence of Predictions
        Predictions for any sets. Those on the grid are left out.
    classes : ndarray of shape [K]
        Class labels, empty in regression.

    Returns
    -------
    DataFrame
        One row for each test, calibration and out-of-distribution row, set by set and in the order
        of the source. ``set`` is test, calibration, or the name of a set out of distribution,
        followed by that set's params. ``row`` is the number of the row in its source, from 0
        (Int64, null for generated rows), ``y`` its label. The other columns are the predictions of
        the parent and of the calibrated model. Scores of sets have no column.

    Examples
    --------
    >>> outputs = {"proba": np.array([[0.2, 0.8], [0.6, 0.4]])}
    >>> test = Predictions("test", 2, outputs, outputs, y=np.array([1, 0]))
    >>> frame = predictions_frame([test], np.array(["no", "yes"]))
    >>> frame[["set", "y", "parent_yes"]].to_dict("list")
    {'set': ['test', 'test'], 'y': ['yes', 'no'], 'parent_yes': [0.8, 0.4]}
    """
    import pandas as pd

    frames = []
    for prediction in predictions:
        if prediction.role == "grid":
            continue
        n = prediction.n_rows
        row_numbers = [None] * n if prediction.source_rows is None else prediction.source_rows
        columns: dict[str, Any] = {"set": _set_name(prediction), **prediction.params}
        columns |= {
            "row": pd.array(row_numbers, dtype="Int64"),
            "y": _target_column(prediction, classes),
        }
        for model, outputs in prediction.models.items():
            columns |= {
                f"{model}_{name}": column
                for name, column in _output_columns(outputs, classes).items()
            }
        frame = pd.DataFrame(columns, index=np.arange(n))
        frames.append(frame.sort_values("row", kind="stable"))
    return pd.concat(frames, ignore_index=True)


FRAME_ROWS = 500_000
"""Rows of predictions that are written as one table; more are written in pieces."""


def write_predictions(
    path: str | os.PathLike[str], predictions: Sequence[Predictions], classes: np.ndarray
) -> None:
    """Write the table of :func:`predictions_frame` to a parquet file.

    A large set is written in pieces, so that its table is never in memory as a whole. Arguments
    behind the file are those of :func:`predictions_frame`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from kdgraph.base import Predictions, write_predictions
    >>> outputs = {"proba": np.array([[0.25, 0.75], [1.0, 0.0]])}
    >>> test = Predictions("test", 2, parent=outputs, calibrated=outputs, y=np.array([1, 0]))
    >>> with TemporaryDirectory() as folder:
    ...     write_predictions(f"{folder}/predictions.parquet", [test], np.array(["no", "yes"]))
    ...     table = pd.read_parquet(f"{folder}/predictions.parquet")
    >>> list(table), len(table)
    (['set', 'row', 'y', 'parent_no', 'parent_yes', 'calibrated_no', 'calibrated_yes'], 2)
    """
    sets = [prediction for prediction in predictions if prediction.role != "grid"]
    if sum(prediction.n_rows for prediction in sets) <= FRAME_ROWS:
        predictions_frame(sets, classes).to_parquet(path, index=False, engine="pyarrow")
        return
    import pyarrow as pa
    from pyarrow import parquet

    # A row of each set shows the columns of all and their types.
    example = predictions_frame(
        [_rows_of(one, np.arange(min(one.n_rows, 1))) for one in sets], classes
    )
    schema = pa.Schema.from_pandas(example, preserve_index=False)
    with parquet.ParquetWriter(path, schema) as writer:
        for one in sets:
            n = one.n_rows
            rows = (
                np.arange(n)
                if one.source_rows is None
                else np.argsort(one.source_rows, kind="stable")
            )
            for start in range(0, n, FRAME_ROWS):
                piece = predictions_frame(
                    [_rows_of(one, rows[start : start + FRAME_ROWS])], classes
                )
                # Null where the set has no such column; the conversion to the schema checks types.
                piece = piece.reindex(columns=example.columns)
                writer.write_table(pa.Table.from_pandas(piece, schema, preserve_index=False))


def _rows_of(predictions: Predictions, rows: np.ndarray) -> Predictions:
    """Return the predictions of some rows, without scores of sets."""

    def select(outputs: Outputs) -> Outputs:
        return {
            name: values[rows]
            for name, values in outputs.items()
            if not isinstance(values, SetScores)
        }

    return replace(
        predictions,
        n_rows=len(rows),
        parent=select(predictions.parent),
        calibrated=select(predictions.calibrated),
        y=None if predictions.y is None else predictions.y[rows],
        source_rows=None if predictions.source_rows is None else predictions.source_rows[rows],
    )


def _output_columns(outputs: Outputs, classes: np.ndarray) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    for output, values in outputs.items():
        if isinstance(values, SetScores):
            continue
        output_columns = OUTPUT_COLUMNS[output](values, classes)
        if output == "proba":
            output_columns = {
                f"probability_{name}" if name in _RESERVED_COLUMNS else name: probability
                for name, probability in output_columns.items()
            }
        columns |= output_columns
    return columns


def _set_name(predictions: Predictions) -> str:
    """Return the name of the set in the table.

    An OOD set that is read from a file such as ``test.csv`` may be called "test" or "calibration",
    so these names get a prefix.
    """
    if predictions.ood_name is None:
        return predictions.role
    return (
        f"ood {predictions.ood_name}"
        if predictions.ood_name in ("test", "calibration")
        else predictions.ood_name
    )


def _target_column(predictions: Predictions, classes: np.ndarray) -> Any:
    """Return the labels, or in regression the targets, of all rows; null where there is none."""
    import pandas as pd

    is_regression = not len(classes)
    if is_regression:
        return np.full(predictions.n_rows, np.nan) if predictions.y is None else predictions.y
    return pd.array(
        [None] * predictions.n_rows if predictions.y is None else classes[predictions.y],
        dtype=object,
    )
