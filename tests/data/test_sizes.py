from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.sizes import RoleSizes, SplitSizes
from kdgraph.errors import DataError, ParameterError


def sizes(n_train=None, n_calibration=None, n_test=None):
    return SplitSizes(n_train=n_train, n_calibration=n_calibration, n_test=n_test)


@pytest.mark.parametrize(
    ("requested_sizes", "train", "calibration", "test"),
    [
        (sizes(), 1000, 430, 1000),
        (sizes(n_train=500), 500, 215, 1000),
        (sizes(n_train=500, n_calibration=10, n_test=7), 500, 10, 7),
    ],
)
def test_sizes_of_a_simulation(requested_sizes, train, calibration, test):
    assert requested_sizes.of_simulation("spiral") == RoleSizes(train, calibration, test)


@pytest.mark.parametrize(
    ("n", "requested_sizes", "train", "calibration", "test"),
    [
        (178, sizes(), 87, 37, 54),  # wine
        (178, sizes(n_test=0.3), 87, 37, 54),
        (1000, sizes(n_train=100), 100, 43, 300),
        (1000, sizes(n_train=0.5), 350, 150, 300),
        (1000, sizes(n_train=0.5, n_calibration=0.5), 350, 350, 300),
        (1000, sizes(n_calibration=200, n_test=100), 700, 200, 100),
        (
            30,
            sizes(n_test=0.1, n_calibration=2),
            25,
            2,
            3,
        ),  # 0.1 * 30 is 3.0000000000000004 in binary
    ],
)
def test_sizes_of_a_table(n, requested_sizes, train, calibration, test):
    assert requested_sizes.of_table("wine", n) == RoleSizes(train, calibration, test)


size = st.none() | st.integers(0, 120) | st.floats(0.001, 1)


@settings(max_examples=200, deadline=None)
@given(n=st.integers(1, 100), requested_sizes=st.builds(sizes, size, size, size))
def test_sizes_of_a_table_fit_or_raise(n, requested_sizes):
    try:
        counts = requested_sizes.of_table("wine", n)
    except DataError:
        return
    assert counts.total <= n
    assert min(counts.train, counts.calibration, counts.test) >= 1


@pytest.mark.parametrize(
    ("requested_sizes", "message"),
    [
        (sizes(n_test=200), "wine has 178 rows, too few for n_test 200; ask for fewer"),
        (
            sizes(n_train=100, n_test=60),
            (
                "wine has 178 rows, too few for n_train 100 + n_calibration 43 + n_test 60; ask for"
                " fewer"
            ),
        ),
        (
            sizes(n_calibration=0),
            (
                "wine: n_calibration is 0, and without such rows a calibrator needs 2 rows of each"
                " class; give a number of rows, or null for 30 % of the rows that fit and calibrate"
            ),
        ),
    ],
)
def test_tables_that_are_too_small_are_refused(requested_sizes, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        requested_sizes.of_table("wine", 178)


@pytest.mark.parametrize(
    ("requested_sizes", "expected"),
    [
        (sizes(n_test=1.0), RoleSizes(0, 0, 178)),
        (sizes(n_test=178), RoleSizes(0, 0, 178)),
        (sizes(), RoleSizes(0, 124, 54)),
    ],
)
def test_sizes_of_a_score_file(requested_sizes, expected):
    assert requested_sizes.of_scores("softmax", 178) == expected


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (
            lambda: sizes(n_test=100, n_calibration=0).of_scores("softmax", 178),
            "softmax: n_calibration is 0, and without such rows a calibrator needs 2 rows of each class",
        ),
        (
            lambda: sizes(n_test=0.3).of_simulation("spiral"),
            "n_test is the share 0.3, but spiral is a simulation, which has no fixed number of rows;"
            " give an integer",
        ),
    ],
    ids=["scores without calibration rows", "a fraction of a simulation"],
)
def test_sizes_without_meaning_are_refused(compute, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}"):
        compute()


@pytest.mark.parametrize(
    ("value", "shown_value"), [(-1, "-1"), (2.5, "2.5"), ("half", "'half'"), (True, "True")]
)
def test_invalid_sizes_are_refused(value, shown_value):
    with pytest.raises(ParameterError, match=f"^n_train must be .*, got {re.escape(shown_value)}$"):
        sizes(n_train=value)


@pytest.mark.parametrize(
    ("requested_sizes", "expected"),
    [
        (SplitSizes(n_learn=200), RoleSizes(140, 60, 300)),
        (SplitSizes(n_learn=0.5), RoleSizes(245, 105, 300)),
        (SplitSizes(n_learn=200, n_calibration=20), RoleSizes(180, 20, 300)),
        (SplitSizes(log_share=0), RoleSizes(70, 30, 300)),
        (SplitSizes(log_share=0.5), RoleSizes(186, 79, 300)),  # √(100 · 700) = 264.6
        (SplitSizes(log_share=1), RoleSizes(490, 210, 300)),
        (SplitSizes(log_share=1, max_learn=400, max_test=50), RoleSizes(280, 120, 50)),
        (SplitSizes(max_learn=400), RoleSizes(280, 120, 300)),
        (
            SplitSizes(n_train=600, max_learn=400, n_test=10, n_calibration=100),
            RoleSizes(600, 100, 10),
        ),  # a requested number is kept
    ],
)
def test_sizes_by_n_learn_log_share_and_limits(requested_sizes, expected):
    assert requested_sizes.of_table("thousand", 1000) == expected


@given(
    n=st.integers(400, 10**6), share=st.floats(0, 1), max_learn=st.none() | st.integers(100, 10**6)
)
def test_log_share_lies_between_100_rows_and_all(n, share, max_learn):
    counts = SplitSizes(log_share=share, max_learn=max_learn).of_table("table", n)
    upper_limit = min(n - counts.test, max_learn or n)
    assert 100 <= counts.train + counts.calibration <= max(upper_limit, 100)
    assert 0.69 <= counts.train / (counts.train + counts.calibration) <= 0.71


@pytest.mark.parametrize(
    ("requested_sizes", "expected"),
    [
        (SplitSizes(), RoleSizes(1000, 430, 1000)),
        (SplitSizes(n_learn=1000), RoleSizes(700, 300, 1000)),
        (SplitSizes(max_learn=500, max_test=100), RoleSizes(350, 150, 100)),
        (SplitSizes(max_learn=5000), RoleSizes(1000, 430, 1000)),
    ],
)
def test_n_learn_and_limits_of_a_simulation(requested_sizes, expected):
    assert requested_sizes.of_simulation("spiral") == expected


@pytest.mark.parametrize(
    ("requested_sizes", "prescribed", "expected"),
    [
        (SplitSizes(), RoleSizes(100, 0, 40), RoleSizes(70, 30, 40)),
        (SplitSizes(n_train=50, n_test=0.5), RoleSizes(100, 0, 40), RoleSizes(50, 22, 20)),
        (SplitSizes(max_learn=10, max_test=4), RoleSizes(100, 0, 40), RoleSizes(7, 3, 4)),
        (SplitSizes(), RoleSizes(100, 20, 40), RoleSizes(100, 20, 40)),
        (SplitSizes(n_train=0.5, n_calibration=5), RoleSizes(100, 20, 40), RoleSizes(50, 5, 40)),
    ],
)
def test_sizes_of_prescribed_roles(requested_sizes, prescribed, expected):
    assert requested_sizes.of_roles("mnist", prescribed) == expected


@pytest.mark.parametrize(
    ("requested_sizes", "description"),
    [
        (SplitSizes(n_train=90), "n_train 90 + n_calibration 39 + n_test 40"),
        (SplitSizes(n_test=41), "n_train 70 + n_calibration 30 + n_test 41"),
    ],
)
def test_more_rows_than_prescribed_are_refused(requested_sizes, description):
    message = (
        f"mnist comes with 100 training, 0 calibration and 40 test rows, too few for {description};"
        " ask for fewer, or give dataset.split=random"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        requested_sizes.of_roles("mnist", RoleSizes(100, 0, 40))


def test_n_train_and_n_learn_exclude_each_other():
    message = (
        "n_train and n_learn each set how many rows learn; give one of them, and null for the rest"
    )
    with pytest.raises(DataError, match=f"^{message}$"):
        SplitSizes(n_train=100, n_learn=100)


def test_simulation_refuses_log_share():
    with pytest.raises(
        DataError,
        match=r"^log_share is a share of a table's rows, but spiral is a simulation; give n_learn$",
    ):
        SplitSizes(log_share=0.5).of_simulation("spiral")


@pytest.mark.parametrize(
    ("requested_sizes", "expected"),
    [
        (SplitSizes(n_test="rest", max_learn=100), RoleSizes(70, 30, 900)),
        (SplitSizes(n_test="rest", max_learn=100, max_test=50), RoleSizes(70, 30, 50)),
        (SplitSizes(n_test="rest", n_learn=0.2), RoleSizes(140, 60, 800)),
        (SplitSizes(n_test="rest", n_train=200, n_calibration=100), RoleSizes(200, 100, 700)),
    ],
)
def test_the_rest_of_a_table_tests(requested_sizes, expected):
    assert requested_sizes.of_table("letters", 1000) == expected


def test_the_rest_of_scores_and_of_prescribed_rows_tests():
    sizes = SplitSizes(n_test="rest", max_learn=100)
    assert sizes.of_scores("votes", 1000) == RoleSizes(0, 100, 900)
    assert sizes.of_roles("mnist", RoleSizes(500, 0, 40)) == RoleSizes(70, 30, 40)


def test_a_rest_without_rows_is_refused():
    message = (
        "letters: n_test=rest leaves no row of 100 that tests, since 100 fit and calibrate; give"
        " max_learn, or a smaller size"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        SplitSizes(n_test="rest").of_table("letters", 100)
    message = "n_test is the rest of a table's rows, but spiral is a simulation; give an integer"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        SplitSizes(n_test="rest").of_simulation("spiral")
