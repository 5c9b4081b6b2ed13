"""What parent and calibrated model say about sets of rows, and how ``predictions.parquet`` has it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.answers.model import Said
from kdgraph.answers.sets import SetScores
from kdgraph.distributions import CorrectedIntervals, Distribution

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
"""Of a predictive distribution, in ``predictions.parquet``."""
LEVELS = (0.5, 0.95)
"""Of intervals that do not end at quantiles, there too."""


def _of_distribution(given: Distribution) -> dict[str, np.ndarray]:
    found = {"mean": given.mean(), **dict(zip((f"q{q:g}" for q in QUANTILES), given.ppf(np.array(QUANTILES)).T, strict=True))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ends that are infinite, as is seen here
        for level in LEVELS if isinstance(given, CorrectedIntervals) else ():
            found[f"low{level:g}"], found[f"high{level:g}"] = given.interval(level)
    return found


COLUMNS: dict[str, Callable[[Any, np.ndarray], dict[str, np.ndarray]]] = {
    "proba": lambda proba, classes: {str(name): proba[:, k] for k, name in enumerate(classes.tolist())},
    "top": lambda top, classes: {"predicted": classes[top.predicted].astype(object), "confidence": top.confidence},
    "ood_score": lambda score, classes: {"ood_score": score},
    "distribution": lambda given, classes: _of_distribution(given),
}
"""Answer → the columns that show it."""
_NO_CLASS = ("predicted", "confidence", "ood_score")
"""Columns of predictions that a class of the same name must not replace."""


@dataclass(frozen=True)
class Predictions:
    """What parent and calibrated model say about one set of rows.

    Attributes
    ----------
    on : "test", "calibration", "grid" or "ood".
    n : rows.
    parent, calibrated : answer (``proba``, ``top``, ``ood_score``, ``distribution``) → what the model says, one for each row; an
        ``ood_score`` may be :class:`SetScores`.
    ood : name of the set if it is out of distribution, and ``params`` which of its family, e.g. ``{"radius": 2.0}``.
    y : Int[n] (Float[n] in regression) or None; truth : Float[n, K] or None.
    id_values : values of the one parameter in ``params`` at which the family is in distribution.
    example : UInt8[c, h, w] or None, the first image of an out-of-distribution set; values outside [0, 1] are cut off.
    facts : where an out-of-distribution set comes from and what was done to its rows.
    groups : Int[n], the subgroup of each row, or None.
    source_rows : Int64[n], the number of each row in the source that it was read from, or None where it
        comes from none.
    """

    on: str
    n: int
    parent: Said
    calibrated: Said
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
    def models(self) -> dict[str, Said]:
        """What each of the two says, by what a record calls it."""
        return {"parent": self.parent, "calibrated": self.calibrated}


@dataclass(frozen=True)
class Evaluation:
    """What was measured, and the predictions that it was computed from.

    Attributes
    ----------
    metrics : entries of the record.
    tables : name → rows; each says whose (``of``) and where (``on``, ``ood``, its params) it was measured.
    predictions : of the test rows, of the calibration rows and of the grid where asked for, of every set out of distribution.
    """

    metrics: list[dict[str, Any]]
    tables: dict[str, list[dict[str, Any]]]
    predictions: list[Predictions]

    @property
    def ood_sets(self) -> list[dict[str, Any]]:
        """Name, number of rows and facts of the out-of-distribution sets that come from elsewhere."""
        return [{"name": found.ood, "n": found.n, "source": dict(found.facts)} for found in self.predictions if found.facts]


def frame_of(predictions: Sequence[Predictions], classes: np.ndarray) -> pd.DataFrame:
    """Return the table that is written as ``predictions.parquet``.

    Parameters
    ----------
    predictions : of any sets; those on the grid are left out.
    classes : [K] labels, none in regression.

    Returns
    -------
    DataFrame
        One row for each test, calibration and out-of-distribution row, set by set and in the order of the
        source. ``set`` is test, calibration, or the name of a set out of distribution, followed by that
        set's params. ``row`` is the number of the row in its source, from 0 (Int64, null where it comes from
        none), ``y`` its label. The other columns are the predictions of the parent and of the calibrated
        model. Scores of sets have no column.
    """
    import pandas as pd

    frames = []
    for found in predictions:
        if found.on == "grid":
            continue
        rows = [None] * found.n if found.source_rows is None else found.source_rows
        columns: dict[str, Any] = {"set": _set_name(found), **found.params}
        columns |= {"row": pd.array(rows, dtype="Int64"), "y": _labels(found, classes)}
        for of, said in found.models.items():
            of_rows = {answer: COLUMNS[answer](given, classes) for answer, given in said.items() if not isinstance(given, SetScores)}
            if "proba" in of_rows:
                of_rows["proba"] = {f"probability_{name}" if name in _NO_CLASS else name: p for name, p in of_rows["proba"].items()}
            columns |= {f"{of}_{name}": column for named in of_rows.values() for name, column in named.items()}
        frames.append(pd.DataFrame(columns, index=np.arange(found.n)).sort_values("row", kind="stable"))
    return pd.concat(frames, ignore_index=True)


def _set_name(found: Predictions) -> str:
    """Return how the file names a set; one out of distribution may be named like a file, such as test.csv."""
    if found.ood is None:
        return found.on
    return f"ood {found.ood}" if found.ood in ("test", "calibration") else found.ood


def _labels(found: Predictions, classes: np.ndarray) -> Any:
    import pandas as pd

    if not len(classes):  # of a regression
        return np.full(found.n, np.nan) if found.y is None else found.y
    return pd.array([None] * found.n if found.y is None else classes[found.y], dtype=object)
