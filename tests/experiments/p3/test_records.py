"""What is read from records: numbers of the detector alone, and the distance that a mean score
stands for.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.p3.records import APHD, IN, by_seed, table_of
from tests.experiments.p3.made import record


def test_the_distance_is_the_threshold_less_the_mean_score() -> None:
    value = {
        ("", "mean_ood_score"): -0.05,
        ("far", "mean_ood_score"): 0.7,
        ("far", "auroc"): 1.0,
        ("", "error"): 0.1,
    }
    made = record(
        "cloud", "tood_given", 3, ["far"], lambda *of: value[of], {"dataset": {"n_dims": 5}}
    )
    frame = table_of([made], ["dataset.n_dims"])
    assert set(frame.columns) == {"dataset", "method", "seed", "n_dims", "set", "metric", "value"}
    assert (frame.value != 7.0).all(), "nothing of the parent"
    result = frame[frame.metric == APHD].set_index("set").value
    assert result[IN] == pytest.approx(0.95) and result["far"] == pytest.approx(0.2)
    rows = table_of([record("cloud", "knn", 0, ["far"], lambda *_: 0.5)])
    assert APHD not in set(rows.metric), "the score of single rows is no distance between them"


def test_seeds_that_lack_a_value_are_left_out() -> None:
    frame = pd.DataFrame(
        [
            ("a", 0, 2, 0.1),
            ("a", 0, 1, 0.2),
            ("a", 1, 1, 0.3),
            ("a", 1, 2, 0.4),
            ("a", 2, 1, 0.5),
            ("b", 0, 1, 9.0),
            ("b", 0, 2, 9.0),
        ],
        columns=["method", "seed", "d", "value"],
    ).assign(metric="m")
    at, values = by_seed(frame, "m", "d", method="a")
    assert at == [1, 2]
    np.testing.assert_array_equal(values, [[0.2, 0.1], [0.3, 0.4]])
