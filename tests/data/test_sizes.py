from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.sizes import simulated_counts, table_counts
from kdgraph.errors import DataError, ParameterError


def sizes(n_train=None, n_calibration=None, n_test=None):
    return {"n_train": n_train, "n_calibration": n_calibration, "n_test": n_test}


@pytest.mark.parametrize(
    ("asked", "train", "calibration", "test"),
    [
        (sizes(), 1000, 430, 1000),
        (sizes(n_train=500), 500, 215, 1000),
        (sizes(n_train=500, n_calibration=10, n_test=7), 500, 10, 7),
    ],
)
def test_counts_of_a_simulation(asked, train, calibration, test):
    assert simulated_counts("spiral", asked) == {"n_train": train, "n_calibration": calibration, "n_test": test}


@pytest.mark.parametrize(
    ("n", "asked", "train", "calibration", "test"),
    [
        (178, sizes(), 87, 37, 54),  # wine
        (178, sizes(n_test=0.3), 87, 37, 54),
        (1000, sizes(n_train=100), 100, 43, 300),
        (1000, sizes(n_train=0.5), 350, 150, 300),
        (1000, sizes(n_train=0.5, n_calibration=0.5), 350, 350, 300),
        (1000, sizes(n_calibration=200, n_test=100), 700, 200, 100),
        (30, sizes(n_test=0.1, n_calibration=2), 25, 2, 3),  # 0.1 * 30 is 3.0000000000000004 in binary
    ],
)
def test_counts_of_a_table(n, asked, train, calibration, test):
    assert table_counts("wine", n, asked) == {"n_train": train, "n_calibration": calibration, "n_test": test}


size = st.none() | st.integers(0, 120) | st.floats(0.001, 1)


@settings(max_examples=200, deadline=None)
@given(n=st.integers(1, 100), asked=st.builds(sizes, size, size, size))
def test_counts_fit_into_the_table_or_an_error_says_why(n, asked):
    try:
        counts = table_counts("wine", n, asked)
    except DataError:
        return
    assert sum(counts.values()) <= n
    assert min(counts.values()) >= 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (sizes(n_test=200), "wine has 178 rows, too few for n_test 200; ask for fewer"),
        (
            sizes(n_train=100, n_test=60),
            "wine has 178 rows, too few for n_train 100 + n_calibration 43 + n_test 60; ask for fewer",
        ),
        (
            sizes(n_calibration=0),
            "wine: n_calibration is 0, and without such rows a calibrator needs 2 rows of each class; give a number of rows, "
            "or null for 30 % of the rows that fit and calibrate",
        ),
    ],
)
def test_tables_too_small(asked, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        table_counts("wine", 178, asked)


def test_a_simulation_has_no_shares():
    message = "n_test is the share 0.3, but spiral is a simulation, which has no fixed number of rows; give an integer"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        simulated_counts("spiral", sizes(n_test=0.3))


@pytest.mark.parametrize(("value", "got"), [(-1, "-1"), (2.5, "2.5"), ("half", "'half'"), (True, "True")])
def test_sizes_that_are_none(value, got):
    with pytest.raises(ParameterError, match=f"^n_train must be .*, got {re.escape(got)}$"):
        table_counts("wine", 178, sizes(n_train=value))
