"""Outputs of models of finished runs, read again or computed again."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from experiments.common.models import evaluation_of
from kdgraph.config import plan
from kdgraph.runner.run import run


@pytest.mark.slow  # a run and its second half
def test_scores_of_sets_come_from_the_store_or_a_new_run(tmp_path) -> None:
    words = [
        "dataset=iris",
        "method=tood",
        "parent.n_estimators=5",
        "detector.set_size=20",
        "ood=permuted",
        "figures=none",
    ]
    (job,) = plan([*words, f"out={tmp_path}"]).jobs
    record = run(job.config)
    test, outside = (
        each.calibrated["ood_score"] for each in evaluation_of(record, tmp_path).predictions
    )
    assert (test.unit, test.set_size) == ("instance", 20)
    (tested,) = (
        e["value"] for e in record["metrics"] if (e["metric"], e["of"]) == ("auroc", "calibrated")
    )
    assert tested == pytest.approx(
        roc_auc_score(np.repeat([0, 1], [len(test), len(outside)]), np.concatenate([test, outside]))
    )
    shutil.rmtree(tmp_path / ".store")
    again = evaluation_of(record, tmp_path).predictions
    np.testing.assert_array_equal([each.calibrated["ood_score"] for each in again], [test, outside])
