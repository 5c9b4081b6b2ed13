"""What a run's model is made of, in words: its parent, what was fitted after it, and on which
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kdgraph.config import AFTER

PARTS = ("parent", *AFTER)
"""Keys of a record that name a component of the model, in the order in which they are fitted."""
AS_IN_PAPER = (
    "fitted on test rows, or by the rows out of distribution, where the method's paper does so"
    " (protocol=paper), so that its numbers are no estimate for new rows"
)
"""What has to be known of such a run wherever its numbers stand."""

Task = Literal["classification", "detection", "regression"]


def after(record: Mapping[str, Any]) -> list[str]:
    """Names of what was fitted after the parent; empty where the run is of the parent alone.

    >>> after({"parent": "random_forest", "calibrator": "isotonic", "gate": "density", "detector": "none", "recalibrator": "none"})
    ['isotonic', 'density']
    """
    return [str(record[part]) for part in AFTER if record[part] != "none"]


def chain(record: Mapping[str, Any]) -> str:
    """``random_forest → isotonic → density gate``: a gate has the name of what it looks at, so it
    is called one.
    """
    names = [
        (part, str(record[part])) for part in PARTS if part == "parent" or record[part] != "none"
    ]
    return " → ".join(f"{name} gate" if part == "gate" else name for part, name in names)


def is_as_in_paper(record: Mapping[str, Any]) -> bool:
    """Whether something may have been fitted on test rows, or by rows out of distribution."""
    return record["protocol"] == "paper"


def task_of(record: Mapping[str, Any]) -> Task:
    """What the run is about: a data set without classes is for regression, and a detector is what
    it measures.
    """
    if not record["dataset"]["classes"]:
        return "regression"
    return "classification" if record["detector"] == "none" else "detection"
