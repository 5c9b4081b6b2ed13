"""Filters of runs, against their documented meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.errors import UsageError
from kdgraph.results.records import parse_filter, refuse_unknown_filters, value_text


@pytest.mark.parametrize(
    ("word", "passes"),
    [
        ("dataset=spiral", True),
        ("dataset=circle,spiral", True),
        ("dataset=sp*", True),
        ("dataset=spira", False),
        ("dataset!=spiral", False),
        ("dataset!=circle", True),
        ("method=kdf", True),
        ("calibrator=kdf", True),
        ("parent=random_forest", True),
        ("gate=none", True),
        ("ood=sphere", True),
        ("seed=0", True),
        ("seed=0.0", True),
        ("seed=00", True),
        ("seed=1", False),
        ("dataset.n_train=100", True),
        ("dataset.n_train=1e2", True),
        ("dataset.n_train=10", False),
        ("calibrator.alpha=5e-3", True),
        ("calibrator.robust=true", True),
        ("calibrator.robust=True", False),
        ("calibrator.robust=1", False),
        ("parent.max_depth=null", True),
        ("parent.max_depth!=null", False),
        ("calibrator.layers=[200,200]", True),
        ("calibrator.layers=[100], [200, 200]", True),
        ("calibrator.layers=[200]", False),
        ("parent.hidden=[200]", False),  # it has none
        ("parent.hidden!=[200]", True),
    ],
)
def test_a_value_is_a_name_a_pattern_a_number_or_a_list(record, word, passes) -> None:
    assert parse_filter(word).passes(record()) == passes


KEYS = st.sampled_from(["dataset", "seed", "gate.alpha", "calibrator.layers"])
VALUES = st.lists(st.sampled_from(["0", "1", "spiral", "[200,200]", "*l"]))


@given(KEYS, VALUES)
def test_unlike_is_the_opposite_of_like(key, values) -> None:
    from tests.results.conftest import make_record

    text = ",".join(values or ["x"])
    run = make_record()
    assert parse_filter(f"{key}={text}").passes(run) != parse_filter(f"{key}!={text}").passes(run)


@pytest.mark.parametrize("word", ["spiral", "=spiral", "dataset=", "data set=x"])
def test_a_word_that_is_no_filter_is_refused(word) -> None:
    with pytest.raises(UsageError) as caught:
        parse_filter(word)
    assert str(caught.value) == f"a filter is key=value[,value…] or key!=value, got '{word}'"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("datset=a", "unknown key 'datset'; did you mean 'dataset'?"),
        (
            "parent.n_estimator=5",
            "unknown key 'parent.n_estimator'; did you mean 'parent.n_estimators'?",
        ),
        ("parent.zzz=5", "unknown key 'parent.zzz' (parent has: max_depth, n_estimators, name)"),
        ("dataset=spirl", "no run has dataset=spirl; did you mean 'spiral'?"),
        ("seed=7", "no run has seed=7; they have 0, 1"),
    ],
)
def test_what_no_run_has_is_named_with_what_there_is(record, word, message) -> None:
    with pytest.raises(UsageError) as caught:
        refuse_unknown_filters([parse_filter(word)], [record(), record("circle", seed=1)])
    assert str(caught.value) == message


def test_nothing_is_wrong_with_filters_that_some_run_has(record) -> None:
    refuse_unknown_filters(
        [
            parse_filter("dataset=spiral"),
            parse_filter("seed!=9"),
            parse_filter("parent.n_estimators=500"),
        ],
        [record()],
    )


def test_values_are_written_as_on_a_command_line() -> None:
    assert value_text({"a": [1, None], "b": False}) == "{a:[1,null],b:false}"


def test_whole_numbers_are_compared_to_the_last_digit(record) -> None:
    run = record(seed=2**53 + 1)
    assert parse_filter(f"seed={2**53 + 1}").passes(run) and not parse_filter(
        f"seed={2**53}"
    ).passes(run)
    assert (
        parse_filter("seed=1e2").passes(record(seed=100))
        and not parse_filter("seed=nan").passes(run)
        and parse_filter("seed!=snan").passes(run)
    )
