"""Scores that belong to sets of rows, and not to rows.

A parent and what was fitted after it, as one model: what it can be asked about rows, and which part
has the last word.

What parent and calibrated model say about sets of rows, and how ``predictions.parquet`` has it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.distributions import CorrectedIntervals, Distribution, as_distribution
from kdgraph.metrics import TopLabel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SetScores:
    """Out-of-distribution scores of sets that were drawn from some rows: an array to every metric,
    and nothing that can be cut by rows.

    Attributes
    ----------
    values : Float[units]. Their number may be that of the rows, and still none of them belongs to
    one.
    set_size : rows of a set at most.
    unit : whether a unit is a row in a set ("instance"), or a set.
    """

    values: np.ndarray
    set_size: int
    unit: Literal["instance", "set"]

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)


Outputs = dict[str, Any]
"""Answer → what a model says, one for each row: arrays, and what is cut like them. The
``ood_score`` of a model that scores sets is not.
"""

OUTPUT_METHODS = {
    "proba": "predict_proba",
    "top": "predict_confidence",
    "ood_score": "ood_score",
    "distribution": "predict_dist",
}
"""What a model can be asked, by the name that metrics know it by, and the method of a part that
answers.
"""
_CLASS_OUTPUT_METHODS = ("predict_proba", "predict_confidence")
"""Who changes one of these has the last word on both: no probabilities stand beside a confidence
that is not theirs.
"""


@dataclass(frozen=True)
class FittedModel:
    """What a run has fitted.

    Attributes
    ----------
    parent : the trained model.
    post_hoc : group of the config → what was fitted after the parent, in that order: calibrator, gate,
        detector, recalibrator; a part that the config does not have is not there.
    """

    parent: Any
    post_hoc: Mapping[str, Any] = field(default_factory=dict)

    def supports(self, output: str) -> bool:
        """Whether it says this, and not only what follows from something else that it says."""
        part = self._component_for(output)
        return part is not None and hasattr(part, OUTPUT_METHODS[output])

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts classes."""
        return self.supports("proba") or self.supports("top")

    @property
    def has_set_scores(self) -> bool:
        """Whether its out-of-distribution score is one of sets of rows, so that it has none of a
        row by itself.
        """
        return hasattr(self._component_for("ood_score"), "ood_score_of_sets")

    def score_sets(self, X: np.ndarray, rng: np.random.Generator) -> SetScores:
        """Out-of-distribution scores of sets that are drawn from X, of a model that
        :attr:`has_set_scores`.
        """
        part = self._component_for("ood_score")
        return SetScores(part.ood_score_of_sets(X, rng), part.set_size_, part.level)

    def predict_outputs(
        self, outputs: Collection[str], X: np.ndarray, groups: np.ndarray | None = None
    ) -> Outputs:
        """What it says of X: Float[n, d] or images Float[n, c, h, w]; ``groups``, [n], for who does
        something by group.

        Every model that classifies has a confidence, the largest probability unless a part has one
        of its own, and an out-of-distribution score, minus the confidence unless a part has one.
        What is said of a row depends on no other row.

        Raises
        ------
        TypeError : of what it cannot say; of ``ood_score``, where it :attr:`has_set_scores`.
        """
        said: Outputs = {}
        if {"proba", "ood_score"} <= set(outputs) and (both := self._joint_component()) is not None:
            said["proba"], said["ood_score"] = both.proba_and_ood_score(X)
        for answer in outputs:
            if answer not in said:
                said[answer] = self._predict_output(answer, X, said, groups)
        return {answer: said[answer] for answer in outputs}

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Float[n, K]: class probabilities of the part that has the last word on them."""
        return self.predict_outputs(["proba"], X)["proba"]

    @property
    def takes_groups(self) -> bool:
        """Whether a part wants to know which subgroup a row belongs to."""
        return any(getattr(part, "takes_groups", False) for part in self.post_hoc.values())

    def summary(self) -> dict[str, dict[str, Any]]:
        """What the parts after the parent say they have learnt, for the record."""
        return {
            name: part.describe()
            for name, part in self.post_hoc.items()
            if hasattr(part, "describe")
        }

    def _predict_output(
        self, output: str, X: np.ndarray, outputs: Outputs, groups: np.ndarray | None = None
    ) -> Any:
        part = self._component_for(output)
        more = (
            {"groups": groups}
            if groups is not None and getattr(part, "takes_groups", False)
            else {}
        )
        if output == "ood_score" and self.has_set_scores:
            raise TypeError(
                f"{type(part).__name__} scores sets of rows, and says nothing of a row by itself;"
                " ask score_sets"
            )
        if part is not None and hasattr(part, OUTPUT_METHODS[output]):
            if output == "distribution":
                return as_distribution(part.predict_dist(X, **more))
            if output != "top":
                return getattr(part, OUTPUT_METHODS[output])(X, **more)
            predicted = np.searchsorted(part.classes_, part.predict(X))
            return TopLabel(predicted, part.predict_confidence(X, **more), len(part.classes_))
        if output == "top" and self.supports("proba"):
            return TopLabel.of(outputs["proba"] if "proba" in outputs else self.predict_proba(X))
        if output == "ood_score" and self.is_classifier:
            top = (
                outputs["top"]
                if "top" in outputs
                else self._predict_output("top", X, outputs, groups)
            )
            return -top.confidence
        raise TypeError(
            f"{type(self.parent).__name__} and what was fitted after it say nothing of {output}"
        )

    def _component_for(self, output: str) -> Any:
        """The last part that has a say in it, or None."""
        methods = (
            _CLASS_OUTPUT_METHODS
            if OUTPUT_METHODS[output] in _CLASS_OUTPUT_METHODS
            else (OUTPUT_METHODS[output],)
        )
        return next(
            (
                part
                for part in self._components_last_first()
                if any(hasattr(part, method) for method in methods)
            ),
            None,
        )

    def _joint_component(self) -> Any:
        """The part that has both probabilities and score, at one visit to its data; or None."""
        part = self._component_for("proba")
        return (
            part
            if part is self._component_for("ood_score") and hasattr(part, "proba_and_ood_score")
            else None
        )

    def _components_last_first(self) -> Iterator[Any]:
        """The last one first."""
        yield from reversed(list(self.post_hoc.values()))
        yield self.parent


_QUANTILE_LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
"""Of a predictive distribution, in ``predictions.parquet``."""
_INTERVAL_LEVELS = (0.5, 0.95)
"""Of intervals that do not end at quantiles, there too."""


def _distribution_columns(distribution: Distribution) -> dict[str, np.ndarray]:
    found = {
        "mean": distribution.mean(),
        **dict(
            zip(
                (f"q{q:g}" for q in _QUANTILE_LEVELS),
                distribution.ppf(np.array(_QUANTILE_LEVELS)).T,
                strict=True,
            )
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ends that are infinite, as is seen here
        for level in _INTERVAL_LEVELS if isinstance(distribution, CorrectedIntervals) else ():
            found[f"low{level:g}"], found[f"high{level:g}"] = distribution.interval(level)
    return found


OUTPUT_COLUMNS: dict[str, Callable[[Any, np.ndarray], dict[str, np.ndarray]]] = {
    "proba": lambda proba, classes: {
        str(name): proba[:, k] for k, name in enumerate(classes.tolist())
    },
    "top": lambda top, classes: {
        "predicted": classes[top.predicted].astype(object),
        "confidence": top.confidence,
    },
    "ood_score": lambda score, classes: {"ood_score": score},
    "distribution": lambda given, classes: _distribution_columns(given),
}
"""Answer → the columns that show it."""
_RESERVED_COLUMNS = ("predicted", "confidence", "ood_score")
"""Columns of predictions that a class of the same name must not replace."""


@dataclass(frozen=True)
class Predictions:
    """What parent and calibrated model say about one set of rows.

    Attributes
    ----------
    on : "test", "calibration", "grid" or "ood".
    n : rows.
    parent, calibrated : answer (``proba``, ``top``, ``ood_score``, ``distribution``) → what the
        model says, one for each row; an ``ood_score`` may be :class:`SetScores`.
    ood : name of the set if it is out of distribution, and ``params`` which of its family, e.g.
    ``{"radius": 2.0}``.
    y : Int[n] (Float[n] in regression) or None; truth : Float[n, K] or None.
    id_values : values of the one parameter in ``params`` at which the family is in distribution.
    example : UInt8[c, h, w] or None, the first image of an out-of-distribution set; values outside
    [0, 1] are cut off.
    facts : where an out-of-distribution set comes from and what was done to its rows.
    groups : Int[n], the subgroup of each row, or None.
    source_rows : Int64[n], the number of each row in the source that it was read from, or None
        where it comes from none.
    """

    on: str
    n: int
    parent: Outputs
    calibrated: Outputs
    ood: str | None = None
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
        """Whether the set is where its family meets the training data."""
        return len(self.params) == 1 and next(iter(self.params.values())) in self.id_values

    @property
    def models(self) -> dict[str, Outputs]:
        """What each of the two says, by what a record calls it."""
        return {"parent": self.parent, "calibrated": self.calibrated}


@dataclass(frozen=True)
class Evaluation:
    """What was measured, and the predictions that it was computed from.

    Attributes
    ----------
    metrics : entries of the record.
    tables : name → rows; each says whose (``of``) and where (``on``, ``ood``, its params) it was
    measured.
    predictions : of the test rows, of the calibration rows and of the grid where asked for, of
        every set out of distribution.
    """

    metrics: list[dict[str, Any]]
    tables: dict[str, list[dict[str, Any]]]
    predictions: list[Predictions]

    @property
    def ood_sets(self) -> list[dict[str, Any]]:
        """Name, number of rows and facts of the out-of-distribution sets that come from
        elsewhere.
        """
        return [
            {"name": found.ood, "n": found.n, "source": dict(found.facts)}
            for found in self.predictions
            if found.facts
        ]


def predictions_frame(predictions: Sequence[Predictions], classes: np.ndarray) -> pd.DataFrame:
    """Return the table that is written as ``predictions.parquet``.

    Parameters
    ----------
    predictions : of any sets; those on the grid are left out.
    classes : [K] labels, none in regression.

    Returns
    -------
    DataFrame
        One row for each test, calibration and out-of-distribution row, set by set and in the order
        of the source. ``set`` is test, calibration, or the name of a set out of distribution,
        followed by that set's params. ``row`` is the number of the row in its source, from 0
        (Int64, null where it comes from none), ``y`` its label. The other columns are the
        predictions of the parent and of the calibrated model. Scores of sets have no column.
    """
    import pandas as pd

    frames = []
    for found in predictions:
        if found.on == "grid":
            continue
        rows = [None] * found.n if found.source_rows is None else found.source_rows
        columns: dict[str, Any] = {"set": _set_name(found), **found.params}
        columns |= {"row": pd.array(rows, dtype="Int64"), "y": _target_column(found, classes)}
        for of, said in found.models.items():
            of_rows = {
                answer: OUTPUT_COLUMNS[answer](given, classes)
                for answer, given in said.items()
                if not isinstance(given, SetScores)
            }
            if "proba" in of_rows:
                of_rows["proba"] = {
                    f"probability_{name}" if name in _RESERVED_COLUMNS else name: p
                    for name, p in of_rows["proba"].items()
                }
            columns |= {
                f"{of}_{name}": column
                for named in of_rows.values()
                for name, column in named.items()
            }
        frames.append(
            pd.DataFrame(columns, index=np.arange(found.n)).sort_values("row", kind="stable")
        )
    return pd.concat(frames, ignore_index=True)


def _set_name(predictions: Predictions) -> str:
    """Return how the file names a set; one out of distribution may be named like a file, such as
    test.csv.
    """
    if predictions.ood is None:
        return predictions.on
    return (
        f"ood {predictions.ood}" if predictions.ood in ("test", "calibration") else predictions.ood
    )


def _target_column(predictions: Predictions, classes: np.ndarray) -> Any:
    import pandas as pd

    if not len(classes):  # of a regression
        return np.full(predictions.n, np.nan) if predictions.y is None else predictions.y
    return pd.array(
        [None] * predictions.n if predictions.y is None else classes[predictions.y], dtype=object
    )
