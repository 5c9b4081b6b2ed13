"""What a run's model is made of, and whether a record is whole."""

from __future__ import annotations

import pytest

from kdgraph.errors import UsageError
from kdgraph.results.records import (
    OF_ENTRY,
    OF_RUN,
    WITHIN,
    after,
    chain,
    is_as_in_paper,
    lacking,
    refuse_incomplete,
    task_of,
)


@pytest.mark.parametrize(
    ("parts", "expected", "task"),
    [
        ({"calibrator": "none"}, "random_forest", "classification"),
        ({"calibrator": "kdf"}, "random_forest → kdf", "classification"),
        (
            {"calibrator": "isotonic", "gate": "density"},
            "random_forest → isotonic → density gate",
            "classification",
        ),
        ({"calibrator": "none", "detector": "tood"}, "random_forest → tood", "detection"),
        (
            {"calibrator": "kdf", "gate": "g", "detector": "d"},
            "random_forest → kdf → g gate → d",
            "detection",
        ),
        (
            {"calibrator": "none", "recalibrator": "global_pit", "prior": None},
            "random_forest → global_pit",
            "regression",
        ),
    ],
)
def test_every_part_is_named_in_the_order_in_which_it_is_fitted(
    record, parts, expected, task
) -> None:
    one = record(**parts)
    assert chain(one) == expected and task_of(one) == task
    assert after(one) == expected.replace(" gate", "").split(" → ")[1:]
    assert [is_as_in_paper(each) for each in (one, one | {"protocol": "paper"})] == [False, True]


@pytest.mark.parametrize(
    "key", [*OF_RUN, *(f"{group}.{name}" for group, names in WITHIN.items() for name in names)]
)
def test_a_key_that_is_not_there_is_named(record, key) -> None:
    one = record()
    assert lacking(one) is None
    group, _, name = key.rpartition(".")
    del (one[group] if group else one)[name]
    assert lacking(one) == key
    with pytest.raises(UsageError) as caught:
        refuse_incomplete(one, "outputs/spiral/kdf/1cb9f0a2")
    assert (
        str(caught.value)
        == f"outputs/spiral/kdf/1cb9f0a2/result.json lacks '{key}'; force=true runs it again"
    )


@pytest.mark.parametrize("key", OF_ENTRY)
def test_so_is_one_of_a_number(record, key) -> None:
    one = record()
    del one["metrics"][-1][key]
    assert lacking(one) == f"metrics.{key}"


@pytest.mark.parametrize("name", ["nll", "pit_histogram"])
def test_so_is_a_metric_or_a_table_of_which_nothing_is_said(record, name) -> None:
    one = record()
    one["files"]["tables"] = {"pit_histogram": "tables/pit_histogram.csv"}
    one["about_metrics"]["pit_histogram"] = {"label": "PIT histogram", "better": None}
    assert lacking(one) is None
    del one["about_metrics"][name]
    assert lacking(one) == f"about_metrics.{name}"


def test_a_group_that_is_no_mapping_is_named(record) -> None:
    assert lacking(record() | {"dataset": "spiral"}) == "dataset.name"
