"""The cost of a stage is its own."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from kdgraph.runner.monitoring import measure_cost


def test_seconds_are_those_of_the_block():
    with measure_cost() as cost:
        time.sleep(0.05)
    assert 0.05 <= cost.seconds < 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_the_peak_of_an_earlier_stage_does_not_count():
    with measure_cost() as large:
        np.ones(30_000_000).sum()  # 240 MB
    with measure_cost() as small:
        pass
    assert large.peak_memory_mb > small.peak_memory_mb + 100


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_a_block_keeps_its_peak_across_an_inner_block():
    with measure_cost() as outer:
        np.ones(30_000_000).sum()
        with measure_cost() as inner:
            pass
    assert outer.peak_memory_mb > inner.peak_memory_mb + 100
    with measure_cost() as outer:
        with measure_cost() as inner:
            np.ones(30_000_000).sum()
        with measure_cost() as last:
            pass
    assert outer.peak_memory_mb >= inner.peak_memory_mb > last.peak_memory_mb + 100
