"""Comparison of a model's predictions with those in a file of its user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.errors import UsageError
from kdgraph.results.model_check.expected import Agreement, compare_with_file

PROBA = np.array([[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]])
PREDICTED = np.array([1, 0, 0])


@pytest.fixture
def compare(tmp_path):
    def call(frame: pd.DataFrame, classes=("no", "yes"), **write) -> Agreement:
        path = Path(tmp_path, "custom.csv")
        frame.to_csv(path, index=False, **write)
        return compare_with_file(path, PROBA, PREDICTED, classes)

    return call


@pytest.mark.parametrize(
    "columns",
    [
        {"no": PROBA[:, 0], "yes": PROBA[:, 1]},
        {"yes": PROBA[:, 1], "no": PROBA[:, 0]},
        {"p_yes": PROBA[:, 1], "p_no": PROBA[:, 0]},
        {"row": np.arange(3), "probability_no": PROBA[:, 0], "probability_yes": PROBA[:, 1]},
        {"Unnamed: 0": np.arange(3), "0": PROBA[:, 0], "1": PROBA[:, 1]},
        {"score": PROBA[:, 1]},
    ],
)
def test_probabilities_are_matched_by_name_or_order(compare, columns):
    assert compare(pd.DataFrame(columns)) == Agreement("probabilities", 3, 0, 0.0, 0)


def test_columns_in_order_are_not_those_of_other_classes(compare):
    """Columns named by the classes are read by name, so that swapped ones differ."""
    assert compare(pd.DataFrame({"yes": PROBA[:, 0], "no": PROBA[:, 1]})) == Agreement(
        "probabilities", 3, 2, 0.75, 2
    )


def test_one_row_that_differs_is_found(compare):
    other = PROBA.copy()
    other[1] += [2e-5, -2e-5]
    agreement = compare(pd.DataFrame(other, columns=["no", "yes"]))
    assert (agreement.n_different, agreement.row) == (1, 1)
    assert agreement.largest == pytest.approx(2e-5, rel=1e-6)
    other[1] = PROBA[1] + [5e-6, -5e-6]
    assert compare(pd.DataFrame(other, columns=["no", "yes"])).n_different == 0


def test_labels_are_compared_as_they_are_written(compare):
    labels = pd.DataFrame({"label": ["yes", "no", "no"]})
    assert compare(labels) == Agreement("labels", 3, 0, 0.0, 0)
    labels["label"] = ["yes", "yes", "no"]
    assert compare(labels) == Agreement("labels", 3, 1, 0.0, 1)
    numbers = pd.DataFrame({"row": [7, 8, 9], "predicted": [1, 0, 0]})
    assert compare(numbers, classes=(0, 1)) == Agreement("labels", 3, 0, 0.0, 0)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (pd.DataFrame({"no": [0.5, 0.5], "yes": [0.5, 0.5]}), "has 2 rows, and the data has 3"),
        (
            pd.DataFrame({"no": [0.25, np.nan, 0.875], "yes": [0.75, np.nan, 0.125]}),
            "has no prediction for row 1",
        ),
        (pd.DataFrame({"no": PROBA[:, 0], "maybe": ["a", "b", "c"]}), "has the columns no, maybe"),
    ],
)
def test_a_file_that_cannot_be_compared_is_refused(compare, frame, why):
    with pytest.raises(UsageError, match=why):
        compare(frame)
