"""Classes that no role has: what a model has never seen of the same table, and so what is near to its training distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from kdgraph.data.dataset import UNUSED, Dataset
from kdgraph.data.dividing import SplitBy
from kdgraph.errors import DataError
from kdgraph.parameters import Range

LeftOut = Annotated[int, Range(1)] | Sequence[Any] | None
"""Labels of the classes whose rows train, calibrate and test nothing, or how many of them chance takes; None: no class."""

FEWEST = 2
"""Classes that a classifier needs."""


def without_classes(table: Dataset, left_out: LeftOut, split: SplitBy, rng: np.random.Generator) -> tuple[Dataset, Dataset | None]:
    """The table without the classes that are left out, and their rows; what a source does not use (role UNUSED) is in neither.

    Chance takes from a generator of its own, so the rows that remain are divided as if the classes had been named.

    Raises
    ------
    DataError
        For a regression, for class scores, for a label that is none, and where fewer than two classes would remain.
    """
    if left_out is None or (not isinstance(left_out, int) and not len(left_out)):
        return table, None
    if table.task != "classification":
        raise DataError(f"{table.name} has a target to regress on, and dataset.left_out leaves out classes; give dataset.left_out=null")
    if table.given_scores:
        raise DataError(f"{table.name} has the scores of a model that has seen every class; give dataset.left_out=null")
    gone = _positions(table, left_out, rng)
    kept = np.setdiff1d(np.arange(len(table.classes)), gone)
    if len(kept) < FEWEST:
        what = f"{table.name} has {len(table.classes)} classes, and without {len(gone)} of them"
        raise DataError(f"{what} {len(kept)} would remain, but a classifier needs {FEWEST}; lower dataset.left_out")
    table = replace(table, facts={**table.facts, "left_out": table.classes[gone].tolist()})
    away = table.with_classes(gone)
    if split == "auto" and away.roles is not None:
        away = away.rows(np.flatnonzero(away.roles != UNUSED))
    return table.with_classes(kept), away


def _positions(table: Dataset, left_out: int | Sequence[Any], rng: np.random.Generator) -> np.ndarray:
    """Int[g], sorted: which of the classes are left out. A label may be given as text, as a command line has it."""
    k = len(table.classes)
    if isinstance(left_out, int):
        return np.sort(rng.spawn(1)[0].choice(k, min(left_out, k), replace=False))
    labels = table.classes.tolist()
    by_text = {str(label): position for position, label in enumerate(labels)}
    for label in left_out:
        if label not in labels and str(label) not in by_text:
            raise DataError(f"dataset.left_out: {table.name} has no class {label!r}; it has {', '.join(by_text)}")
    return np.unique([labels.index(label) if label in labels else by_text[str(label)] for label in left_out])
