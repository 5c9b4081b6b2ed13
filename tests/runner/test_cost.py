"""The cost of a stage is its own."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from kdgraph.runner.cost import measured


def test_seconds_are_those_of_the_block():
    with measured() as cost:
        time.sleep(0.05)
    assert 0.05 <= cost.seconds < 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_the_peak_of_an_earlier_stage_does_not_count():
    with measured() as large:
        np.ones(30_000_000).sum()  # 240 MB
    with measured() as small:
        pass
    assert large.peak_memory_mb > small.peak_memory_mb + 100
