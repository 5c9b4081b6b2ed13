"""The runs that scripts read."""

from __future__ import annotations

import pytest

from kdgraph.config import plan
from tests.experiments.p1_runs import SIMULATIONS
from tests.figures.conftest import assert_legible, texts_of  # noqa: F401
from tests.report.conftest import _browser, browser, phone  # noqa: F401


@pytest.fixture(scope="session")
def configs():
    """The experiment on one data set at 1,000 rows, for both parents, both variants and both
    distances, and two seeds.
    """
    return [
        job.config
        for job in plan(
            [f"experiment={SIMULATIONS}", "dataset=spiral", "dataset.n_train=1000", "seed=0,1"]
        ).jobs
    ]
